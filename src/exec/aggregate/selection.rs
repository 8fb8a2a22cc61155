//! The rows of a table that a query's conditions leave: a chunk is walked in windows, rows that lie in one block of every lane that is needed.
//! Bounds of the chunk and of blocks leave out what no row can satisfy; then conditions are decided over vectors; then the others
//! are evaluated, in their order, for the rows that are left.

use super::clauses::{Bound, Clause};
use super::conditions::{Bounded, Condition, Verdict};
use super::evaluate::{guarded, Evaluation};
use super::lanes::{Edges, Lane, WINDOW_ROWS};
use super::row_ranges::{intersect, runs_of, united};
use super::slice::Slice;
use crate::chunk::read::Chunk;
use crate::chunk::vectors::Budget;
use crate::pg::custom_scan::NodeState;
use crate::pg::error;
use crate::pg::expression::{columns_of, Expression};
use crate::pg::expression_context::Prepared;
use crate::pg::relation::Table;
use crate::pg::Datum;
use crate::table::visible::OpenChunk;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::vector::Bitmap;

/// What was done, for EXPLAIN.
#[derive(Default, Clone, Copy)]
pub struct Counters {
    /// Chunks that the scan came upon; those that bounds exclude, that were answered without values, and of which blocks were decoded.
    pub chunks: u64,
    pub skipped: u64,
    pub known: u64,
    pub decoded: u64,
    pub blocks: u64,
    pub tail_rows: u64,
}

impl Counters {
    pub const COUNT: usize = 6;

    pub fn to_array(self) -> [u64; Self::COUNT] {
        [
            self.chunks,
            self.skipped,
            self.known,
            self.decoded,
            self.blocks,
            self.tail_rows,
        ]
    }

    pub fn from_array(counts: [u64; Self::COUNT]) -> Counters {
        let [chunks, skipped, known, decoded, blocks, tail_rows] = counts;
        Counters {
            chunks,
            skipped,
            known,
            decoded,
            blocks,
            tail_rows,
        }
    }

    pub fn add(&mut self, other: Counters) {
        let mut sums = self.to_array();
        for (sum, count) in sums.iter_mut().zip(other.to_array()) {
            *sum += count;
        }
        *self = Counters::from_array(sums);
    }
}

/// Makes lanes as they are asked for.
pub struct Lanes {
    lanes: Vec<Lane>,
    table: Table<'static>,
    relid: u32,
    budget: Rc<Budget>,
}

impl Lanes {
    /// Lanes of the table that a node scans.
    pub fn of_node(node: NodeState) -> Lanes {
        Lanes {
            lanes: Vec::new(),
            table: node.table(),
            relid: node.plan().table_number(),
            budget: Rc::default(),
        }
    }

    /// The lane of a column, from 0.
    pub fn at(&mut self, column: usize) -> usize {
        let known = self.lanes.iter().position(|lane| lane.at == column);
        known.unwrap_or_else(|| {
            let attribute = &self.table.attributes()[column];
            let budget = Rc::clone(&self.budget);
            self.lanes.push(Lane::new(column, attribute, budget));
            self.lanes.len() - 1
        })
    }

    /// The column, from 0, of a lane.
    pub fn column(&self, lane: usize) -> usize {
        self.lanes[lane].at
    }

    /// The lanes of all columns that expressions over the table's rows have.
    pub fn of<'a>(&mut self, expressions: impl IntoIterator<Item = Expression<'a>>) -> Vec<usize> {
        let columns = columns_of(self.relid, expressions).into_iter();
        columns.map(|number| self.at(number as usize - 1)).collect()
    }
}

/// Rows of a window, and which of them are wanted; None: all of them.
pub type Selected = (Range<u32>, Option<Bitmap>);

/// Conditions that are evaluated row by row; there may be none.
pub struct Rest {
    pub compressed: Prepared,
    pub lanes: Vec<usize>,
    pub ordinary: Prepared,
}

