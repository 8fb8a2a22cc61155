//! Work on the groups: a chunk, window by window, or a row of the tail. A window is rows that lie in one block of every lane.

use super::compile::{Aggregate, Compiled, Keep, Way};
use super::conditions::{Bounded, Verdict};
use super::evaluate::{guarded, Evaluation};
use super::fold::Cell;
use super::groups::Groups;
use super::lanes::{Lane, WINDOW_ROWS};
use super::runs::{self, Run, Window};
use crate::chunk::read::Chunk;
use crate::pg::error;
use crate::pg::executor;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use std::ops::Range;
use varve_columns::vector::Bitmap;

/// Up to so many rows a run is folded value by value.
const SHORT_RUN: usize = 8;

/// What was done, for EXPLAIN.
#[derive(Default, Clone, Copy)]
pub struct Counters {
    pub chunks: u64,
    pub skipped: u64,
    pub blocks: u64,
    pub tail_rows: u64,
}

/// An execution.
pub struct Work {
    pub compiled: Compiled,
    /// Conditions whose arguments are known, each with its lane.
    pub conditions: Vec<(Bounded, usize)>,
    pub groups: Groups,
    pub evaluation: Evaluation,
    /// Where states and columns of groups live.
    pub states: pg_sys::MemoryContext,
    /// Group columns in the order in which they split windows, and the place of each in that order.
    order: Vec<usize>,
    places: Vec<usize>,
    pub counters: Counters,
}

impl Work {
    pub fn new(compiled: Compiled, evaluation: Evaluation, states: pg_sys::MemoryContext) -> Work {
        let mut order: Vec<usize> = (0..compiled.groups.len()).collect();
        order.sort_by_key(|&at| match compiled.groups[at].way {
            Way::Column(_) => 0,
            Way::Rising(_) => 1,
            Way::Each => 2,
            Way::Same => 3,
        });
        let mut places = vec![0; order.len()];
        for (place, &at) in order.iter().enumerate() {
            places[at] = place;
        }
        let types = compiled.groups.iter().map(|group| group.typ).collect();
        let groups = Groups::new(types, compiled.aggregates.len());
        Work {
            compiled,
            conditions: Vec::new(),
            groups,
            evaluation,
            states,
            order,
            places,
            counters: Counters::default(),
        }
    }

    /// Takes in the rows of a chunk.
    ///
    /// # Safety
    /// The chunk must be of the node's table; inside a guarded entry point.
    pub unsafe fn chunk(&mut self, open: &OpenChunk) {
        let chunk = &open.reader.chunk;
        self.counters.chunks += 1;
        // A chunk whose rows are all gone may have lost its payload.
        if open.is_empty() {
            self.counters.skipped += 1;
            return;
        }
        for lane in &mut self.compiled.lanes {
            lane.enter(chunk);
        }
        let ranges = self.candidates(chunk);
        if ranges.is_empty() {
            self.counters.skipped += 1;
        }
        for range in ranges {
            let mut row = range.start;
            while row < range.end {
                error::check_interrupts();
                let mut end = range.end.min(row + WINDOW_ROWS);
                for lane in &mut self.compiled.lanes {
                    if let Some(block) = lane.block(chunk, row) {
                        end = end.min(block.rows.end);
                    }
                }
                // SAFETY: by contract.
                unsafe { self.window(open, row..end) };
                row = end;
            }
        }
    }

