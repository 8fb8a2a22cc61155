//! Groups on their way up: their columns, and states as the first step of core's own aggregation would leave them, or the results of these.

use super::chunk::Work;
use super::compile::{Aggregate, Compiled, Keep};
use super::evaluate::guarded;
use super::fold::{int_sum, Cell, Fold, SumOf, Width};
use crate::pg::aggregation::Aggregating;
use crate::pg::custom_scan::{is_worker, NodeState, Projection};
use crate::pg::expression_context::ExpressionContext;
use crate::pg::function_call::FunctionCall;
use crate::pg::functions;
use crate::pg::memory;
use crate::pg::packed_row::{is_plain, PackedRow};
use crate::pg::row_slot::RowSlot;
use crate::pg::types;
use crate::pg::word_array::WordArray;
use crate::pg::{Datum, InvalidOid, Oid};

/// Makes rows of groups.
pub struct Emitter {
    /// Memory of one row.
    context: ExpressionContext,
    /// Something is made in that memory.
    makes: bool,
    /// int8_avg_accum, int8_avg_combine and int8_avg_serialize, where they are needed.
    poly: Option<[FunctionCall; 3]>,
    /// What goes up of each aggregate.
    results: Vec<Output>,
    /// The arrays that states of some aggregates are, of the row that is out.
    arrays: Vec<WordArray>,
    /// Where rows are put together: the node's own slot, or that of its result, which has nothing but the columns and states.
    slot: RowSlot,
    projection: Option<Projection>,
    /// Where a worker of a parallel query sends rows as they are put together, and their columns are passed by value.
    packed: Option<PackedRow>,
}

#[derive(Clone, Copy)]
enum Output {
    /// The state, which may be the result.
    State,
    /// float8_avg of it.
    Mean,
    /// What a function of core's makes of it.
    Result(FunctionCall),
}

impl Emitter {
    /// # Safety
    /// `context` must outlive it; `node` must be a node that begins; in the executor's query memory.
    pub unsafe fn new(node: NodeState, context: ExpressionContext, compiled: &Compiled) -> Emitter {
        let none = InvalidOid;
        let folds = compiled.aggregates.iter().map(|own| match own.keep {
            Keep::Fold { fold, .. } => Some(fold),
            Keep::Core(_) => None,
        });
        let poly = Some(Fold::SumInt(SumOf::Poly));
        let has_poly = folds.clone().any(|fold| fold == poly);
        let columns = compiled.groups.len() + compiled.aggregates.len();
        // SAFETY: by contract.
        unsafe {
            let executor = Aggregating::states_in(context);
            let calls = || {
                [
                    (functions::F_INT8_AVG_ACCUM, 2),
                    (functions::F_INT8_AVG_COMBINE, 2),
                    (functions::F_INT8_AVG_SERIALIZE, 1),
                ]
                .map(|(function, count)| {
                    FunctionCall::new(Oid::from(function), count, none, executor)
                })
            };
            let output = |own: &Aggregate| match own.finish.to_u32() {
                _ if !compiled.is_whole || own.finish == none => Output::State,
                functions::F_FLOAT8_AVG => Output::Mean,
                _ => Output::Result(FunctionCall::new(own.finish, 1, none, executor)),
            };
            let results: Vec<Output> = compiled.aggregates.iter().map(output).collect();
            let calls_any = results.iter().any(|own| matches!(own, Output::Result(_)));
            let takes_the_first = node.plan().takes_the_first(columns);
            let (slot, projection) = match node.projection() {
                Some(projection) if takes_the_first => (projection.slot(), None),
                projection => (node.scan_slot(), projection),
            };
            let is_sent = projection.is_none() && is_worker() && node.is_top();
            let packed = is_sent.then(|| PackedRow::of(node, slot)).flatten();
            Emitter {
                context,
                makes: has_poly || calls_any || folds.clone().any(|fold| fold.is_none()),
                results,
                poly: has_poly.then(calls),
                arrays: folds.map(array_of).collect(),
                slot,
                projection,
                packed,
            }
        }
    }