/// Chooses rows.
pub struct Selection {
    pub lanes: Vec<Lane>,
    pub evaluation: Evaluation,
    /// Decided over vectors, each condition with its lane, before arguments are known.
    conditions: Vec<Clause<(Condition<'static>, usize)>>,
    /// Those whose arguments are known, and behind them what else is asked of rows for a while.
    pub clauses: Vec<Bound>,
    /// Evaluated once for an execution.
    once: Prepared,
    /// Evaluated for the rows that are left, over these lanes.
    residual: Prepared,
    residual_lanes: Vec<usize>,
    /// All that depend on the row: for rows of the tail.
    every: Prepared,
    /// Columns that any expression needs of a row of the tail.
    pub attributes: usize,
    /// Of the chunk that is walked: conditions that are to be decided, whether others have left only some of its rows, and the lanes whose
    /// blocks bound windows.
    undecided: Vec<usize>,
    is_narrowed: bool,
    needed: Vec<bool>,
    /// The rows of the window that was selected last in which conditions have left all that they hold for: what they say of single rows does not count.
    span: Range<u32>,
    pub counters: Counters,
}

impl Selection {
    /// # Safety
    /// `conditions` must be those of the plan of the node that begins; `lanes` are its, and have all that else is needed.
    pub unsafe fn new(
        node: NodeState,
        conditions: impl IntoIterator<Item = Expression<'static>>,
        mut lanes: Lanes,
        evaluation: Evaluation,
    ) -> Selection {
        let (mut once, mut every, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        let parent = node.as_parent();
        let mut vectored = Vec::new();
        // SAFETY: by contract.
        unsafe {
            for clause in conditions {
                if !clause.has_columns() {
                    once.push(clause);
                    continue;
                }
                every.push(clause);
                match Clause::of(clause) {
                    Some(found) => vectored.push(found.map(&mut |mut condition: Condition<'_>| {
                        condition.begin(|argument| argument.prepare(parent));
                        let lane = lanes.at(condition.at);
                        (condition, lane)
                    })),
                    None => rest.push(clause),
                }
            }
            let residual_lanes = lanes.of(rest.iter().copied());
            let attributes = lanes.lanes.iter().map(|lane| lane.at + 1).max();
            Selection {
                needed: vec![false; lanes.lanes.len()],
                lanes: lanes.lanes,
                evaluation,
                conditions: vectored,
                clauses: Vec::new(),
                once: node.prepared_conditions(once),
                residual: node.prepared_conditions(rest),
                residual_lanes,
                every: node.prepared_conditions(every),
                attributes: attributes.unwrap_or(0),
                undecided: Vec::new(),
                is_narrowed: false,
                span: 0..0,
                counters: Counters::default(),
            }
        }
    }

    /// Leaves conditions that are decided by no vectors to the caller: of rows of chunks, over these lanes, and of rows of the tail, all of them.
    pub fn leave_rest(&mut self) -> Rest {
        Rest {
            compressed: core::mem::replace(&mut self.residual, Prepared::NONE),
            lanes: self.residual_lanes.clone(),
            ordinary: core::mem::replace(&mut self.every, Prepared::NONE),
        }
    }

    /// Evaluates what is the same for all rows; false where no row can be wanted.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn bind(&mut self) -> bool {
        // SAFETY: by contract.
        unsafe {
            let evaluation = self.evaluation;
            evaluation.context.see(evaluation.row);
            evaluation.forget();
            let once = self.once;
            let holds = guarded(|| evaluation.holds(once));
            if holds {
                let bound = self.conditions.iter();
                let bound = bound.map(|clause| clause.bind(&evaluation));
                self.clauses = bound.collect();
            }
            evaluation.forget();
            holds
        }
    }

    /// Asks this of rows besides what the plan does, in place of what was asked so before.
    pub fn also(&mut self, clauses: impl IntoIterator<Item = Bound>) {
        self.clauses.truncate(self.conditions.len());
        self.clauses.extend(clauses);
    }

    /// The conditions on one column, each with it.
    pub fn on_columns(&self) -> Vec<(&Bounded, usize)> {
        let clauses = self.clauses.iter();
        let named = clauses.filter_map(|clause| match clause {
            Clause::One((bounded, lane)) => Some((bounded, self.lanes[*lane].at)),
            _ => None,
        });
        named.collect()
    }

    /// Turns to a chunk: the rows of blocks of which no condition excludes all.
    pub fn enter(&mut self, open: &OpenChunk) -> Vec<Range<u32>> {
        let chunk = &open.reader.chunk;
        self.counters.chunks += 1;
        let mut ranges = Vec::new();
        // A chunk whose rows are all gone may have lost its payload.
        if !open.is_empty() {
            for lane in &mut self.lanes {
                lane.enter(chunk);
            }
            ranges = self.candidates(chunk);
        }
        self.counters.skipped += u64::from(ranges.is_empty());
        ranges
    }

