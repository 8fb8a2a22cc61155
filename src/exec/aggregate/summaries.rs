//! What headers and directories say of values, in place of the values: a chunk whose rows are all wanted, by one group, is not
//! decoded for aggregates that its header answers, nor is a block of a run that has all of it.

use super::chunk::Work;
use super::compile::{Aggregate, Compiled, GroupColumn, Keep, Way, ROWS};
use super::evaluate::guarded;
use super::fold::{int_of, Cell, Fold};
use super::known::Known;
use super::lanes::{attribute_of, Class, Lane};
use crate::chunk::datum;
use crate::chunk::read::Chunk;
use crate::chunk::told::Told;
use crate::pg::relation::Table;
use crate::pg::Datum;
use smallvec::SmallVec;
use varve_columns::chunk::{ColumnHeader, Constant};
use varve_columns::column::Kind;
use varve_columns::summary::Summary;

impl Work {
    /// Of how many of the first columns headers tell all that is asked, where they know it; None where they do not.
    pub fn asked_of_headers(&self) -> Option<usize> {
        let Compiled {
            groups, aggregates, ..
        } = &self.compiled;
        let is_told = |aggregate: &Aggregate| match aggregate.keep {
            Keep::Fold { fold, .. } => aggregate.vector.is_some() && fold.is_told(),
            Keep::Core(_) => false,
        };
        let is_total = groups.is_empty() && self.selection.has_no_condition();
        let columns = self.selection.lanes.iter().map(|lane| lane.at + 1);
        (is_total && aggregates.iter().all(is_told)).then(|| columns.max().unwrap_or(0))
    }

    /// Takes in a chunk of which all rows are wanted, by one group, by what its header tells; false where only each value tells, and nothing is taken in.
    ///
    /// # Safety
    /// The header must tell of all columns that are asked for (`asked_of_headers`), and be of the table. Inside a guarded entry point.
    pub unsafe fn answer_told(&mut self, told: &Told, table: Table<'_>) -> bool {
        if told.rows() == 0 {
            return false;
        }
        // SAFETY: by contract; there are no group columns.
        let Some(group) = (unsafe { self.group(&[]) }) else {
            return false;
        };
        let first = self.groups.first_cell(group);
        let cells = first..first + self.compiled.aggregates.len();
        let with = |(aggregate, cell): (&Aggregate, &Cell)| {
            let (&Keep::Fold { fold, .. }, Some(lane)) = (&aggregate.keep, aggregate.vector) else {
                return None;
            };
            let known = self.known(lane, told.rows(), told.columns(), table);
            fold.with(cell, &known, aggregate.mean_only)
        };
        let pairs = self
            .compiled
            .aggregates
            .iter()
            .zip(&self.groups.cells[cells.clone()]);
        let Some(taken) = pairs.map(with).collect::<Option<SmallVec<[Cell; 8]>>>() else {
            return false;
        };
        self.groups.cells[cells].copy_from_slice(&taken);
        self.met = true;
        self.selection.counters.chunks += 1;
        self.selection.counters.known += 1;
        true
    }

    /// Takes in a chunk whose rows are all wanted but for some that are gone, as far as its header answers; true where nothing is left to do,
    /// nor where its group is read another time.
    ///
    /// # Safety
    /// As `chunk`.
    pub unsafe fn answer_chunk(&mut self, chunk: &Chunk, gone: u32) -> bool {
        let rows = chunk.header.rows.saturating_sub(gone);
        let is_vector = |at: usize| self.compiled.aggregates[at].vector.is_some();
        let count = self.compiled.aggregates.len();
        if rows == 0 || count > 0 && !(0..count).any(is_vector) {
            return false;
        }
        // SAFETY: by contract.
        unsafe {
            self.selection.evaluation.forget();
            let mut values = Vec::with_capacity(self.compiled.groups.len());
            for at in 0..self.compiled.groups.len() {
                match self.only_group(chunk, at, gone == 0) {
                    Some(value) => values.push(value),
                    None => return false,
                }
            }
            let Some(group) = self.group(&values) else {
                return true;
            };
            self.whole = Some(group);
            let first = self.groups.first_cell(group);
            let mut all = true;
            for at in 0..count {
                match self.answer(chunk, at, self.groups.cells[first + at], gone) {
                    Some(with) => {
                        self.groups.cells[first + at] = with;
                        self.answered[at] = true;
                    }
                    None => all = false,
                }
            }
            all
        }
    }

    /// What is known of a lane's values, or of rows, by the headers of the columns of a chunk of the table.
    fn known(&self, lane: usize, rows: u32, columns: &[ColumnHeader], table: Table<'_>) -> Known {
        match lane {
            ROWS => Known::of_rows(rows),
            _ => of_column(&self.selection.lanes[lane], rows, columns, table),
        }
    }

