//! The rows of a chunk that vectors leave, one by one. Columns that go up are decoded for windows that have such rows; where other conditions are
//! to be asked first, only for those of whose rows one is wanted.

use crate::chunk::read::Chunk;
use crate::exec::aggregate::selection::{Rest, Selection};
use crate::pg::error;
use crate::pg::tid::Tid;
use crate::table::visible::OpenChunk;
use std::ops::Range;

/// Walks over chunks.
pub struct Rows {
    pub selection: Selection,
    /// What the executor asks of each row.
    pub rest: Rest,
    /// Lanes that go up, and whether the window has them decoded.
    outputs: Vec<usize>,
    has_outputs: bool,
    open: Option<OpenChunk>,
    /// What is left of the chunk: of the range that is walked, and behind it.
    range: Range<u32>,
    ranges: std::vec::IntoIter<Range<u32>>,
    /// The window that is decoded, and its rows that are wanted.
    pub window: Range<u32>,
    wanted: Vec<u32>,
    next: usize,
    /// Blocks that had been decoded before this chunk, until one of it is.
    before: Option<u64>,
}

impl Rows {
    pub fn new(mut selection: Selection, outputs: Vec<usize>) -> Rows {
        Rows {
            rest: selection.leave_rest(),
            selection,
            outputs,
            has_outputs: false,
            open: None,
            range: 0..0,
            ranges: Vec::new().into_iter(),
            window: 0..0,
            wanted: Vec::new(),
            next: 0,
            before: None,
        }
    }

    /// Turns to a chunk.
    pub fn enter(&mut self, open: OpenChunk) {
        self.before = Some(self.selection.counters.blocks);
        let ranges = self.selection.enter(&open);
        self.selection.need(self.outputs.iter().copied());
        self.ranges = ranges.into_iter();
        self.open = Some(open);
    }

    /// Forgets the chunk.
    pub fn leave(&mut self) {
        self.open = None;
        self.range = 0..0;
        self.ranges = Vec::new().into_iter();
        self.wanted.clear();
        self.next = 0;
    }

    /// The next row of the chunk, by its place in the window; None at its end.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    #[inline]
    pub unsafe fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(&row) = self.wanted.get(self.next) {
                self.next += 1;
                return Some(row as usize);
            }
            // SAFETY: by contract.
            if !unsafe { self.next_window() } {
                self.leave();
                return None;
            }
        }
    }

    /// Decodes the next window that has wanted rows.
    ///
    /// # Safety
    /// As `next`.
    unsafe fn next_window(&mut self) -> bool {
        let Some(open) = &self.open else {
            return false;
        };
        let chunk = &open.reader.chunk;
        loop {
            if self.range.is_empty() {
                match self.ranges.next() {
                    Some(range) => self.range = range,
                    None => return false,
                }
                continue;
            }
            error::check_interrupts();
            let selection = &mut self.selection;
            let window = self.range.start..selection.window_end(chunk, &self.range);
            self.range.start = window.end;
            // SAFETY: the caller's contract: the chunk was entered.
            let selected = unsafe { selection.select(open, window) };
            if let Some((rows, wanted)) = selected {
                self.has_outputs = self.rest.compressed.is_none();
                let lanes = match self.has_outputs {
                    true => &self.outputs,
                    false => &self.rest.lanes,
                };
                decode(selection, chunk, &rows, lanes);
                self.wanted.clear();
                match wanted {
                    None => self.wanted.extend(0..rows.len() as u32),
                    Some(some) => self.wanted.extend(some.iter().map(|row| row as u32)),
                }
                self.window = rows;
                self.next = 0;
            }
            if self
                .before
                .is_some_and(|before| before < selection.counters.blocks)
            {
                self.before = None;
                selection.counters.decoded += 1;
            }
            if self.next == 0 && !self.wanted.is_empty() {
                return true;
            }
        }
    }

    /// Sets the columns that conditions on a row of the window need.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn show(&self, row: usize) {
        let selection = &self.selection;
        for &lane in &self.rest.lanes {
            let lane = &selection.lanes[lane];
            // SAFETY: by contract; the row of the table has the column.
            unsafe {
                selection
                    .evaluation
                    .set(lane.at, lane.datum(&self.window, row))
            };
        }
    }

    /// Decodes the columns that go up, of the window.
    pub fn decode_outputs(&mut self) {
        if let Some(open) = self.open.as_ref().filter(|_| !self.has_outputs) {
            let chunk = &open.reader.chunk;
            decode(&mut self.selection, chunk, &self.window, &self.outputs);
            self.has_outputs = true;
        }
    }

    /// The TID of a row of the window.
    pub fn tid(&self, row: usize) -> Option<Tid> {
        let open = self.open.as_ref()?;
        let row = self.window.start + row as u32;
        Some(Tid::of_row(open.reader.chunk.tid, row))
    }
}

fn decode(selection: &mut Selection, chunk: &Chunk, rows: &Range<u32>, lanes: &[usize]) {
    for &lane in lanes {
        let lane = &mut selection.lanes[lane];
        selection.counters.blocks += u64::from(lane.decode_line(chunk, rows));
        lane.make_datums();
    }
}