    fn candidates(&mut self, chunk: &Chunk) -> Vec<Range<u32>> {
        let mut ranges = Vec::from_iter(core::iter::once(0..chunk.header.rows));
        self.undecided.clear();
        self.is_narrowed = false;
        for (at, clause) in self.clauses.iter().enumerate() {
            let (verdict, left) = clause.candidates(&mut self.lanes, chunk);
            match verdict {
                Verdict::None => return Vec::new(),
                Verdict::All => continue,
                Verdict::Some => self.undecided.push(at),
            }
            ranges = intersect(&ranges, &left);
            if ranges.is_empty() {
                return ranges;
            }
        }
        self.narrow(chunk, ranges)
    }

    /// Of some ranges of rows, those for which a condition on the column holds by which rows are sorted first, where it lists integers: they are
    /// looked for, and the condition is decided.
    fn narrow(&mut self, chunk: &Chunk, ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
        for (place, &at) in self.undecided.iter().enumerate() {
            let Clause::One((condition, lane)) = &self.clauses[at] else {
                continue;
            };
            let lane = &mut self.lanes[*lane];
            let Some(wanted) = condition.integers().filter(|_| lane.rises(chunk)) else {
                continue;
            };
            let mut found = Vec::new();
            for rows in ranges {
                let blocks = &mut self.counters.blocks;
                listed_rows(lane, chunk, rows, wanted, blocks, &mut found);
            }
            self.undecided.remove(place);
            self.is_narrowed = true;
            return united(found);
        }
        ranges
    }

    /// Is every row wanted?
    pub fn has_no_condition(&self) -> bool {
        self.clauses.is_empty() && self.residual.is_none()
    }

    /// Do the conditions hold for every row of the chunk?
    pub fn takes_all(&self) -> bool {
        self.undecided.is_empty() && !self.is_narrowed && self.residual.is_none()
    }

    /// Says which lanes windows are bounded by, beside those of conditions.
    pub fn need(&mut self, lanes: impl Iterator<Item = usize>) {
        let needed = &mut self.needed;
        needed.fill(false);
        for &at in &self.undecided {
            self.clauses[at].visit(&mut |(_, lane)| needed[*lane] = true);
        }
        lanes
            .chain(self.residual_lanes.iter().copied())
            .for_each(|lane| needed[lane] = true);
    }

    /// The end of the window that begins with the first of some rows.
    pub fn window_end(&mut self, chunk: &Chunk, rows: &Range<u32>) -> u32 {
        let mut end = rows.end.min(rows.start + WINDOW_ROWS);
        let lanes = self.lanes.iter_mut().zip(&self.needed);
        for (lane, _) in lanes.filter(|(_, needed)| **needed) {
            if let Some(block) = lane.block(chunk, rows.start) {
                end = end.min(block.rows.end);
            }
        }
        end
    }

    /// Lets the lanes know whether rows beside a window of a range, or beside what the conditions have left of it, are wanted: where these have an end of their
    /// own, or that of the range, they are not.
    pub fn set_edges(&mut self, window: &Range<u32>, range: &Range<u32>, is_selected: bool) {
        let rows = if is_selected { &self.span } else { window };
        let edges = Edges {
            begins: rows.start > window.start || window.start == range.start,
            ends: rows.end < window.end || window.end == range.end,
        };
        let lanes = self.lanes.iter_mut();
        lanes.for_each(|lane| lane.set_edges(edges));
    }

