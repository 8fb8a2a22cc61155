//! `first(value, time)` and `last(value, time)`: the value at the least and at the greatest time, of any types.
//!
//! Times are compared by their type's btree ordering, with the collation of the call. Rows whose time is NULL do not count;
//! a NULL value does. Of equal times the one that arrives first stays.
use super::aggregate::{context, place, Reader, Writer};
use super::errors::{raise, Code};
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, raw_arg, sql_function, Fcinfo};
use crate::pg::memory::{self, Context};
use crate::pg::types::{
    Comparison, DATEOID, FLOAT8OID, INT2OID, INT4OID, INT8OID, TIMEOID, TIMESTAMPOID,
    TIMESTAMPTZOID,
};
use crate::pg::value_layout::{copy_bytes, Layout};
use crate::pg::{Datum, NullableDatum, Oid};
use std::cmp::Ordering;

/// How times are compared: the usual types without a call.
#[derive(Clone, Copy, PartialEq)]
enum Compare {
    Int64,
    Int32,
    Int16,
    Float64,
    Function,
}

struct State {
    value: Datum,
    value_is_null: bool,
    /// The time is set from the start: a state is made for a row.
    time: Datum,
    compare: Compare,
    value_layout: Layout,
    time_layout: Layout,
    types: [Oid; 2],
    collation: Oid,
    comparison: Comparison,
    context: Context,
}

impl State {
    /// # Safety
    /// `context` is valid; must run inside a guarded entry point. The caller sets value and time.
    unsafe fn new(context: Context, types: [Oid; 2], collation: Oid) -> State {
        let compare = match types[1] {
            TIMESTAMPTZOID | TIMESTAMPOID | INT8OID | TIMEOID => Compare::Int64,
            INT4OID | DATEOID => Compare::Int32,
            INT2OID => Compare::Int16,
            FLOAT8OID => Compare::Float64,
            _ => Compare::Function,
        };
        let comparison = Comparison::of(types[1]).unwrap_or_else(|| {
            raise(
                Code::ERRCODE_UNDEFINED_FUNCTION,
                "the second argument of first and last has a type without an ordering",
                "A btree operator class for the type is needed.",
                "Cast the argument, for example to timestamptz.",
            )
        });
        State {
            value: Datum::from(0usize),
            value_is_null: true,
            time: Datum::from(0usize),
            compare,
            value_layout: Layout::of(types[0]),
            time_layout: Layout::of(types[1]),
            types,
            collation,
            comparison,
            context,
        }
    }

    /// Whether comparing and keeping rows calls nothing.
    fn is_plain(&self) -> bool {
        self.compare != Compare::Function && self.value_layout.by_value
    }

    /// # Safety
    /// `time` is a non-null time of this state's type; inside a guarded entry point unless the comparison is a plain one.
    #[inline(always)]
    unsafe fn compare(&self, time: Datum) -> Ordering {
        let (a, b) = (time, self.time);
        match self.compare {
            Compare::Int64 => (a.value() as i64).cmp(&(b.value() as i64)),
            Compare::Int32 => (a.value() as i32).cmp(&(b.value() as i32)),
            Compare::Int16 => (a.value() as i16).cmp(&(b.value() as i16)),
            Compare::Float64 => {
                let (a, b) = (
                    f64::from_bits(a.value() as u64),
                    f64::from_bits(b.value() as u64),
                );
                // NaN is the greatest and equal to itself, as in PostgreSQL.
                a.partial_cmp(&b)
                    .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            // SAFETY: the comparison function of the type of both.
            Compare::Function => unsafe { self.comparison.compare(self.collation, a, b).cmp(&0) },
        }
    }

    /// Keeps a row, copying what is passed by reference.
    ///
    /// # Safety
    /// The datums are of this state's types, `time` not null; inside a guarded entry point unless `is_plain`.
    #[inline(always)]
    unsafe fn keep(&mut self, value: NullableDatum, time: Datum) {
        // SAFETY: the caller's promise.
        unsafe {
            self.time = self.time_layout.copy(time, self.context);
            self.value = if value.isnull {
                value.value
            } else {
                self.value_layout.copy(value.value, self.context)
            };
            self.value_is_null = value.isnull;
        }
    }

    /// # Safety
    /// As `keep`, and the state has a row.
    #[inline(always)]
    unsafe fn replace(&mut self, value: NullableDatum, time: Datum) {
        let (old_value, had_value, old_time) = (self.value, !self.value_is_null, self.time);
        // SAFETY: the caller's promise; the old row was made by `keep`.
        unsafe {
            self.keep(value, time);
            if had_value {
                self.value_layout.free(old_value);
            }
            self.time_layout.free(old_time);
        }
    }
}

/// One row for the aggregate that keeps rows whose time compares as `wanted`.
///
/// # Safety
/// `fcinfo` is a call of (internal, anyelement, "any") by an aggregate.
#[inline(always)]
unsafe fn transition(fcinfo: Fcinfo, wanted: Ordering) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let (state, value, time) = (raw_arg(fcinfo, 0), raw_arg(fcinfo, 1), raw_arg(fcinfo, 2));
        if time.isnull {
            fcinfo.set_null(state.isnull);
            return state.value;
        }
        if !state.isnull {
            let kept = &mut *state.value.cast_mut_ptr::<State>();
            if kept.is_plain() {
                if kept.compare(time.value) == wanted {
                    kept.replace(value, time.value);
                }
                return state.value;
            }
        }
        guarded(|| {
            if state.isnull {
                let types = [1, 2].map(|n| fcinfo.argument_type(n));
                let context = context(fcinfo);
                let new = place(context, State::new(context, types, fcinfo.collation()));
                (*new).keep(value, time.value);
                return Datum::from(new);
            }
            let kept = &mut *state.value.cast_mut_ptr::<State>();
            if kept.compare(time.value) == wanted {
                kept.replace(value, time.value);
            }
            state.value
        })
    }
}

