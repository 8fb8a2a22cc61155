//! Which rows of a chunk a DELETE wants, and deleting them together.

use crate::chunk::chunk_cache;
use crate::chunk::read::Chunk;
use crate::chunk::reader::Reader;
use crate::chunk::vectors::Budget;
use crate::exec::aggregate::conditions::{Bounded, Verdict};
use crate::exec::aggregate::lanes::{Lane, WINDOW_ROWS};
use crate::exec::aggregate::places;
use crate::pg::error;
use crate::pg::memory::{self, Context};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::CommandId;
use crate::scan::headers;
use crate::table::changes;
use crate::table::locks::{self, RowState};
use crate::table::visible::OpenChunk;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;
use varve_columns::vector::Bitmap;

/// Rows of a chunk from which on it is locked as a whole, wherever they are.
const MANY_ROWS: usize = 512;
/// The same where they lie side by side: at least one of two.
const SOME_ROWS: usize = 32;

/// What was done, for EXPLAIN.
#[derive(Default, Clone, Copy)]
pub struct Counters {
    pub chunks: u64,
    pub rows: u64,
}

/// A DELETE from one table.
pub struct Deletion<'a> {
    table: Table<'a>,
    /// The statement's own.
    snapshot: Snapshot<'a>,
    command: CommandId,
    /// Each with its lane; all of them must hold.
    conditions: Vec<(Bounded, usize)>,
    lanes: Vec<Lane>,
}

