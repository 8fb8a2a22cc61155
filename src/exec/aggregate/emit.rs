//! Groups on their way up: their columns, and states as the first step of core's own aggregation would leave them.

use super::chunk::Work;
use super::compile::Keep;
use super::evaluate::guarded;
use super::fold::{int_sum, Cell, Fold, SumOf, Width};
use super::transition::{call_of, executor_of, invoke};
use crate::pg::executor;
use pgrx::pg_sys::{self, Datum, Oid};

/// Makes rows of groups.
pub struct Emitter {
    /// Memory of one row.
    context: *mut pg_sys::ExprContext,
    /// int8_avg_accum, int8_avg_combine and int8_avg_serialize, where they are needed.
    poly: Option<[pg_sys::FunctionCallInfo; 3]>,
}

impl Emitter {
    /// # Safety
    /// `context` must outlive it; in the executor's query memory.
    pub unsafe fn new(
        context: *mut pg_sys::ExprContext,
        aggregates: &[*mut pg_sys::Aggref],
    ) -> Emitter {
        let none = pg_sys::InvalidOid;
        // SAFETY: by contract.
        unsafe {
            let executor = executor_of(context);
            let poly = (!aggregates.is_empty()).then(|| {
                [
                    (pg_sys::F_INT8_AVG_ACCUM, 2),
                    (pg_sys::F_INT8_AVG_COMBINE, 2),
                    (pg_sys::F_INT8_AVG_SERIALIZE, 1),
                ]
                .map(|(function, count)| call_of(Oid::from(function), count, none, executor))
            });
            Emitter { context, poly }
        }
    }

    /// Stores a group into the node's scan slot. What it points to lives until the next one.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn emit(&self, work: &Work, group: usize, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by contract; the slot has the group's columns, its states, and others that nobody reads.
        unsafe {
            executor::clear_tuple(slot);
            let memory = (*self.context).ecxt_per_tuple_memory;
            pg_sys::MemoryContextReset(memory);
            let old = pg_sys::MemoryContextSwitchTo(memory);
            pg_sys::ExecStoreAllNullTuple(slot);
            let (columns, aggregates) = (work.groups.columns(), &work.compiled.aggregates);
            let values = &work.groups.values[group * columns..][..columns];
            let cells = &work.groups.cells[work.groups.first_cell(group as u32)..];
            let states =
                aggregates
                    .iter()
                    .zip(cells)
                    .map(|(aggregate, cell)| match &aggregate.keep {
                        Keep::Fold { fold, .. } => self.state(*fold, cell),
                        Keep::Core(transition) => guarded(|| transition.finish(cell)),
                    });
            for (at, (value, isnull)) in values.iter().copied().chain(states).enumerate() {
                *(*slot).tts_values.add(at) = value;
                *(*slot).tts_isnull.add(at) = isnull;
            }
            pg_sys::MemoryContextSwitchTo(old);
        }
    }

    /// The state that core's combine function expects.
    unsafe fn state(&self, fold: Fold, cell: &Cell) -> (Datum, bool) {
        let by_value = |bits: i64| Datum::from(bits as usize);
        match fold {
            Fold::Rows | Fold::Values => (by_value(cell[0] as i64), false),
            Fold::SumInt(SumOf::Int8) => (by_value(int_sum(cell) as i64), cell[2] == 0),
            Fold::SumInt(SumOf::Pair) => {
                let pair = [cell[2] as i64, int_sum(cell) as i64].map(by_value);
                (array(&pair, pg_sys::INT8OID), false)
            }
            // SAFETY: the caller's contract.
            Fold::SumInt(SumOf::Poly) => unsafe { self.poly(cell[2], int_sum(cell)) },
            Fold::LeastInt | Fold::GreatestInt => (by_value(cell[0] as i64), cell[1] == 0),
            Fold::LeastFloat(width) | Fold::GreatestFloat(width) | Fold::SumFloat(width) => {
                let bits = match width {
                    Width::Double => cell[0] as i64,
                    Width::Single => i64::from((f64::from_bits(cell[0]) as f32).to_bits() as i32),
                };
                (by_value(bits), cell[1] == 0)
            }
            Fold::Moments => {
                let parts = cell.map(|bits| by_value(bits as i64));
                (array(&parts, pg_sys::FLOAT8OID), false)
            }
        }
    }

    /// The serialized state of `count` bigints of this sum. Core alone knows what it looks like, so core makes it: as many values
    /// that add up to the sum, doubled by combining.
    unsafe fn poly(&self, count: u64, sum: i128) -> (Datum, bool) {
        let Some([accumulate, combine, serialize]) = self.poly else {
            panic!("BUG: nothing to make a state with");
        };
        if count == 0 {
            return (Datum::from(0usize), true);
        }
        let mean = sum.div_euclid(i128::from(count)) as i64;
        let greater = sum.rem_euclid(i128::from(count)) as u64;
        let null = (Datum::from(0usize), true);
        // SAFETY: the caller's contract; the closure owns nothing.
        unsafe {
            guarded(|| {
                let mut state = null;
                for (times, value) in [(count - greater, mean), (greater, mean.wrapping_add(1))] {
                    let mut rest = times;
                    if rest == 0 {
                        continue;
                    }
                    let value = (Datum::from(value as usize), false);
                    let mut unit = call(accumulate, &[null, value]);
                    while rest > 0 {
                        if rest & 1 == 1 {
                            state = call(combine, &[state, unit]);
                        }
                        rest >>= 1;
                        if rest > 0 {
                            unit = call(combine, &[unit, unit]);
                        }
                    }
                }
                call(serialize, &[state])
            })
        }
    }
}

unsafe fn call(call: pg_sys::FunctionCallInfo, arguments: &[(Datum, bool)]) -> (Datum, bool) {
    // SAFETY: the caller's contract: the call has so many arguments.
    unsafe {
        for (at, &(value, isnull)) in arguments.iter().enumerate() {
            *(*call).args.as_mut_ptr().add(at) = pg_sys::NullableDatum { value, isnull };
        }
        (*call).isnull = false;
        let value = invoke(call);
        (value, (*call).isnull)
    }
}

/// An array of 8-byte values, in the current memory context.
fn array(values: &[Datum], element: Oid) -> Datum {
    let mut values = values.to_vec();
    // SAFETY: copies the values, of a type that is passed by value.
    unsafe {
        let array = pg_sys::construct_array(
            values.as_mut_ptr(),
            values.len() as i32,
            element,
            8,
            true,
            b'd' as core::ffi::c_char,
        );
        Datum::from(array)
    }
}