    /// Rows of blocks of which no condition excludes all.
    fn candidates(&mut self, chunk: &Chunk) -> Vec<Range<u32>> {
        let rows = chunk.header.rows;
        let mut ranges = Vec::from_iter(core::iter::once(0..rows));
        for (condition, lane) in &self.conditions {
            let lane = &mut self.compiled.lanes[*lane];
            let Some(head) = chunk.columns.columns().get(lane.at) else {
                continue;
            };
            let summary = &head.summary;
            match condition.judge(&summary.min, &summary.max, head.nulls, rows) {
                Verdict::None => return Vec::new(),
                Verdict::All => continue,
                Verdict::Some => {}
            }
            if lane.is_constant() {
                continue;
            }
            let mut kept: Vec<Range<u32>> = Vec::new();
            for block in lane.directory(chunk).blocks() {
                let length = block.rows.len() as u32;
                if condition.judge(&block.min, &block.max, block.nulls, length) == Verdict::None {
                    continue;
                }
                match kept.last_mut() {
                    Some(last) if last.end == block.rows.start => last.end = block.rows.end,
                    _ => kept.push(block.rows.clone()),
                }
            }
            ranges = intersect(&ranges, &kept);
            if ranges.is_empty() {
                break;
            }
        }
        ranges
    }

    unsafe fn window(&mut self, open: &OpenChunk, rows: Range<u32>) {
        let chunk = &open.reader.chunk;
        let mut selected = Bitmap::all(rows.len());
        if !open.is_clear(rows.clone()) {
            for row in rows.clone() {
                if open.is_hidden(row) {
                    selected.remove((row - rows.start) as usize);
                }
            }
            if selected.is_none() {
                return;
            }
        }
        for (condition, lane) in &self.conditions {
            let lane = &mut self.compiled.lanes[*lane];
            let verdict = match lane.block(chunk, rows.start) {
                Some(block) => {
                    let length = block.rows.len() as u32;
                    condition.judge(&block.min, &block.max, block.nulls, length)
                }
                None => Verdict::Some,
            };
            match verdict {
                Verdict::None => return,
                Verdict::All => continue,
                Verdict::Some => {}
            }
            self.counters.blocks += u64::from(lane.decode(chunk, &rows));
            condition.keep(lane, &rows, &mut selected);
            if selected.is_none() {
                return;
            }
        }
        // SAFETY: the caller's contract.
        unsafe {
            if !self.compiled.residual.is_null() {
                self.keep_residual(chunk, &rows, &mut selected);
            }
            if !selected.is_none() {
                let all = selected.is_all();
                self.fold(chunk, &rows, (!all).then_some(&selected));
            }
        }
    }

    /// Leaves the rows for which the conditions hold that are evaluated row by row.
    unsafe fn keep_residual(&mut self, chunk: &Chunk, rows: &Range<u32>, selected: &mut Bitmap) {
        let wanted: Vec<usize> = self.compiled.residual_lanes.clone();
        self.prepare(chunk, rows, wanted.iter().copied());
        let (lanes, residual) = (&self.compiled.lanes, self.compiled.residual);
        let evaluation = self.evaluation;
        let mut lost: Vec<usize> = Vec::with_capacity(rows.len());
        // SAFETY: the caller's contract; what the closure refers to is owned outside of it.
        unsafe {
            for row in selected.iter() {
                if row % 1024 == 0 {
                    error::check_interrupts();
                }
                for &lane in &wanted {
                    let lane = &lanes[lane];
                    evaluation.set(lane.at, lane.datum(rows, row));
                }
                evaluation.forget();
                if !guarded(|| evaluation.holds(residual)) {
                    lost.push(row);
                }
            }
        }
        lost.into_iter().for_each(|row| selected.remove(row));
    }

    /// Decodes lanes, and makes their datums.
    fn prepare(&mut self, chunk: &Chunk, rows: &Range<u32>, lanes: impl Iterator<Item = usize>) {
        for lane in lanes {
            let lane = &mut self.compiled.lanes[lane];
            self.counters.blocks += u64::from(lane.decode(chunk, rows));
            lane.make_datums();
        }
    }