impl<'a> Deletion<'a> {
    /// The conditions are on columns from 0.
    ///
    /// `table` must be open for writing, `snapshot` the registered one of the statement whose command this is.
    pub fn new(
        table: Table<'a>,
        snapshot: Snapshot<'a>,
        command: CommandId,
        conditions: Vec<(Bounded, usize)>,
    ) -> Deletion<'a> {
        let mut columns: Vec<usize> = conditions.iter().map(|(_, column)| *column).collect();
        columns.sort_unstable();
        columns.dedup();
        let attributes = table.attributes();
        let budget: Rc<Budget> = Rc::default();
        let lanes = columns
            .iter()
            .map(|&at| Lane::new(at, &attributes[at], Rc::clone(&budget)));
        let lane_of = |(bounded, column): (Bounded, usize)| {
            let lane = columns.iter().position(|&known| known == column);
            (bounded, lane.expect("BUG: a condition without a lane"))
        };
        Deletion {
            table,
            snapshot,
            command,
            lanes: lanes.collect(),
            conditions: conditions.into_iter().map(lane_of).collect(),
        }
    }

    /// Deletes what it can of chunks; `scratch` is for what is needed meanwhile. Where no series index tells where the chunks are, it
    /// leaves all of them alone.
    ///
    /// # Safety
    /// Inside a guarded entry point. The node hands on no row of the table before.
    pub unsafe fn run(&mut self, scratch: Context) -> Counters {
        let mut counters = Counters::default();
        // SAFETY: by contract.
        unsafe {
            for at in self.headers(scratch) {
                error::check_interrupts();
                // What cannot be read is the scan's to complain about.
                let reader = chunk_cache::try_reader_at(self.table, at, self.snapshot);
                let Some(Ok(reader)) = reader else {
                    continue;
                };
                if reader.chunk.header.has(FLAG_TOMBSTONE) {
                    continue;
                }
                let rows = self.delete_from(reader);
                counters.chunks += u64::from(rows > 0);
                counters.rows += rows;
            }
        }
        counters
    }

    /// Where headers are of chunks that may have rows for it.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn headers(&self, scratch: Context) -> Vec<Tid> {
        let conditions = self.conditions.iter();
        let conditions: Vec<(&Bounded, usize)> = conditions
            .map(|(bounded, lane)| (bounded, self.lanes[*lane].at))
            .collect();
        // SAFETY: the caller's contract.
        unsafe {
            let find = || places::find(self.table, self.snapshot, &conditions, false);
            let found = memory::within(scratch, find).map(|found| found.headers);
            found
                .or_else(|| headers::places(self.table, self.snapshot).map(|all| all.headers))
                .unwrap_or_default()
        }
    }

    /// Deletes the rows of a chunk that the statement wants, if they are worth it and nobody else has rows of the chunk; the scan
    /// does not see the chunk then. Returns how many.
    ///
    /// # Safety
    /// As `run`; the reader must be of a chunk of the table that the snapshot sees.
    unsafe fn delete_from(&mut self, reader: Rc<Reader>) -> u64 {
        // SAFETY: the caller's contract.
        unsafe {
            let open = OpenChunk::new(reader, self.snapshot);
            let wanted = self.wanted(&open);
            let chunk = &open.reader.chunk;
            if !is_worth_it(&open, &wanted) {
                return 0;
            }
            let Some(newest) = locks::lock_all(self.table, chunk) else {
                return 0;
            };
            // Others have changed rows of it since the snapshot: one by one, they are followed, or raise an error.
            let is_same =
                newest.chunk.tid == chunk.tid && newest.chunk.map.deleted() == chunk.map.deleted();
            if !is_same {
                return 0;
            }
            let newest_chunk = &newest.chunk;
            let is_live = |&row: &u32| locks::row_state(newest_chunk, row) == RowState::Live;
            let live: Vec<u32> = wanted
                .iter()
                .map(|row| row as u32)
                .filter(is_live)
                .collect();
            let rows = changes::record_all(newest_chunk, live, self.command);
            self.table.check_serializable();
            changes::pass_by(newest_chunk, self.snapshot);
            rows as u64
        }
    }

    /// The rows of a chunk that the snapshot sees and for which the conditions hold.
    fn wanted(&mut self, open: &OpenChunk) -> Bitmap {
        let chunk = &open.reader.chunk;
        let count = chunk.header.rows;
        let mut wanted = Bitmap::none(count as usize);
        if open.is_empty() {
            return wanted;
        }
        for lane in &mut self.lanes {
            lane.enter(chunk);
        }
        let undecided = match self.judge(chunk) {
            Verdict::None => return wanted,
            Verdict::All => false,
            Verdict::Some => true,
        };
        let mut row = 0;
        while row < count {
            error::check_interrupts();
            let mut end = count.min(row + WINDOW_ROWS);
            for lane in &mut self.lanes {
                if let Some(block) = lane.block(chunk, row).filter(|_| undecided) {
                    end = end.min(block.rows.end);
                }
            }
            let mut kept = Bitmap::all((end - row) as usize);
            if undecided {
                self.keep(chunk, row..end, &mut kept);
            }
            let is_clear = open.is_clear(row..end);
            for at in kept.iter() {
                if is_clear || !open.is_hidden(row + at as u32) {
                    wanted.insert(row as usize + at);
                }
            }
            row = end;
        }
        wanted
    }

    /// What the bounds of a chunk's columns say of all its rows.
    fn judge(&self, chunk: &Chunk) -> Verdict {
        let mut all = Verdict::All;
        for (condition, lane) in &self.conditions {
            let Some(head) = chunk.columns.columns().get(self.lanes[*lane].at) else {
                all = Verdict::Some;
                continue;
            };
            let (min, max) = (&head.summary.min, &head.summary.max);
            match condition.judge(min, max, head.nulls, chunk.header.rows) {
                Verdict::None => return Verdict::None,
                Verdict::Some => all = Verdict::Some,
                Verdict::All => {}
            }
        }
        all
    }

    /// Keeps the rows of a window, which lies in one block of each lane, for which the conditions hold.
    fn keep(&mut self, chunk: &Chunk, window: Range<u32>, rows: &mut Bitmap) {
        for (condition, lane) in &self.conditions {
            let lane = &mut self.lanes[*lane];
            let verdict = match lane.block(chunk, window.start) {
                Some(block) => {
                    let length = block.rows.len() as u32;
                    condition.judge(&block.min, &block.max, block.nulls, length)
                }
                None => Verdict::Some,
            };
            match verdict {
                Verdict::None => return *rows = Bitmap::none(window.len()),
                Verdict::All => continue,
                Verdict::Some => {}
            }
            lane.decode(chunk, &window);
            condition.keep(lane, &window, rows);
            if rows.is_none() {
                return;
            }
        }
    }
}

/// Are these rows enough of a chunk to lock it as a whole? All that are there always are.
fn is_worth_it(open: &OpenChunk, wanted: &Bitmap) -> bool {
    let count = wanted.count();
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
        return false;
    };
    let lie_together = count >= SOME_ROWS && last - first < 2 * count;
    count >= MANY_ROWS || lie_together || {
        let header = &open.reader.chunk.header;
        count >= (header.rows - header.deleted) as usize
    }
}
