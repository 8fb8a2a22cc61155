//! Groups on their way up: their columns, and states as the first step of core's own aggregation would leave them, or the results of these.

use super::chunk::Work;
use super::compile::{Aggregate, Compiled, Keep};
use super::evaluate::guarded;
use super::fold::{int_sum, Cell, Fold, SumOf, Width};
use super::transition::{call_of, executor_of, invoke};
use crate::pg::custom_scan::{NodeState, Projection};
use crate::pg::expression_context::ExpressionContext;
use crate::pg::row_slot::RowSlot;
use pgrx::pg_sys::{self, Datum, Oid};

/// Makes rows of groups.
pub struct Emitter {
    /// Memory of one row.
    context: ExpressionContext,
    /// Something is made in that memory.
    makes: bool,
    /// int8_avg_accum, int8_avg_combine and int8_avg_serialize, where they are needed.
    poly: Option<[pg_sys::FunctionCallInfo; 3]>,
    /// What goes up of each aggregate.
    results: Vec<Output>,
    /// The arrays that states of some aggregates are, of the row that is out.
    arrays: Vec<Array>,
    /// Where rows go: the node's own slot, or that of its result, which has nothing but the columns and states.
    slot: RowSlot,
    projection: Option<Projection>,
}

#[derive(Clone, Copy)]
enum Output {
    /// The state, which may be the result.
    State,
    /// float8_avg of it.
    Mean,
    /// What a function of core's makes of it.
    Result(pg_sys::FunctionCallInfo),
}

impl Emitter {
    /// # Safety
    /// `context` must outlive it; `node` must be a node that begins; in the executor's query memory.
    pub unsafe fn new(node: NodeState, context: ExpressionContext, compiled: &Compiled) -> Emitter {
        let none = pg_sys::InvalidOid;
        let folds = compiled.aggregates.iter().map(|own| match own.keep {
            Keep::Fold { fold, .. } => Some(fold),
            Keep::Core(_) => None,
        });
        let poly = Some(Fold::SumInt(SumOf::Poly));
        let has_poly = folds.clone().any(|fold| fold == poly);
        let columns = compiled.groups.len() + compiled.aggregates.len();
        // SAFETY: by contract.
        unsafe {
            let executor = executor_of(context.as_ptr());
            let calls = || {
                [
                    (pg_sys::F_INT8_AVG_ACCUM, 2),
                    (pg_sys::F_INT8_AVG_COMBINE, 2),
                    (pg_sys::F_INT8_AVG_SERIALIZE, 1),
                ]
                .map(|(function, count)| call_of(Oid::from(function), count, none, executor))
            };
            let output = |own: &Aggregate| match own.finish.to_u32() {
                _ if !compiled.is_whole || own.finish == none => Output::State,
                pg_sys::F_FLOAT8_AVG => Output::Mean,
                _ => Output::Result(call_of(own.finish, 1, none, executor)),
            };
            let results: Vec<Output> = compiled.aggregates.iter().map(output).collect();
            let calls_any = results.iter().any(|own| matches!(own, Output::Result(_)));
            let takes_the_first = node.plan().takes_the_first(columns);
            let (slot, projection) = match node.projection() {
                Some(projection) if takes_the_first => (projection.slot(), None),
                projection => (node.scan_slot(), projection),
            };
            Emitter {
                context,
                makes: has_poly || calls_any || folds.clone().any(|fold| fold.is_none()),
                results,
                poly: has_poly.then(calls),
                arrays: folds.map(Array::of).collect(),
                slot,
                projection,
            }
        }
    }

