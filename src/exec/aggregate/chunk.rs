//! Work on the groups: a chunk, window by window, or a row of the tail.

use super::compile::{Aggregate, Compiled, Keep, Way, ROWS};
use super::evaluate::{guarded, Evaluation};
use super::fold::Cell;
use super::groups::Groups;
use super::known::{covers, has_small_values, Known};
use super::lanes::Lane;
use super::runs::{Run, Runs, Window};
use super::selection::Selection;
use super::slice::Slice;
use crate::chunk::read::Chunk;
use crate::pg::error;
use crate::pg::memory::{self, Context};
use crate::pg::row_slot::RowSlot;
use crate::pg::Datum;
use crate::table::visible::OpenChunk;
use smallvec::SmallVec;
use std::ops::Range;
use varve_columns::vector::Bitmap;

/// Up to so many rows a run is folded value by value.
const SHORT_RUN: usize = 8;

/// An execution.
pub struct Work {
    pub compiled: Compiled,
    /// Chooses rows.
    pub selection: Selection,
    pub groups: Groups,
    /// Where states and columns of groups live.
    pub states: Context,
    /// Group columns in the order in which they split windows, and the place of each in that order.
    order: Vec<usize>,
    places: Vec<usize>,
    /// Of the chunk that is taken in: the aggregates that its header has answered, and its one group.
    pub answered: Vec<bool>,
    pub whole: Option<u32>,
    /// A row was wanted, in this pass over the table.
    pub met: bool,
    /// Memory for the runs of a window, and for those that have wanted rows, with their groups.
    runs: Runs,
    found: Vec<(Range<usize>, u32)>,
}

impl Work {
    /// There will be about `count` groups.
    pub fn new(compiled: Compiled, selection: Selection, states: Context, count: f64) -> Work {
        let mut order: Vec<usize> = (0..compiled.groups.len()).collect();
        order.sort_by_key(|&at| match compiled.groups[at].way {
            Way::Column(_) => 0,
            Way::Rising(_) | Way::Zoned(..) => 1,
            Way::Each => 2,
            Way::Same => 3,
        });
        let mut places = vec![0; order.len()];
        for (place, &at) in order.iter().enumerate() {
            places[at] = place;
        }
        let types = compiled.groups.iter().map(|group| group.typ).collect();
        let most_bytes = memory::hash_limit();
        let groups = Groups::with_room(types, compiled.aggregates.len(), count, most_bytes);
        Work {
            answered: vec![false; compiled.aggregates.len()],
            whole: None,
            met: false,
            compiled,
            selection,
            groups,
            states,
            order,
            places,
            runs: Runs::default(),
            found: Vec::new(),
        }
    }

    /// Takes in the rows of a chunk.
    ///
    /// # Safety
    /// The chunk must be of the node's table; inside a guarded entry point.
    pub unsafe fn chunk(&mut self, open: &OpenChunk) {
        let chunk = &open.reader.chunk;
        let ranges = self.selection.enter(open);
        if ranges.is_empty() {
            return;
        }
        self.answered.fill(false);
        self.whole = None;
        let gone = match self.selection.takes_all() {
            true => open.gone(),
            false => None,
        };
        let before = self.selection.counters.blocks;
        // SAFETY: by contract.
        unsafe {
            match gone.is_some_and(|gone| self.answer_chunk(chunk, gone)) {
                true => self.met = true,
                false => {
                    self.choose_lanes();
                    self.walk(open, ranges);
                }
            }
        }
        let counters = &mut self.selection.counters;
        match counters.blocks == before {
            true => counters.known += 1,
            false => counters.decoded += 1,
        }
    }

    /// The lanes that what is left of the chunk needs.
    fn choose_lanes(&mut self) {
        let compiled = &self.compiled;
        let groups = compiled.groups.iter().filter(|_| self.whole.is_none());
        let groups = groups.flat_map(|group| &group.lanes);
        let aggregates = compiled.aggregates.iter().zip(&self.answered);
        let aggregates = aggregates
            .filter(|(_, answered)| !**answered)
            .flat_map(|(aggregate, _)| &aggregate.lanes);
        self.selection.need(groups.chain(aggregates).copied());
    }

