//! `histogram(value, min, max, buckets)`: how many values fall into each of equally wide buckets, and below and above them.
use super::aggregate::{context, place, Reader, Writer};
use super::errors::{invalid, raise, Code};
use crate::pg::composite::integer_array;
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, raw_arg, sql_function, Fcinfo};
use crate::pg::memory::{self, Context};
use crate::pg::Datum;

/// An array of counts stays far below palloc's limit.
const MAX_BUCKETS: i32 = 1_000_000;

struct State {
    min: f64,
    max: f64,
    buckets: i32,
    /// `buckets` + 2 of them: below min, the buckets, max and above.
    counts: *mut i64,
}

impl State {
    /// # Safety
    /// `context` is valid; must run inside a guarded entry point. The arguments are checked.
    unsafe fn new(context: Context, min: f64, max: f64, buckets: i32) -> State {
        let bytes = (buckets as usize + 2) * size_of::<i64>();
        // SAFETY: the caller's promise; zeroes are valid counts.
        let counts = unsafe { context.alloc_zeroed(bytes) };
        State {
            min,
            max,
            buckets,
            counts: counts.cast(),
        }
    }

    /// # Safety
    /// The state is one that `new` made.
    #[inline(always)]
    unsafe fn counts(&mut self) -> &mut [i64] {
        // SAFETY: `new` allocated as many.
        unsafe { std::slice::from_raw_parts_mut(self.counts, self.buckets as usize + 2) }
    }

    #[inline(always)]
    fn index(&self, value: f64) -> usize {
        if value < self.min {
            return 0;
        }
        if value >= self.max {
            return self.buckets as usize + 1;
        }
        let mut part = (value - self.min) / (self.max - self.min);
        if !part.is_finite() || self.max - self.min == f64::INFINITY {
            part = (value / 2.0 - self.min / 2.0) / (self.max / 2.0 - self.min / 2.0);
        }
        1 + (part * f64::from(self.buckets)).min(f64::from(self.buckets - 1)) as usize
    }
}

#[cold]
fn bad_argument(message: &str, hint: &str) -> ! {
    raise(
        Code::ERRCODE_INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
        message,
        "",
        hint,
    )
}

fn check(min: f64, max: f64, buckets: i32) {
    if buckets <= 0 {
        bad_argument("the number of buckets must be greater than zero", "");
    }
    if buckets > MAX_BUCKETS {
        raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            "too many buckets",
            "",
            "The limit is 1000000.",
        );
    }
    if !min.is_finite() || !max.is_finite() {
        bad_argument("the bounds of a histogram must be finite", "");
    }
    if min == max {
        bad_argument("the bounds of a histogram must differ", "");
    }
    if min > max {
        invalid(
            "the lower bound of a histogram must be less than the upper",
            "Swap the bounds.",
        );
    }
}

/// The bounds and the number of buckets of a row, which are the same in all rows of a group.
///
/// # Safety
/// `fcinfo` is a call of (internal, float8, float8, float8, integer).
unsafe fn bounds(fcinfo: Fcinfo) -> (f64, f64, i32) {
    // SAFETY: the caller's promise.
    let [min, max, buckets] =
        unsafe { [arg_opt(fcinfo, 2), arg_opt(fcinfo, 3), arg_opt(fcinfo, 4)] };
    match (min, max, buckets) {
        (Some(min), Some(max), Some(buckets)) => (float(min), float(max), buckets.value() as i32),
        _ => raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "the bounds and the number of buckets of a histogram must not be null",
            "",
            "",
        ),
    }
}

fn float(datum: Datum) -> f64 {
    f64::from_bits(datum.value() as u64)
}

sql_function! {
    /// Transition function.
    fn varve_histogram_transition(fcinfo) {
        // SAFETY: declared (internal, float8, float8, float8, integer) for an aggregate.
        unsafe {
            let (state, value) = (raw_arg(fcinfo, 0), raw_arg(fcinfo, 1));
            if value.isnull {
                fcinfo.set_null(state.isnull);
                return state.value;
            }
            let value = float(value.value);
            if !state.isnull && !value.is_nan() {
                let known = &mut *state.value.cast_mut_ptr::<State>();
                let [min, max, buckets] = [raw_arg(fcinfo, 2), raw_arg(fcinfo, 3), raw_arg(fcinfo, 4)];
                let same = !(min.isnull | max.isnull | buckets.isnull)
                    && float(min.value) == known.min
                    && float(max.value) == known.max
                    && buckets.value.value() as i32 == known.buckets;
                if same {
                    let index = known.index(value);
                    known.counts()[index] += 1;
                    return state.value;
                }
            }
            guarded(|| {
                let (min, max, buckets) = bounds(fcinfo);
                check(min, max, buckets);
                if value.is_nan() {
                    bad_argument("a histogram has no bucket for NaN", "Leave such values out: FILTER (WHERE value <> 'NaN').");
                }
                if !state.isnull {
                    invalid("the bounds and the number of buckets of a histogram must not change within a group", "");
                }
                let context = context(fcinfo);
                let mut new = State::new(context, min, max, buckets);
                let index = new.index(value);
                new.counts()[index] += 1;
                Datum::from(place(context, new))
            })
        }
    }
}

sql_function! {
    /// Combine function.
    fn varve_histogram_combine(fcinfo) {
        // SAFETY: declared (internal, internal) for an aggregate.
        unsafe {
            let Some(other) = arg_opt(fcinfo, 1) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let other = &mut *other.cast_mut_ptr::<State>();
                let state = match arg_opt(fcinfo, 0) {
                    Some(state) => state.cast_mut_ptr::<State>(),
                    None => {
                        let context = context(fcinfo);
                        place(context, State::new(context, other.min, other.max, other.buckets))
                    }
                };
                let sum = &mut *state;
                if (sum.min, sum.max, sum.buckets) != (other.min, other.max, other.buckets) {
                    invalid("the bounds and the number of buckets of a histogram must not change within a group", "");
                }
                sum.counts().iter_mut().zip(other.counts()).for_each(|(sum, count)| *sum += *count);
                Datum::from(state)
            })
        }
    }
}

sql_function! {
    /// Serialization function. Strict.
    fn varve_histogram_serialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is our state.
            unsafe {
                let state = &mut *arg(fcinfo, 0).cast_mut_ptr::<State>();
                let mut out = Writer::default();
                out.f64(state.min).f64(state.max).u32(state.buckets as u32);
                state.counts().iter().for_each(|count| {
                    out.i64(*count);
                });
                out.finish()
            }
        })
    }
}

sql_function! {
    /// Deserialization function. Strict.
    fn varve_histogram_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote.
            unsafe {
                let mut input = Reader::new(arg(fcinfo, 0));
                let (min, max, buckets) = (input.f64(), input.f64(), input.u32() as i32);
                let context = memory::current();
                let mut state = State::new(context, min, max, buckets);
                state.counts().iter_mut().for_each(|count| *count = input.i64());
                Datum::from(place(context, state))
            }
        })
    }
}

sql_function! {
    /// Final function: an array of the counts.
    fn varve_histogram_final(fcinfo) {
        // SAFETY: the argument is our state or NULL.
        unsafe {
            let Some(state) = arg_opt(fcinfo, 0) else { return null(fcinfo) };
            guarded(|| {
                let counts = (*state.cast_mut_ptr::<State>()).counts();
                let elements = counts.iter().map(|count| {
                    i32::try_from(*count).unwrap_or_else(|_| {
                        raise(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range", "", "")
                    })
                });
                integer_array(elements)
            })
        }
    }
}