    unsafe fn fold(&mut self, chunk: &Chunk, rows: &Range<u32>, selected: Option<&Bitmap>) {
        // SAFETY: the caller's contract.
        unsafe {
            self.evaluation.forget();
            let grouped: Vec<usize> = self
                .compiled
                .groups
                .iter()
                .flat_map(|group| group.lanes.iter().copied())
                .collect();
            self.prepare(chunk, rows, grouped.into_iter());
            let window = Window {
                rows,
                selected,
                lanes: &self.compiled.lanes,
                evaluation: &self.evaluation,
            };
            let runs = runs::split(&window, &self.compiled.groups, &self.order);
            let mut found: Vec<(Range<usize>, u32)> = Vec::with_capacity(runs.len());
            let mut values = Vec::with_capacity(self.places.len());
            for Run { rows, values: own } in runs {
                let any =
                    selected.is_none_or(|selected| rows.clone().any(|r| selected.contains(r)));
                if !any {
                    continue;
                }
                values.clear();
                values.extend(self.places.iter().map(|&place| own[place]));
                found.push((rows, self.group(&values)));
            }
            self.fold_vectors(chunk, rows, selected, &found);
            self.fold_rows(chunk, rows, selected, &found);
        }
    }

    /// The group with these columns.
    unsafe fn group(&mut self, values: &[(pg_sys::Datum, bool)]) -> u32 {
        let aggregates = &self.compiled.aggregates;
        // SAFETY: the caller's contract.
        unsafe {
            self.groups.find(values, self.states, |cells| {
                for aggregate in aggregates {
                    cells.push(match &aggregate.keep {
                        Keep::Fold { .. } => [0; 3],
                        Keep::Core(transition) => guarded(|| transition.start()),
                    });
                }
            })
        }
    }

    /// Folds the aggregates of columns, run by run.
    fn fold_vectors(
        &mut self,
        chunk: &Chunk,
        rows: &Range<u32>,
        selected: Option<&Bitmap>,
        runs: &[(Range<usize>, u32)],
    ) {
        for (at, aggregate) in self.compiled.aggregates.iter().enumerate() {
            let (Some(lane), Keep::Fold { fold, .. }) = (aggregate.vector, &aggregate.keep) else {
                continue;
            };
            if lane == usize::MAX {
                for (range, group) in runs {
                    let count = match selected {
                        None => range.len(),
                        Some(selected) => selected.slice(range.clone()).count(),
                    };
                    let cell = self.groups.first_cell(*group) + at;
                    self.groups.cells[cell][0] += count as u64;
                }
                continue;
            }
            let lane = &mut self.compiled.lanes[lane];
            self.counters.blocks += u64::from(lane.decode(chunk, rows));
            let values = lane.slice(rows);
            let mut usable = lane.valid(rows);
            if let (Some(usable), Some(selected)) = (&mut usable, selected) {
                usable.intersect(selected);
            }
            let usable = usable.as_ref().or(selected);
            for (range, group) in runs {
                let cell = self.groups.first_cell(*group) + at;
                let cell = &mut self.groups.cells[cell];
                match usable {
                    None => fold.vector(cell, values.part(range.clone()), None),
                    Some(rows) if range.len() <= SHORT_RUN => {
                        for row in range.clone().filter(|&row| rows.contains(row)) {
                            fold.vector(cell, values.part(row..row + 1), None);
                        }
                    }
                    Some(rows) => {
                        let part = rows.slice(range.clone());
                        fold.vector(cell, values.part(range.clone()), Some(&part));
                    }
                }
            }
        }
    }