    /// Takes in the rows of these ranges of a chunk, window by window.
    ///
    /// # Safety
    /// As `chunk`; it must be the chunk that the selection has entered, and the ranges be of its rows.
    unsafe fn walk(&mut self, open: &OpenChunk, ranges: Vec<Range<u32>>) {
        let chunk = &open.reader.chunk;
        for whole in ranges {
            let mut range = whole.clone();
            while !range.is_empty() {
                error::check_interrupts();
                let window = range.start..self.selection.window_end(chunk, &range);
                range.start = window.end;
                self.selection.set_edges(&window, &whole, false);
                // SAFETY: by contract.
                unsafe {
                    if let Some((rows, selected)) = self.selection.select(open, window.clone()) {
                        self.selection.set_edges(&window, &whole, true);
                        self.fold(chunk, &rows, selected.as_ref());
                    }
                }
            }
        }
    }

    /// Takes in the rows of a window that are wanted.
    ///
    /// # Safety
    /// As `walk`; `rows` must be what the selection has left of a window of the chunk, and `selected` have a bit for each.
    unsafe fn fold(&mut self, chunk: &Chunk, rows: &Range<u32>, selected: Option<&Bitmap>) {
        self.met = true;
        // SAFETY: the caller's contract.
        unsafe {
            let mut found = core::mem::take(&mut self.found);
            found.clear();
            match self.whole {
                Some(group) => found.push((0..rows.len(), group)),
                None => self.find_runs(chunk, rows, selected, &mut found),
            }
            self.fold_vectors(chunk, rows, selected, &found);
            self.fold_rows(chunk, rows, selected, &found);
            self.found = found;
        }
    }

    /// Finds the runs of a window that have rows which are wanted, with their groups.
    ///
    /// # Safety
    /// As `fold`.
    unsafe fn find_runs(
        &mut self,
        chunk: &Chunk,
        rows: &Range<u32>,
        selected: Option<&Bitmap>,
        found: &mut Vec<(Range<usize>, u32)>,
    ) {
        // SAFETY: the caller's contract.
        unsafe {
            let selection = &mut self.selection;
            selection.evaluation.forget();
            for group in &self.compiled.groups {
                for &lane in &group.lanes {
                    let lane = &mut selection.lanes[lane];
                    let decoded = match group.way {
                        Way::Zoned(..) => lane.decode(chunk, rows),
                        _ => lane.decode_line(chunk, rows),
                    };
                    selection.counters.blocks += u64::from(decoded);
                    lane.make_datums();
                }
            }
            let window = Window {
                rows,
                selected,
                lanes: &self.selection.lanes,
                evaluation: &self.selection.evaluation,
            };
            let mut runs = core::mem::take(&mut self.runs);
            runs.split(&window, &self.compiled.groups, &self.order);
            let mut values: SmallVec<[_; 4]> = SmallVec::new();
            let in_order = self.places.is_sorted();
            found.reserve(runs.found.len());
            for Run { rows, values: own } in runs.found.drain(..) {
                let any =
                    selected.is_none_or(|selected| rows.clone().any(|r| selected.contains(r)));
                if !any {
                    continue;
                }
                let values = match in_order {
                    true => &own[..],
                    false => {
                        values.clear();
                        values.extend(self.places.iter().map(|&place| own[place]));
                        &values[..]
                    }
                };
                if let Some(group) = self.group(values) {
                    found.push((rows, group));
                }
            }
            self.runs = runs;
        }
    }

    /// The group with these columns; None where it is read another time.
    ///
    /// # Safety
    /// There must be a value for each group column, of its type; inside a guarded entry point.
    pub unsafe fn group(&mut self, values: &[(Datum, bool)]) -> Option<u32> {
        let (aggregates, states) = (&self.compiled.aggregates, self.states);
        // SAFETY: the caller's contract.
        unsafe {
            if !self.groups.takes(values) {
                return None;
            }
            Some(self.groups.find(values, states, |cells| {
                let first = cells.len();
                cells.resize(first + aggregates.len(), [0; 3]);
                for (cell, aggregate) in cells[first..].iter_mut().zip(aggregates) {
                    if let Keep::Core(transition) = &aggregate.keep {
                        *cell = memory::within(states, || guarded(|| transition.start()));
                    }
                }
            }))
        }
    }