    /// How many columns rows have, where these are as they were put together, and their columns are passed by value.
    pub fn plain_columns(&self) -> Option<usize> {
        let is_plain = self.projection.is_none() && is_plain(self.slot.descriptor());
        is_plain.then(|| self.slot.columns())
    }

    /// Does a worker send rows as they were put together?
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
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
            match self.makes {
                true => {
                    let memory = self.context.memory();
                    memory.reset();
                    memory::within(memory, || self.set_all(work, group));
                }
                false => self.set_all(work, group),
            }
            let set = work.groups.columns() + work.compiled.aggregates.len();
            for at in set..slot.columns() {
                slot.set(at, (Datum::from(0usize), true));
            }
            slot.show();
            slot
        }
    }

    /// Sets the columns and states of a group.
    ///
    /// # Safety
    /// As `emit`; the slot must be cleared. What is made in the current memory context must live as long as the slot shows the row.
    unsafe fn set_all(&mut self, work: &Work, group: usize) {
        let slot = self.slot;
        let (columns, aggregates) = (work.groups.columns(), &work.compiled.aggregates);
        let values = &work.groups.values[group * columns..][..columns];
        let cells = &work.groups.cells[work.groups.first_cell(group as u32)..];
        // SAFETY: the caller's contract.
        unsafe {
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
        }
    }

    /// A row that was put together before, as the node returns it.
    ///
    /// # Safety
    /// As `emit`; the columns are those of a row, and what they point to lives until the next one.
    pub unsafe fn show(&self, columns: impl Iterator<Item = (Datum, bool)>) -> RowSlot {
        // SAFETY: by contract.
        unsafe {
            self.slot.clear_virtual();
            for (at, column) in columns.enumerate() {
                self.slot.set(at, column);
            }
            self.slot.show();
            self.project()
        }
    }

    /// # Safety
    /// As `emit`; the slot must show a row.
    unsafe fn project(&self) -> RowSlot {
        // SAFETY: the callers' contract; the slot shows a row.
        unsafe {
            let Some(projection) = self.projection else {
                let packed = self.packed.as_ref();
                let packed = packed.and_then(|packed| packed.pack(self.slot));
                return packed.unwrap_or(self.slot);
            };
            projection.context().memory().reset();
            projection.of(self.slot)
        }
    }

    /// The slot that rows are put together in shows none any more.
    ///
    /// # Safety
    /// As `emit`.
    pub unsafe fn clear(&self) {
        // SAFETY: by contract.
        unsafe { self.slot.clear_virtual() }
    }

    /// The state that core's combine function expects, of the aggregate `at`.
    ///
    /// # Safety
    /// As `set_all`; `fold` must be that of the aggregate, and `cell` its state in a group.
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
    ///
    /// # Safety
    /// As `state`; `finish` must take the state of the aggregate, as its only argument.
    unsafe fn result(
        &mut self,
        fold: Fold,
        cell: &Cell,
        at: usize,
        finish: FunctionCall,
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
    ///
    /// # Safety
    /// As `set_all`; `last` must take a state of int8_avg_accum, as its only argument.
    unsafe fn poly(&self, count: u64, sum: i128, last: FunctionCall) -> (Datum, bool) {
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

/// What a function makes of arguments.
///
/// # Safety
/// The call must have as many arguments, and these be of their types; within `guarded`.
unsafe fn call(call: FunctionCall, arguments: &[(Datum, bool)]) -> (Datum, bool) {
    // SAFETY: the caller's contract: the call has so many arguments.
    unsafe {
        for (at, &argument) in arguments.iter().enumerate() {
            call.set(at, argument);
        }
        call.invoke()
    }
}

/// Place for the states of an aggregate; none where these are no arrays.
fn array_of(fold: Option<Fold>) -> WordArray {
    match fold {
        Some(Fold::SumInt(SumOf::Pair)) => WordArray::of(2, types::INT8OID),
        Some(Fold::Moments) => WordArray::of(3, types::FLOAT8OID),
        _ => WordArray::default(),
    }
}