    /// The state of an aggregate with the rows of a chunk, but for those that are gone; None where only each value tells.
    fn answer(&mut self, chunk: &Chunk, at: usize, cell: Cell, gone: u32) -> Option<Cell> {
        let aggregate = &self.compiled.aggregates[at];
        let (&Keep::Fold { fold, .. }, Some(lane)) = (&aggregate.keep, aggregate.vector) else {
            return None;
        };
        let mean_only = aggregate.mean_only;
        if lane == ROWS {
            let rows = chunk.header.rows.saturating_sub(gone);
            return fold.with(&cell, &Known::of_rows(rows), mean_only);
        }
        let (rows, columns) = (chunk.header.rows, chunk.columns.columns());
        let known = self.known(lane, rows, columns, chunk.table());
        if gone > 0 && fold.is_unmoved_by(&cell, &known) {
            return Some(cell);
        }
        let with = fold.with(&cell, &known, mean_only)?;
        if gone == 0 {
            return Some(with);
        }
        let with_squares = fold == Fold::Moments && !mean_only;
        let left = match fold.is_extreme() {
            // As a rule few blocks have to be decoded for those.
            true => self.known_left(chunk, lane, with_squares)?,
            false => self.left_of(chunk, lane, with_squares),
        };
        fold.with(&cell, &left, mean_only)
    }

    /// A group column of a chunk, where all its rows have the same. Bounds are values of rows only where all rows are there.
    ///
    /// # Safety
    /// As `chunk`; it must be the chunk that the selection has entered.
    unsafe fn only_group(
        &mut self,
        chunk: &Chunk,
        at: usize,
        has_bounds: bool,
    ) -> Option<(Datum, bool)> {
        let lanes = &mut self.selection.lanes;
        let GroupColumn {
            state, typ, way, ..
        } = self.compiled.groups[at];
        let evaluation = self.selection.evaluation;
        // SAFETY: the caller's contract: what an expression needs is set before it is evaluated.
        unsafe {
            match way {
                Way::Same => {}
                Way::Column(lane) => return lanes[lane].only_value(chunk),
                Way::Rising(lane) => {
                    let lane = &mut lanes[lane];
                    if let Some(value) = lane.only_value(chunk) {
                        evaluation.set(lane.at, value);
                    } else if !has_bounds {
                        return None;
                    } else {
                        // Both are values of rows that are wanted: evaluating for them raises what core would.
                        let head = chunk.columns.columns().get(lane.at)?;
                        if head.nulls > 0 || !datum::fits(head.kind, attribute_of(chunk, lane.at)) {
                            return None;
                        }
                        let least = datum::of_bound(head.kind, head.summary.min)?;
                        let greatest = datum::of_bound(head.kind, head.summary.max)?;
                        evaluation.set(lane.at, (greatest, false));
                        let last = guarded(|| evaluation.value(state));
                        evaluation.set(lane.at, (least, false));
                        let first = guarded(|| evaluation.value(state));
                        return typ.same_or_null(first, last).then_some(first);
                    }
                }
                Way::Each | Way::Zoned(..) => {
                    for at in self.compiled.groups[at].lanes.clone() {
                        let lane = &mut lanes[at];
                        evaluation.set(lane.at, lane.only_value(chunk)?);
                    }
                }
            }
            Some(guarded(|| evaluation.value(state)))
        }
    }
}

/// What is known of a column of a chunk of a table, by the headers of the chunk's columns; of one that was added later, by its default.
fn of_column(lane: &Lane, rows: u32, columns: &[ColumnHeader], table: Table<'_>) -> Known {
    if let Some(head) = columns.get(lane.at) {
        // What does not fit is raised by whoever decodes it.
        return match datum::fits(head.kind, &table.attributes()[lane.at]) {
            true => Known::new(rows, head.nulls, &head.summary),
            false => Known::new(rows, head.nulls, &Summary::EMPTY),
        };
    }
    // SAFETY: an attribute of the table, which is open.
    let (value, isnull) = unsafe { datum::missing(table.descriptor(), lane.at + 1) };
    if isnull {
        return Known::new(rows, rows, &Summary::EMPTY);
    }
    let bits = value.value() as u64;
    let summary = match lane.class {
        Class::Int => Constant::Int(int_of(value, lane.length)).summary(Kind::I64, rows),
        Class::Double => Constant::F64(bits).summary(Kind::F64, rows),
        Class::Single => Constant::F32(bits as u32).summary(Kind::F32, rows),
        Class::Other => Summary::EMPTY,
    };
    Known::new(rows, 0, &summary)
}