    /// Without group columns there is one group, of which something goes up even if no row was wanted.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn add_only_group(&mut self) {
        if self.compiled.is_whole && self.compiled.groups.is_empty() && self.groups.count() == 0 {
            // SAFETY: the caller's contract.
            unsafe { self.group(&[]) };
        }
    }

    /// Folds the aggregates of columns, run by run. A run that is a block is not decoded where the block's bounds will do.
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
            if self.answered[at] {
                continue;
            }
            if lane == ROWS {
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
            let lane = &mut self.selection.lanes[lane];
            let block = lane.block(chunk, rows.start);
            let is_light = aggregate.mean_only && block.is_some_and(has_small_values);
            if let (None, [(range, group)]) = (selected, runs) {
                let block = block.filter(|block| covers(block, rows.start, range));
                let cell = self.groups.first_cell(*group) + at;
                let cell = &mut self.groups.cells[cell];
                let known = block.map(Known::of_block);
                let with = known.and_then(|known| fold.with(cell, &known, aggregate.mean_only));
                if let Some(with) = with {
                    *cell = with;
                    continue;
                }
            }
            if let Some(block) = block.filter(|block| rows.end <= block.rows.end) {
                let known = Known::of_block(block);
                let (groups, fold) = (&self.groups, *fold);
                let is_unmoved = |(_, group): &(Range<usize>, u32)| {
                    fold.is_unmoved_by(&groups.cells[groups.first_cell(*group) + at], &known)
                };
                if runs.iter().all(is_unmoved) {
                    continue;
                }
            }
            self.selection.counters.blocks += u64::from(lane.decode(chunk, rows));
            let values = lane.slice(rows);
            let mut usable = lane.valid(rows);
            if let (Some(usable), Some(selected)) = (&mut usable, selected) {
                usable.intersect(selected);
            }
            let usable = usable.as_ref().or(selected);
            for (range, group) in runs {
                let cell = self.groups.first_cell(*group) + at;
                let cell = &mut self.groups.cells[cell];
                let mut add = |values: Slice, rows: Option<&Bitmap>| match is_light
                    .then(|| fold.mean(cell, values, rows))
                    .flatten()
                {
                    Some(with) => *cell = with,
                    None => fold.vector(cell, values, rows),
                };
                match usable {
                    None => add(values.part(range.clone()), None),
                    Some(rows) if range.len() <= SHORT_RUN => {
                        for row in range.clone().filter(|&row| rows.contains(row)) {
                            add(values.part(row..row + 1), None);
                        }
                    }
                    Some(rows) => {
                        let part = rows.slice(range.clone());
                        add(values.part(range.clone()), Some(&part));
                    }
                }
            }
        }
    }

    /// Takes in the aggregates that are evaluated row by row.
    ///
    /// # Safety
    /// As `fold`; `runs` must be of the window, and their groups be there.
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
        self.selection.prepare(chunk, rows, wanted.iter().copied());
        let (lanes, aggregates) = (&self.selection.lanes, &self.compiled.aggregates);
        let evaluation = self.selection.evaluation;
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
    pub unsafe fn row(&mut self, slot: RowSlot) {
        self.selection.counters.tail_rows += 1;
        let evaluation = self.selection.evaluation;
        // SAFETY: by contract; the closures own nothing.
        unsafe {
            evaluation.forget();
            let attributes = self.selection.attributes;
            let (values, nulls) = slot.attributes(attributes);
            for at in 0..attributes {
                evaluation.set(at, (values[at], nulls[at]));
            }
            if !self.selection.takes_besides(values, nulls) || !self.selection.takes_row() {
                return;
            }
            self.met = true;
            let mut values = Vec::with_capacity(self.compiled.groups.len());
            for group in &self.compiled.groups {
                values.push(guarded(|| evaluation.value(group.state)));
            }
            let Some(group) = self.group(&values) else {
                return;
            };
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
///
/// # Safety
/// The lanes must be decoded for the window, with datums, and the window have the row. Nobody may need what was evaluated before.
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
///
/// # Safety
/// The row must have the columns that the aggregate needs; `cell` must be its state in a group, and `states` where these live.
/// Within `guarded`, with no frame in between that owns anything.
#[inline]
unsafe fn take_row(
    aggregate: &Aggregate,
    cell: &mut Cell,
    evaluation: &Evaluation,
    states: Context,
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
                let (value, isnull) = match argument.is_none() {
                    true => (Datum::from(0usize), false),
                    false => evaluation.value(*argument),
                };
                if !isnull {
                    fold.value(cell, value, *length);
                }
            }
        }
    }
}
