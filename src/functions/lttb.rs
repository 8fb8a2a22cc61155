//! `lttb(time, value, points)`: the points that keep the shape of a line when only so many can be drawn.
//!
//! Largest triangle, three buckets (S. Steinarsson, "Downsampling Time Series for Visual Representation", 2013): the first and
//! the last point stay; the others are split by number into equal buckets, and each bucket gives the point that makes the
//! largest triangle with the point chosen before and the average of the next bucket.
use super::errors::{invalid, raise, Code};
use super::points::{state, transition, Parameters, Point};
use crate::pg::composite::{float, result_array};
use crate::pg::fcinfo::{arg_opt, guarded, null, raw_arg, sql_function, Fcinfo};
use crate::pg::Datum;

/// # Safety
/// `fcinfo` is a transition call; must run inside a guarded entry point.
unsafe fn count_argument(fcinfo: Fcinfo) -> Parameters {
    // SAFETY: the caller's promise: the last argument is an integer.
    match unsafe { arg_opt(fcinfo, 3) }.map(|count| count.value() as i32) {
        Some(count) if count >= 2 => Parameters::Number(count.into()),
        Some(_) => invalid(
            "lttb needs two points at least",
            "The first and the last point are always among them.",
        ),
        None => raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "the number of points of lttb must not be null",
            "",
            "",
        ),
    }
}

sql_function! {
    /// Transition function.
    fn varve_lttb_transition(fcinfo) {
        // SAFETY: declared (internal, timestamptz | timestamp, float8, integer) for an aggregate.
        unsafe {
            let unchanged = |known| {
                let count = raw_arg(fcinfo, 3);
                !count.isnull && known == Parameters::Number((count.value.value() as i32).into())
            };
            transition(fcinfo, 1, 2, || count_argument(fcinfo), unchanged)
        }
    }
}

sql_function! {
    /// Final function: an array of (time, value).
    fn varve_lttb_final(fcinfo) {
        // SAFETY: declared for a state of points and this result.
        unsafe {
            let Some(state) = state(fcinfo) else { return null(fcinfo) };
            guarded(|| {
                let Parameters::Number(count) = state.parameters else { panic!("BUG: lttb without a number of points") };
                let chosen = downsample(state.sorted(), count as usize);
                result_array(fcinfo, chosen.into_iter().map(|p| [Some(Datum::from(p.time)), float(p.value)]))
            })
        }
    }
}

fn downsample(points: &[Point], count: usize) -> Vec<Point> {
    if points.len() <= count {
        return points.to_vec();
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let mut chosen = vec![first];
    let buckets = count - 2;
    // The start of bucket n among the inner points; integer arithmetic, so that the buckets do not drift.
    let start = |n: usize| 1 + ((points.len() - 2) as u128 * n as u128 / buckets as u128) as usize;
    let mut previous = first;
    for n in 0..buckets {
        let next = if n + 1 < buckets {
            &points[start(n + 1)..start(n + 2)]
        } else {
            &points[points.len() - 1..]
        };
        // Seconds since the first point: doubles hold them exactly enough.
        let x = |p: Point| first.seconds_to(p);
        let average_x = next.iter().map(|p| x(*p)).sum::<f64>() / next.len() as f64;
        let average_y = next.iter().map(|p| p.value).sum::<f64>() / next.len() as f64;
        let area = |p: Point| {
            ((x(previous) - average_x) * (p.value - previous.value)
                - (x(previous) - x(p)) * (average_y - previous.value))
                .abs()
        };
        let bucket = &points[start(n)..start(n + 1)];
        let mut best = bucket[0];
        let mut best_area = area(best);
        for point in &bucket[1..] {
            let area = area(*point);
            if area > best_area {
                (best, best_area) = (*point, area);
            }
        }
        chosen.push(best);
        previous = best;
    }
    chosen.push(last);
    chosen
}
