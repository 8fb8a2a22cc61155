//! Chunks that are entered by first keys, or by cells of them, for a scan that names no first key: their series are read cell by cell in
//! the order of the index, so that no more than a cell of them is in memory.

use super::entries::{IndexDesc, Key, Time};
use super::opened::Opened;
use super::quals::Quals;
use super::rows::View;
use super::section::{has_rows, is_null, Place, Section, Unkeyed};
use crate::chunk::{dead_header, index_entries};
use crate::pg::error;
use crate::pg::nbtree::EntryScan;
use crate::pg::tid::Tid;
use crate::table::fetched;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// A walk over the cells of an index.
pub struct Walk {
    entries: EntryScan,
    forward: bool,
    /// The entry that was read ahead: its cell, and the header it names.
    ahead: Option<(i64, Tid)>,
    /// Series of the cell that it is at.
    section: Section,
    /// Chunks that keys of this cell, and of the one before, point into.
    chunks: Vec<Rc<OpenChunk>>,
    before: Vec<Rc<OpenChunk>>,
    /// Headers that are looked at otherwise.
    known: FxHashSet<Tid>,
}

impl Walk {
    /// `entries` must have room for what `Quals::first_keys` returns, and for a key for each other column.
    pub fn new(entries: EntryScan) -> Walk {
        Walk {
            entries,
            forward: true,
            ahead: None,
            section: Section::default(),
            chunks: Vec::new(),
            before: Vec::new(),
            known: FxHashSet::default(),
        }
    }

    /// Starts over, at the end of the index where it is to go backward.
    ///
    /// # Safety
    /// The index must be open, and the quals' arguments live as long as the walk goes on.
    pub unsafe fn start(
        &mut self,
        desc: &IndexDesc,
        quals: &Quals,
        unkeyed: &Unkeyed,
        forward: bool,
    ) {
        self.clear();
        self.forward = forward;
        self.known = unkeyed.seen.clone();
        let mut keys = quals.first_keys().swap_remove(0);
        keys.extend((2..=desc.columns.len()).map(is_null));
        // SAFETY: by contract.
        unsafe { self.entries.restart(&keys) };
        self.ahead = self.read(desc);
    }

    /// Forgets what it has read.
    pub fn clear(&mut self) {
        self.ahead = None;
        self.section = Section::default();
        self.chunks.clear();
        self.before.clear();
    }

    pub fn end(mut self) {
        self.clear();
        self.entries.end();
    }

    /// The series that comes next.
    ///
    /// # Safety
    /// Index and table must be open, the snapshot and the quals be those of the scan, the fetch of its table.
    pub unsafe fn peek(
        &mut self,
        place: Place,
        quals: &Quals,
        opened: &mut Opened,
        fetch: *mut pg_sys::IndexFetchTableData,
    ) -> Option<Rc<Key>> {
        loop {
            if let Some(key) = self.section.peek(self.forward) {
                return Some(Rc::clone(key));
            }
            // SAFETY: by contract.
            unsafe { self.next_cell(place, quals, opened, fetch)? };
        }
    }

    /// Takes the rows of the series that comes next.
    pub fn take(&mut self) -> Vec<(Time, Tid)> {
        self.section.take(self.forward)
    }

    /// Reads the series of the next cell; `None` where there is none.
    unsafe fn next_cell(
        &mut self,
        place: Place,
        quals: &Quals,
        opened: &mut Opened,
        fetch: *mut pg_sys::IndexFetchTableData,
    ) -> Option<()> {
        let (cell, header) = self.ahead.take()?;
        self.before = core::mem::take(&mut self.chunks);
        self.add(place, header, opened);
        while let Some((next, header)) = self.read(place.desc) {
            if next != cell {
                self.ahead = Some((next, header));
                break;
            }
            self.add(place, header, opened);
        }
        // SAFETY: the caller's contract; the chunks are kept as long as keys of the cell.
        unsafe {
            if self.chunks.len() <= fetched::RECENT_CHUNKS {
                for chunk in &self.chunks {
                    fetched::offer(fetch, place.snapshot, chunk);
                }
            }
            let view = View {
                desc: place.desc,
                quals,
                descriptor: (*place.table).rd_att,
            };
            self.section = Section::collect_of(&self.chunks, view, Some(cell));
        }
        Some(())
    }

    /// Opens a chunk, if the snapshot sees it.
    fn add(&mut self, place: Place, header: Tid, opened: &mut Opened) {
        let is_known = |chunk: &Rc<OpenChunk>| chunk.reader.chunk.tid == header;
        if self.known.contains(&header) || self.chunks.iter().any(is_known) {
            return;
        }
        // SAFETY: index and table are open, the snapshot is valid. The page of the entry that was read last is pinned.
        unsafe {
            match opened.open(place.table, header, place.snapshot) {
                Some(chunk) => self.chunks.extend(has_rows(&chunk).then_some(chunk)),
                None => self
                    .entries
                    .drop_if(index_entries::entry_of_header(header), || {
                        dead_header::is_dead(place.table, header)
                    }),
            }
        }
    }

    /// The next entry of a chunk: its cell, and the header it names.
    fn read(&mut self, desc: &IndexDesc) -> Option<(i64, Tid)> {
        let columns = desc.columns.len();
        let mut values = vec![pg_sys::Datum::from(0usize); columns];
        let mut nulls = vec![true; columns];
        while let Some((entry, tuple)) = self.entries.next(self.forward) {
            error::check_interrupts();
            let Some(header) = index_entries::header_of_entry(entry) else {
                continue;
            };
            // SAFETY: the tuple is of this index and stays until the next read.
            let length = unsafe {
                let descriptor = (*desc.index).rd_att;
                let (to_values, to_nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                pg_sys::index_deform_tuple(tuple, descriptor, to_values, to_nulls);
                index_entries::cell_length(desc.index)
            };
            if let (Some(length), false) = (length, nulls[0]) {
                let first = index_entries::time_value(values[0], length);
                return Some((index_entries::cell_of(first), header));
            }
        }
        None
    }
}