    /// Takes in the aggregates that are evaluated row by row.
    unsafe fn fold_rows(
        &mut self,
        chunk: &Chunk,
        rows: &Range<u32>,
        selected: Option<&Bitmap>,
        runs: &[(Range<usize>, u32)],
    ) {
        let by_row = |aggregate: &&Aggregate| aggregate.vector.is_none();
        let mut wanted: Vec<usize> = self
            .compiled
            .aggregates
            .iter()
            .filter(by_row)
            .flat_map(|aggregate| aggregate.lanes.iter().copied())
            .collect();
        if !self.compiled.aggregates.iter().any(|own| by_row(&own)) {
            return;
        }
        wanted.sort_unstable();
        wanted.dedup();
        self.prepare(chunk, rows, wanted.iter().copied());
        let (lanes, aggregates) = (&self.compiled.lanes, &self.compiled.aggregates);
        let evaluation = self.evaluation;
        let states = self.states;
        for (range, group) in runs {
            let first = self.groups.first_cell(*group);
            let cells = &mut self.groups.cells[first..first + aggregates.len()];
            error::check_interrupts();
            // SAFETY: the caller's contract; nothing in the closure owns anything.
            unsafe {
                guarded(|| {
                    for row in range.clone() {
                        if selected.is_some_and(|selected| !selected.contains(row)) {
                            continue;
                        }
                        show(&evaluation, lanes, &wanted, rows, row);
                        for (cell, aggregate) in cells.iter_mut().zip(aggregates) {
                            if aggregate.vector.is_none() {
                                take_row(aggregate, cell, &evaluation, states);
                            }
                        }
                    }
                });
            }
        }
    }

    /// Takes in a row of the tail.
    ///
    /// # Safety
    /// `slot` must show a row of the table; inside a guarded entry point.
    pub unsafe fn row(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        self.counters.tail_rows += 1;
        let evaluation = self.evaluation;
        // SAFETY: by contract; the closures own nothing.
        unsafe {
            evaluation.forget();
            let attributes = self.compiled.attributes;
            let (values, nulls) = executor::attributes(slot, attributes);
            for at in 0..attributes {
                evaluation.set(at, (values[at], nulls[at]));
            }
            if !guarded(|| evaluation.holds(self.compiled.every)) {
                return;
            }
            let mut values = Vec::with_capacity(self.compiled.groups.len());
            for group in &self.compiled.groups {
                values.push(guarded(|| evaluation.value(group.state)));
            }
            let group = self.group(&values);
            let first = self.groups.first_cell(group);
            let aggregates = &self.compiled.aggregates;
            let cells = &mut self.groups.cells[first..first + aggregates.len()];
            let states = self.states;
            guarded(|| {
                for (cell, aggregate) in cells.iter_mut().zip(aggregates) {
                    take_row(aggregate, cell, &evaluation, states);
                }
            });
        }
    }
}

/// Sets the columns of a row that expressions need.
#[inline]
unsafe fn show(
    evaluation: &Evaluation,
    lanes: &[Lane],
    wanted: &[usize],
    rows: &Range<u32>,
    row: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        evaluation.forget();
        for &lane in wanted {
            let lane = &lanes[lane];
            evaluation.set(lane.at, lane.datum(rows, row));
        }
    }
}

/// Takes the row that `evaluation` shows into a state.
#[inline]
unsafe fn take_row(
    aggregate: &Aggregate,
    cell: &mut Cell,
    evaluation: &Evaluation,
    states: pg_sys::MemoryContext,
) {
    // SAFETY: the caller's contract.
    unsafe {
        if !evaluation.holds(aggregate.filter) {
            return;
        }
        match &aggregate.keep {
            Keep::Core(transition) => transition.advance(cell, evaluation, states),
            Keep::Fold {
                fold,
                argument,
                length,
            } => {
                let (value, isnull) = match argument.is_null() {
                    true => (pg_sys::Datum::from(0usize), false),
                    false => evaluation.value(*argument),
                };
                if !isnull {
                    fold.value(cell, value, *length);
                }
            }
        }
    }
}

/// Rows that are in both of two ascending lists of ranges.
fn intersect(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut at, mut other) = (0, 0);
    let mut both = Vec::new();
    while at < a.len() && other < b.len() {
        let (left, right) = (&a[at], &b[other]);
        let part = left.start.max(right.start)..left.end.min(right.end);
        if !part.is_empty() {
            both.push(part);
        }
        match left.end < right.end {
            true => at += 1,
            false => other += 1,
        }
    }
    both
}