    /// The rows of a window that are there and wanted; None: no row is.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node, in the chunk that was entered last.
    pub unsafe fn select(&mut self, open: &OpenChunk, mut rows: Range<u32>) -> Option<Selected> {
        let chunk = &open.reader.chunk;
        // None: all of them.
        let mut selected = open.visible(rows.clone());
        self.span = rows.clone();
        if selected.as_ref().is_some_and(Bitmap::is_none) {
            return None;
        }
        for &at in &self.undecided {
            let (clause, lanes) = (&self.clauses[at], &mut self.lanes);
            let decoded = &mut self.counters.blocks;
            if selected.is_none() {
                if let Some(kept) = clause.range_of(lanes, chunk, &rows, decoded) {
                    rows = rows.start + kept.start as u32..rows.start + kept.end as u32;
                    self.span = rows.clone();
                    if rows.is_empty() {
                        return None;
                    }
                    continue;
                }
            }
            let selected = selected.get_or_insert_with(|| Bitmap::all(rows.len()));
            clause.keep(lanes, chunk, &rows, selected, decoded);
            if selected.is_none() {
                return None;
            }
        }
        if !self.residual.is_none() {
            let selected = selected.get_or_insert_with(|| Bitmap::all(rows.len()));
            // SAFETY: by contract.
            unsafe { self.keep_residual(chunk, &rows, selected) };
        }
        let Some(selected) = selected else {
            return Some((rows, None));
        };
        let (first, last) = (selected.first()?, selected.last()?);
        if selected.is_all() {
            return Some((rows, None));
        }
        // Times choose rows side by side: then all that is left of the window is wanted.
        let selected = selected.slice(first..last + 1);
        let rows = rows.start + first as u32..rows.start + last as u32 + 1;
        let all = selected.is_all();
        Some((rows, (!all).then_some(selected)))
    }

    /// Leaves the rows for which the conditions hold that are evaluated row by row.
    ///
    /// # Safety
    /// As `select`; `rows` must be of a window of the chunk, and `selected` have a bit for each.
    unsafe fn keep_residual(&mut self, chunk: &Chunk, rows: &Range<u32>, selected: &mut Bitmap) {
        let wanted: Vec<usize> = self.residual_lanes.clone();
        self.prepare(chunk, rows, wanted.iter().copied());
        let (lanes, residual) = (&self.lanes, self.residual);
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
    pub fn prepare(
        &mut self,
        chunk: &Chunk,
        rows: &Range<u32>,
        lanes: impl Iterator<Item = usize>,
    ) {
        for lane in lanes {
            let lane = &mut self.lanes[lane];
            self.counters.blocks += u64::from(lane.decode(chunk, rows));
            lane.make_datums();
        }
    }

    /// Does a row of the tail with these values satisfy what is asked besides the plan's conditions?
    ///
    /// # Safety
    /// They must be those of a row of the table; inside a guarded entry point.
    pub unsafe fn takes_besides(&self, values: &[Datum], nulls: &[bool]) -> bool {
        self.clauses[self.conditions.len()..]
            .iter()
            .all(|clause| match clause {
                Clause::One((bounded, lane)) => {
                    let lane = &self.lanes[*lane];
                    let value = (values[lane.at], nulls[lane.at]);
                    // SAFETY: by contract. A text that is not stored as it is is one of a list, or not.
                    unsafe {
                        let holds = bounded.holds(value, lane.length);
                        holds.unwrap_or_else(|| bounded.lists(value, lane.length))
                    }
                }
                _ => panic!("BUG: more is asked of rows of chunks than of others"),
            })
    }

    /// Is a row of the tail, whose columns `evaluation` has, wanted?
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn takes_row(&self) -> bool {
        let (evaluation, every) = (self.evaluation, self.every);
        // SAFETY: by contract; the closure owns nothing.
        unsafe { guarded(|| evaluation.holds(every)) }
    }
}

/// Finds, among some rows through which the lane's values rise, those whose value is one of the `wanted`, which rise too. Decoded blocks
/// are counted.
fn listed_rows(
    lane: &mut Lane,
    chunk: &Chunk,
    mut rows: Range<u32>,
    wanted: &[i64],
    blocks: &mut u64,
    found: &mut Vec<Range<u32>>,
) {
    while !rows.is_empty() {
        error::check_interrupts();
        let block = lane.block(chunk, rows.start);
        let end = block.map_or(rows.end, |block| block.rows.end.min(rows.end));
        let window = rows.start..end;
        rows.start = end;
        *blocks += u64::from(lane.decode(chunk, &window));
        if let Slice::Ints(values) = lane.slice(&window) {
            let runs = runs_of(values, wanted);
            let of_chunk = |at: usize| window.start + at as u32;
            found.extend(runs.map(|run| of_chunk(run.start)..of_chunk(run.end)));
        }
    }
}
