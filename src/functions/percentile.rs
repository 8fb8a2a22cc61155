//! `percentile_agg(value)` and what reads its sketches: percentiles within one percent of the value, mergeable.
//!
//! DDSketch (C. Masson, J. Rim, H. Lee, VLDB 2019) by the crate sketches-ddsketch: logarithmic buckets, so that a percentile is
//! within 1 % of a value of that rank, and counts that add up: a sketch does not depend on the order or the grouping in which
//! values arrive. Its 2,048 buckets span a factor of 10^17; values further below the greatest share the lowest bucket.
//!
//! Bytes of a sketch: version 1, then the crate's encoding, which DataDog's other implementations read.
use super::aggregate::context;
use super::errors::{invalid, raise, Code};
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, raw_arg, sql_function, text_bytes, Fcinfo};
use crate::pg::memory::own;
use crate::pg::varlena::bytea;
use crate::pg::Datum;
use sketches_ddsketch::{Config, DDSketch};

const VERSION: u8 = 1;

struct Sketch(DDSketch);

impl Sketch {
    fn empty() -> Sketch {
        Sketch(DDSketch::new(Config::defaults()))
    }

    fn merge(&mut self, other: &Sketch) {
        self.0
            .merge(&other.0)
            .expect("BUG: all sketches have the same configuration");
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.0.to_java_bytes());
        bytes
    }

    /// A sketch that a user may have made up: None for bytes that are none.
    fn from_bytes(bytes: &[u8]) -> Option<Sketch> {
        let (version, body) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        // The decoder takes the range of keys for granted; a panic over them, or in merging, means bad bytes.
        let checked = std::panic::catch_unwind(|| {
            let sketch = DDSketch::from_java_bytes(body).ok()?;
            let (min, max) = (sketch.min()?, sketch.max()?);
            let mut merged = Sketch::empty();
            (min <= max && min.is_finite() && max.is_finite() && merged.0.merge(&sketch).is_ok())
                .then_some(merged)
        });
        checked.ok()?
    }

    /// The value of a rank between 0 and 1.
    fn percentile(&self, rank: f64) -> Option<f64> {
        let value = self.0.quantile(rank).ok()??;
        Some(value.clamp(self.0.min()?, self.0.max()?))
    }
}

/// # Safety
/// `datum` is a bytea; must run inside a guarded entry point.
unsafe fn sketch_of(datum: Datum) -> Sketch {
    // SAFETY: the caller's promise.
    match Sketch::from_bytes(unsafe { text_bytes(datum) }) {
        Some(sketch) => sketch,
        None => raise(
            Code::ERRCODE_INVALID_BINARY_REPRESENTATION,
            "not a percentile sketch",
            "The bytes were not written by percentile_agg of this version.",
            "Build the sketch anew with percentile_agg.",
        ),
    }
}

/// The state of the first argument, or a new one.
///
/// # Safety
/// `fcinfo` is an aggregate's call whose first argument is our state or NULL; must run inside a guarded entry point.
unsafe fn state_or_new<'a>(fcinfo: Fcinfo) -> &'a mut Sketch {
    // SAFETY: the caller's promise; a state lives as long as the aggregate's context.
    unsafe {
        match arg_opt(fcinfo, 0) {
            Some(state) => &mut *state.cast_mut_ptr::<Sketch>(),
            None => &mut *own(context(fcinfo), Sketch::empty()),
        }
    }
}

sql_function! {
    /// Transition function of `percentile_agg`. NULL and NaN do not count.
    fn varve_percentile_transition(fcinfo) {
        // SAFETY: declared (internal, float8) for an aggregate.
        unsafe {
            let (state, value) = (raw_arg(fcinfo, 0), raw_arg(fcinfo, 1));
            let number = f64::from_bits(value.value.value() as u64);
            if value.isnull || number.is_nan() {
                fcinfo.set_null(state.isnull);
                return state.value;
            }
            guarded(|| {
                if number.is_infinite() {
                    invalid("percentile_agg takes finite values only", "Leave infinite values out with FILTER.");
                }
                let sketch = state_or_new(fcinfo);
                sketch.0.add(number);
                Datum::from(sketch as *mut Sketch)
            })
        }
    }
}

sql_function! {
    /// Transition function of `rollup`: merges sketches.
    fn varve_percentile_rollup_transition(fcinfo) {
        // SAFETY: declared (internal, bytea) for an aggregate.
        unsafe {
            let Some(sketch) = arg_opt(fcinfo, 1) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let other = sketch_of(sketch);
                let sketch = state_or_new(fcinfo);
                sketch.merge(&other);
                Datum::from(sketch as *mut Sketch)
            })
        }
    }
}

sql_function! {
    /// Combine function.
    fn varve_percentile_combine(fcinfo) {
        // SAFETY: declared (internal, internal) for an aggregate.
        unsafe {
            let Some(other) = arg_opt(fcinfo, 1) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let sketch = state_or_new(fcinfo);
                sketch.merge(&*other.cast_mut_ptr::<Sketch>());
                Datum::from(sketch as *mut Sketch)
            })
        }
    }
}

sql_function! {
    /// Serialization function, strict, and final function: the bytes of the sketch.
    fn varve_percentile_bytes(fcinfo) {
        // SAFETY: the argument is our state or NULL.
        unsafe {
            let Some(state) = arg_opt(fcinfo, 0) else { return null(fcinfo) };
            guarded(|| bytea(&(*state.cast_mut_ptr::<Sketch>()).to_bytes()))
        }
    }
}

sql_function! {
    /// Deserialization function. Strict.
    fn varve_percentile_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote; the state lives in the current context.
            unsafe { Datum::from(own(crate::pg::memory::current(), sketch_of(arg(fcinfo, 0)))) }
        })
    }
}

sql_function! {
    /// `approx_percentile(rank, sketch)`. Strict.
    fn varve_approx_percentile(fcinfo) {
        guarded(|| {
            // SAFETY: declared (float8, bytea).
            unsafe {
                let rank = f64::from_bits(arg(fcinfo, 0).value() as u64);
                if !(0.0..=1.0).contains(&rank) {
                    invalid("percentile must lie between 0 and 1", "0.95 is the 95th percentile.");
                }
                match sketch_of(arg(fcinfo, 1)).percentile(rank) {
                    Some(value) => Datum::from(value.to_bits()),
                    None => null(fcinfo),
                }
            }
        })
    }
}

sql_function! {
    /// `num_vals(sketch)`. Strict.
    fn varve_percentile_count(fcinfo) {
        // SAFETY: declared (bytea).
        guarded(|| unsafe { Datum::from(sketch_of(arg(fcinfo, 0)).0.count() as i64) })
    }
}
