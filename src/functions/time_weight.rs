//! `time_weight(method, time, value)`: the integral of a value over time, and with it the average weighted by time.
//!
//! LOCF: a value holds until the next one. Linear: the value moves on the straight line between two. Of several values at one
//! time the greatest counts.
use super::errors::{invalid, raise, Code};
use super::points::{state, transition, Parameters, Point};
use crate::pg::composite::{float, result_row, text};
use crate::pg::fcinfo::{
    arg_opt, guarded, null, plain_text_bytes, raw_arg, sql_function, text_bytes, Fcinfo,
};
use crate::pg::Datum;

const LOCF: i64 = 0;
const LINEAR: i64 = 1;

fn method_of(name: &[u8]) -> Option<i64> {
    if name.eq_ignore_ascii_case(b"locf") {
        Some(LOCF)
    } else if name.eq_ignore_ascii_case(b"linear") {
        Some(LINEAR)
    } else {
        None
    }
}

/// # Safety
/// `fcinfo` is a transition call; must run inside a guarded entry point.
unsafe fn method_argument(fcinfo: Fcinfo) -> Parameters {
    // SAFETY: the caller's promise: the second argument is a text.
    let Some(name) = (unsafe { arg_opt(fcinfo, 1).map(|name| text_bytes(name)) }) else {
        raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "the method of time_weight must not be null",
            "",
            "Use 'LOCF' or 'linear'.",
        )
    };
    match method_of(name) {
        Some(method) => Parameters::Number(method),
        None => invalid(
            format!("unknown method \"{}\"", String::from_utf8_lossy(name)),
            "Use 'LOCF' or 'linear'.",
        ),
    }
}

sql_function! {
    /// Transition function.
    fn varve_time_weight_transition(fcinfo) {
        // SAFETY: declared (internal, text, timestamptz, float8) for an aggregate.
        unsafe {
            let unchanged = |known| {
                let name = raw_arg(fcinfo, 1);
                let plain = if name.isnull { None } else { plain_text_bytes(name.value) };
                plain.and_then(method_of).is_some_and(|method| known == Parameters::Number(method))
            };
            transition(fcinfo, 2, 3, || method_argument(fcinfo), unchanged)
        }
    }
}

/// Value times seconds between two neighbours.
fn area(method: i64, from: Point, to: Point) -> f64 {
    let value = if method == LOCF {
        from.value
    } else {
        from.value / 2.0 + to.value / 2.0
    };
    value * from.seconds_to(to)
}

sql_function! {
    /// Final function: (method, first_time, first_value, last_time, last_value, integral).
    fn varve_time_weight_final(fcinfo) {
        // SAFETY: declared for a state of points and this result.
        unsafe {
            let Some(state) = state(fcinfo) else { return null(fcinfo) };
            guarded(|| {
                let method = if state.parameters == Parameters::Number(LOCF) { LOCF } else { LINEAR };
                let points = distinct_times(state.sorted());
                let integral: f64 = points.windows(2).fold(0.0, |sum, pair| sum + area(method, pair[0], pair[1]));
                let (first, last) = (points[0], points[points.len() - 1]);
                let name: &[u8] = if method == LOCF { b"LOCF" } else { b"linear" };
                result_row(fcinfo, &[
                    text(name),
                    Some(Datum::from(first.time)),
                    float(first.value),
                    Some(Datum::from(last.time)),
                    float(last.value),
                    float(integral),
                ])
            })
        }
    }
}

/// One point per time, the greatest.
fn distinct_times(points: &[Point]) -> Vec<Point> {
    let mut distinct: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        match distinct.last_mut() {
            Some(last) if last.time == point.time => *last = *point,
            _ => distinct.push(*point),
        }
    }
    distinct
}