/// # Safety
/// `fcinfo` is a call of (internal, internal) by an aggregate.
unsafe fn combine(fcinfo: Fcinfo, wanted: Ordering) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(other) = arg_opt(fcinfo, 1) else {
            fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
            return raw_arg(fcinfo, 0).value;
        };
        guarded(|| {
            let other = &*other.cast_mut_ptr::<State>();
            let value = NullableDatum {
                value: other.value,
                isnull: other.value_is_null,
            };
            match arg_opt(fcinfo, 0) {
                Some(state) => {
                    let kept = &mut *state.cast_mut_ptr::<State>();
                    if kept.compare(other.time) == wanted {
                        kept.replace(value, other.time);
                    }
                    state
                }
                None => {
                    let context = context(fcinfo);
                    let new = place(context, State::new(context, other.types, other.collation));
                    (*new).keep(value, other.time);
                    Datum::from(new)
                }
            }
        })
    }
}

sql_function! {
    /// Transition function of `first`.
    fn varve_first_transition(fcinfo) {
        // SAFETY: declared with these arguments, internal ones.
        unsafe { transition(fcinfo, Ordering::Less) }
    }
}

sql_function! {
    /// Transition function of `last`.
    fn varve_last_transition(fcinfo) {
        // SAFETY: declared with these arguments, internal ones.
        unsafe { transition(fcinfo, Ordering::Greater) }
    }
}

sql_function! {
    /// Combine function of `first`.
    fn varve_first_combine(fcinfo) {
        // SAFETY: declared with these arguments.
        unsafe { combine(fcinfo, Ordering::Less) }
    }
}

sql_function! {
    /// Combine function of `last`.
    fn varve_last_combine(fcinfo) {
        // SAFETY: declared with these arguments.
        unsafe { combine(fcinfo, Ordering::Greater) }
    }
}

sql_function! {
    /// Final function of both: the value that was kept.
    fn varve_first_last_final(fcinfo) {
        // SAFETY: the first argument is our state or NULL.
        unsafe {
            match arg_opt(fcinfo, 0).map(|state| &*state.cast_mut_ptr::<State>()) {
                Some(state) if !state.value_is_null && state.value_layout.by_value => state.value,
                Some(state) if !state.value_is_null => {
                    guarded(|| state.value_layout.copy(state.value, memory::current()))
                }
                _ => null(fcinfo),
            }
        }
    }
}

sql_function! {
    /// Serialization function of both. Strict.
    fn varve_first_last_serialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is our state.
            unsafe {
                let state = &*arg(fcinfo, 0).cast_mut_ptr::<State>();
                let mut out = Writer::default();
                out.u32(state.types[0].to_u32()).u32(state.types[1].to_u32()).u32(state.collation.to_u32());
                write_value(&mut out, state.time_layout, state.time);
                if !state.value_is_null {
                    write_value(&mut out, state.value_layout, state.value);
                }
                out.finish()
            }
        })
    }
}

/// # Safety
/// `value` is a non-null value of the layout.
unsafe fn write_value(out: &mut Writer, layout: Layout, value: Datum) {
    if layout.by_value {
        out.i64(value.value() as i64);
    } else {
        // SAFETY: the caller's promise.
        let bytes = unsafe { layout.bytes(value) };
        out.u32(u32::try_from(bytes.len()).expect("BUG: a value beyond palloc's limit"))
            .bytes(bytes);
    }
}

/// # Safety
/// Must run inside a guarded entry point.
unsafe fn read_value(input: &mut Reader, layout: Layout, context: Context) -> Datum {
    if layout.by_value {
        return Datum::from(input.i64());
    }
    let len = input.u32() as usize;
    // SAFETY: the caller's promise.
    unsafe { copy_bytes(input.bytes(len), context) }
}

sql_function! {
    /// Deserialization function of both. Strict. The state lives in the current context: combining copies it.
    fn varve_first_last_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote.
            unsafe {
                let mut input = Reader::new(arg(fcinfo, 0));
                let types = [input.u32(), input.u32()].map(Oid::from);
                let context = memory::current();
                let mut state = State::new(context, types, Oid::from(input.u32()));
                state.time = read_value(&mut input, state.time_layout, context);
                if !input.rest().is_empty() {
                    state.value = read_value(&mut input, state.value_layout, context);
                    state.value_is_null = false;
                }
                Datum::from(place(context, state))
            }
        })
    }
}
