//! Counters and gauges: `rate`, `increase`, `delta`, `irate`, `resets`.
//!
//! A counter only grows, except when it is reset to zero: a sample below the one before it is a reset, and what the counter
//! showed before is added to everything after. A window of samples misses what happened between its edges and its first and
//! last sample. Without a range, these functions answer for the time from the first to the last sample. With a range they
//! extrapolate as Prometheus does (promql, `extrapolatedRate`): to an edge that is nearer than 1.1 average distances between
//! samples, else by half an average distance; and a counter not further back than to where it would have been zero.
use super::points::{seconds, state, Parameters, Point};
use crate::pg::fcinfo::{guarded, null, sql_function, Fcinfo};
use crate::pg::Datum;

/// How far an edge of the range may be from a sample, in average distances, to be extrapolated to.
const EXTRAPOLATION_LIMIT: f64 = 1.1;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
}

/// The samples that count: those in the range, and of several at one time the greatest.
fn samples(points: &[Point], parameters: Parameters) -> Vec<Point> {
    let mut samples: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        if let Parameters::Range(start, end) = parameters {
            if point.time < start || point.time > end {
                continue;
            }
        }
        match samples.last_mut() {
            Some(last) if last.time == point.time => *last = *point,
            _ => samples.push(*point),
        }
    }
    samples
}

/// What a counter has counted, or how far a gauge has moved, from the first to the last sample.
fn difference(samples: &[Point], kind: Kind) -> f64 {
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let mut difference = last.value - first.value;
    if kind == Kind::Counter {
        let resets = samples
            .windows(2)
            .filter(|pair| pair[1].value < pair[0].value);
        difference += resets.fold(0.0, |sum, pair| sum + pair[0].value);
    }
    difference
}

/// The factor from the sampled time to the range.
fn extrapolation(samples: &[Point], difference: f64, kind: Kind, start: i64, end: i64) -> f64 {
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let sampled = first.seconds_to(last);
    let average_distance = sampled / (samples.len() - 1) as f64;
    let reach = |distance: f64| {
        if distance < average_distance * EXTRAPOLATION_LIMIT {
            distance
        } else {
            average_distance / 2.0
        }
    };
    let mut before = reach(seconds(start, first.time));
    if kind == Kind::Counter && difference > 0.0 && first.value >= 0.0 {
        before = before.min(sampled * (first.value / difference));
    }
    (sampled + before + reach(seconds(last.time, end))) / sampled
}

/// Increase or delta, and the seconds that it is for; None with fewer than two samples.
fn change(points: &[Point], parameters: Parameters, kind: Kind) -> Option<(f64, f64)> {
    let samples = samples(points, parameters);
    if samples.len() < 2 {
        return None;
    }
    let difference = difference(&samples, kind);
    match parameters {
        Parameters::Range(start, end) => Some((
            difference * extrapolation(&samples, difference, kind, start, end),
            seconds(start, end),
        )),
        _ => Some((
            difference,
            samples[0].seconds_to(samples[samples.len() - 1]),
        )),
    }
}

/// # Safety
/// `fcinfo` is a call of a final function of a state of points.
unsafe fn answer(fcinfo: Fcinfo, of: impl Fn(&[Point], Parameters) -> Option<f64>) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let result = guarded(|| {
            state(fcinfo).and_then(|state| {
                let parameters = state.parameters;
                of(state.sorted(), parameters)
            })
        });
        match result {
            Some(number) => Datum::from(number.to_bits()),
            None => null(fcinfo),
        }
    }
}

sql_function! {
    /// Final function of `rate`.
    fn varve_rate_final(fcinfo) {
        // SAFETY: declared for a state of points.
        unsafe { answer(fcinfo, |points, range| change(points, range, Kind::Counter).map(|(by, seconds)| by / seconds)) }
    }
}

sql_function! {
    /// Final function of `increase`.
    fn varve_increase_final(fcinfo) {
        // SAFETY: declared for a state of points.
        unsafe { answer(fcinfo, |points, range| change(points, range, Kind::Counter).map(|(by, _)| by)) }
    }
}

sql_function! {
    /// Final function of `delta`.
    fn varve_delta_final(fcinfo) {
        // SAFETY: declared for a state of points.
        unsafe { answer(fcinfo, |points, range| change(points, range, Kind::Gauge).map(|(by, _)| by)) }
    }
}

sql_function! {
    /// Final function of `irate`: the rate between the last two samples.
    fn varve_irate_final(fcinfo) {
        // SAFETY: declared for a state of points.
        unsafe {
            answer(fcinfo, |points, range| {
                let samples = samples(points, range);
                let last_two = samples.last_chunk::<2>()?;
                Some(difference(last_two, Kind::Counter) / last_two[0].seconds_to(last_two[1]))
            })
        }
    }
}

sql_function! {
    /// Final function of `resets`: a bigint.
    fn varve_resets_final(fcinfo) {
        // SAFETY: declared for a state of points.
        unsafe {
            match state(fcinfo) {
                Some(state) => guarded(|| {
                    let samples = samples(state.sorted(), Parameters::None);
                    let resets = samples.windows(2).filter(|pair| pair[1].value < pair[0].value).count();
                    Datum::from(resets as i64)
                }),
                None => null(fcinfo),
            }
        }
    }
}