    /// The row of a group, as the node returns it. What it points to lives until the next one.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn emit(&mut self, work: &Work, group: usize) -> RowSlot {
        // SAFETY: by contract.
        unsafe {
            self.fill(work, group);
            self.project()
        }
    }

    /// Where rows are put together: group columns first.
    pub fn slot(&self) -> RowSlot {
        self.slot
    }

    /// Puts the row of a group together, as it is before core's projection.
    ///
    /// # Safety
    /// As `emit`.
    pub unsafe fn fill(&mut self, work: &Work, group: usize) -> RowSlot {
        // SAFETY: by contract; the slot has the group's columns, its states, and others that nobody reads.
        unsafe {
            let slot = self.slot;
            slot.clear_virtual();
            let memory = self.context.memory();
            let old = pg_sys::CurrentMemoryContext;
            if self.makes {
                memory.reset();
                pg_sys::CurrentMemoryContext = memory.as_ptr();
            }
            let (columns, aggregates) = (work.groups.columns(), &work.compiled.aggregates);
            let values = &work.groups.values[group * columns..][..columns];
            let cells = &work.groups.cells[work.groups.first_cell(group as u32)..];
            for (at, &(value, isnull)) in values.iter().enumerate() {
                slot.set(at, (value, isnull));
            }
            for (at, (aggregate, cell)) in aggregates.iter().zip(cells).enumerate() {
                let state = match &aggregate.keep {
                    Keep::Fold { fold, .. } => match self.results[at] {
                        Output::State => self.state(*fold, cell, at),
                        Output::Mean => mean_of(cell),
                        Output::Result(call) => self.result(*fold, cell, at, call),
                    },
                    Keep::Core(transition) => guarded(|| transition.finish(cell)),
                };
                slot.set(columns + at, state);
            }
            pg_sys::CurrentMemoryContext = old;
            for at in columns + aggregates.len()..slot.columns() {
                slot.set(at, (Datum::from(0usize), true));
            }
            slot.show();
            slot
        }
    }

    /// A row that was put together before, as the node returns it.
    ///
    /// # Safety
    /// As `emit`; the values are those of a row, and live until the next one.
    pub unsafe fn show(&self, values: &[Datum], nulls: &[bool]) -> RowSlot {
        // SAFETY: by contract.
        unsafe {
            self.slot.clear_virtual();
            for (at, (&value, &isnull)) in values.iter().zip(nulls).enumerate() {
                self.slot.set(at, (value, isnull));
            }
            self.slot.show();
            self.project()
        }
    }

    unsafe fn project(&self) -> RowSlot {
        let Some(projection) = self.projection else {
            return self.slot;
        };
        // SAFETY: the callers' contract; the slot shows a row.
        unsafe {
            projection.context().memory().reset();
            projection.of(self.slot)
        }
    }

    /// The node has no row any more.
    ///
    /// # Safety
    /// As `emit`.
    pub unsafe fn clear(&self) {
        // SAFETY: by contract.
        unsafe { self.slot.clear_virtual() }
    }

    /// The state that core's combine function expects, of the aggregate `at`.
    unsafe fn state(&mut self, fold: Fold, cell: &Cell, at: usize) -> (Datum, bool) {
        let by_value = |bits: i64| Datum::from(bits as usize);
        match fold {
            Fold::Rows | Fold::Values => (by_value(cell[0] as i64), false),
            Fold::SumInt(SumOf::Int8) => (by_value(int_sum(cell) as i64), cell[2] == 0),
            Fold::SumInt(SumOf::Pair) => (
                self.arrays[at].with(&[cell[2], int_sum(cell) as u64]),
                false,
            ),
            // SAFETY: the caller's contract; it was made for such a state.
            Fold::SumInt(SumOf::Poly) => unsafe {
                let [.., serialize] = self.poly.expect("BUG: nothing to make a state with");
                self.poly(cell[2], int_sum(cell), serialize)
            },
            Fold::LeastInt | Fold::GreatestInt => (by_value(cell[0] as i64), cell[1] == 0),
            Fold::LeastFloat(width) | Fold::GreatestFloat(width) | Fold::SumFloat(width) => {
                let bits = match width {
                    Width::Double => cell[0] as i64,
                    Width::Single => i64::from((f64::from_bits(cell[0]) as f32).to_bits() as i32),
                };
                (by_value(bits), cell[1] == 0)
            }
            Fold::Moments => (self.arrays[at].with(cell), false),
        }
    }

    /// What a function of core's makes of the state of the aggregate `at`.
    unsafe fn result(
        &mut self,
        fold: Fold,
        cell: &Cell,
        at: usize,
        finish: pg_sys::FunctionCallInfo,
    ) -> (Datum, bool) {
        // SAFETY: the caller's contract; the closure owns nothing.
        unsafe {
            if fold == Fold::SumInt(SumOf::Poly) {
                return self.poly(cell[2], int_sum(cell), finish);
            }
            let state = self.state(fold, cell, at);
            guarded(|| call(finish, &[state]))
        }
    }

    /// What `last` makes of the state of `count` bigints of this sum, null for none. Core alone knows what it looks like, so core makes it: as
    /// many values that add up to the sum, doubled by combining.
    unsafe fn poly(&self, count: u64, sum: i128, last: pg_sys::FunctionCallInfo) -> (Datum, bool) {
        let Some([accumulate, combine, _]) = self.poly else {
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
                call(last, &[state])
            })
        }
    }
}

/// float8_avg of N, Sx, Sxx.
fn mean_of(cell: &Cell) -> (Datum, bool) {
    let [count, sum, _] = cell.map(f64::from_bits);
    match count == 0.0 {
        true => (Datum::from(0usize), true),
        false => (Datum::from((sum / count).to_bits() as usize), false),
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

/// Words in front of the elements of an array of one dimension: its length and dimensions, the type, its size and where it begins.
const HEADER_WORDS: usize = 3;
const MOST_ELEMENTS: usize = 3;

/// An array of 8-byte values as SQL knows it, made anew for each row in the same place.
#[derive(Default)]
struct Array(Box<[u64]>);

impl Array {
    /// For states of this kind; without place where these are no arrays.
    fn of(fold: Option<Fold>) -> Array {
        let (elements, typ) = match fold {
            Some(Fold::SumInt(SumOf::Pair)) => (2, pg_sys::INT8OID),
            Some(Fold::Moments) => (MOST_ELEMENTS, pg_sys::FLOAT8OID),
            _ => return Array::default(),
        };
        let mut words = vec![0u64; HEADER_WORDS + elements].into_boxed_slice();
        let bytes = (words.len() * size_of::<u64>()) as u32;
        let header: *mut pg_sys::ArrayType = words.as_mut_ptr().cast();
        // SAFETY: the words have place for the header, its one size and one lower bound, and then the elements; they are aligned for it.
        unsafe {
            (*header).vl_len_ = (bytes << 2) as i32;
            (*header).ndim = 1;
            (*header).dataoffset = 0;
            (*header).elemtype = typ;
            let sizes: *mut i32 = header.add(1).cast();
            *sizes = elements as i32;
            *sizes.add(1) = 1;
        }
        Array(words)
    }

    fn with(&mut self, elements: &[u64]) -> Datum {
        self.0[HEADER_WORDS..].copy_from_slice(elements);
        Datum::from(self.0.as_mut_ptr())
    }
}
