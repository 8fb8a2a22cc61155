//! Chunks that are entered by first keys, or by cells of them, for a scan that names no first key: their series are read cell by cell in
//! the order of the index, so that no more than a cell of them is in memory. The only chunk of a cell, sorted as the index is, needs none of
//! this: its rows go out as they lie (`Run`).

use super::entries::{IndexDesc, Key, KeyValues, Time};
use super::opened::Opened;
use super::quals::Quals;
use super::rows::{is_sorted_as, partition_point, rows_of_first_keys, ChunkRows, View};
use super::section::{has_rows, Place, Section, Unkeyed};
use crate::chunk::{dead_header, index_entries};
use crate::pg::error;
use crate::pg::nbtree::EntryScan;
use crate::pg::scan_key::ScanKey;
use crate::pg::table_fetch::TableFetch;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use crate::table::fetched;
use crate::table::visible::OpenChunk;
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::rc::Rc;

/// Rows of a chunk that is sorted as the index is, those of a cell that nobody has taken yet.
struct Run {
    open: Rc<OpenChunk>,
    rows: Range<u32>,
}

impl Run {
    /// # Safety
    /// `view` must be of the chunk's table.
    unsafe fn key(&self, row: u32, view: View) -> KeyValues {
        let keys = view.desc.columns[..view.desc.key_columns()].iter();
        // SAFETY: by contract.
        keys.map(|&column| unsafe { self.open.reader.value(view.descriptor, row, column) })
            .collect()
    }

    /// The row that comes next.
    fn first(&self, forward: bool) -> Option<u32> {
        let mut rows = self.rows.clone();
        if forward {
            rows.next()
        } else {
            rows.next_back()
        }
    }

    /// Takes the rows that come before those of `key`, or with it these as well.
    ///
    /// # Safety
    /// As `key`.
    unsafe fn take(
        &mut self,
        key: &KeyValues,
        with_it: bool,
        forward: bool,
        view: View,
    ) -> Range<u32> {
        let (start, end) = (self.rows.start, self.rows.end);
        let cut = partition_point(start..end, |row| {
            // SAFETY: by contract.
            let order = view
                .desc
                .compare_values(&unsafe { self.key(row, view) }, key);
            order.is_lt() || order.is_eq() && forward == with_it
        });
        if forward {
            self.rows = cut..end;
            start..cut
        } else {
            self.rows = start..cut;
            cut..end
        }
    }
}

/// A walk over the cells of an index.
pub struct Walk {
    entries: EntryScan,
    forward: bool,
    /// The entry that was read ahead: its cell, and the header it names.
    ahead: Option<(i64, Tid)>,
    /// Series of the cell that it is at, or its rows.
    section: Section,
    run: Option<Run>,
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
            run: None,
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
        keys.extend((2..=desc.columns.len()).map(ScanKey::is_null));
        // SAFETY: by contract.
        unsafe { self.entries.restart(&keys) };
        self.ahead = self.read(desc);
    }

    /// Takes all rows of a chunk that is in no cell, and is sorted as the index is, as those of one; false where there are cells.
    pub fn start_run(&mut self, open: &Rc<OpenChunk>, forward: bool) -> bool {
        if self.ahead.is_some() {
            return false;
        }
        self.clear();
        self.forward = forward;
        self.run = Some(Run {
            open: Rc::clone(open),
            rows: 0..open.reader.rows(),
        });
        true
    }

    /// Forgets what it has read.
    pub fn clear(&mut self) {
        self.ahead = None;
        self.section = Section::default();
        self.run = None;
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
        fetch: TableFetch<'_>,
    ) -> Option<Rc<Key>> {
        loop {
            if let Some(key) = self.section.peek(self.forward) {
                return Some(Rc::clone(key));
            }
            // SAFETY: by contract.
            unsafe {
                if let Some(run) = &self.run {
                    if let Some(row) = run.first(self.forward) {
                        return Some(Key::borrowed(run.key(row, place.view(quals))));
                    }
                }
                self.next_cell(place, quals, opened, fetch)?;
            }
        }
    }

    /// Takes the rows of the series that comes next.
    ///
    /// # Safety
    /// `view` must be of the scan's table.
    pub unsafe fn take(&mut self, view: View) -> Vec<(Time, Tid)> {
        let Some(run) = &mut self.run else {
            return self.section.take(self.forward);
        };
        let Some(row) = run.first(self.forward) else {
            return Vec::new();
        };
        // SAFETY: by contract.
        let rows = unsafe { run.take(&run.key(row, view), true, self.forward, view) };
        let (reader, column) = (&run.open.reader, view.desc.time_column());
        let seen = rows.filter(|&row| !run.open.is_hidden(row));
        let mut rows: Vec<_> = seen
            .map(|row| {
                // SAFETY: by contract.
                let (value, isnull) = unsafe { reader.value(view.descriptor, row, column) };
                (
                    view.desc.time_of(value, isnull),
                    Tid::of_row(reader.chunk.tid, row),
                )
            })
            .collect();
        if !self.forward {
            rows.reverse();
        }
        rows
    }

    /// Takes the rows of all series of the cell that come before that of `other`, or of all where there is none, if they lie in a chunk in
    /// their order.
    ///
    /// # Safety
    /// `view` must be of the scan's table.
    pub unsafe fn take_run(&mut self, other: Option<&Key>, view: View) -> Option<ChunkRows> {
        let run = self.run.as_mut()?;
        let rows = match other {
            // SAFETY: by contract.
            Some(other) => unsafe { run.take(&other.values, false, self.forward, view) },
            None => core::mem::take(&mut run.rows),
        };
        Some(ChunkRows::new(Rc::clone(&run.open), rows))
    }

    /// Reads the series of the next cell; `None` where there is none.
    ///
    /// # Safety
    /// As `peek`.
    unsafe fn next_cell(
        &mut self,
        place: Place,
        quals: &Quals,
        opened: &mut Opened,
        fetch: TableFetch<'_>,
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
            let view = place.view(quals);
            self.run = None;
            match &self.chunks[..] {
                [open]
                    if !quals.ask_for_anything() && is_sorted_as(&open.reader.chunk, view.desc) =>
                {
                    let keys = index_entries::keys_of_cell(cell);
                    let rows = rows_of_first_keys(&open.reader, view, keys);
                    let open = Rc::clone(open);
                    self.run = Some(Run { open, rows });
                }
                chunks => self.section = Section::collect_of(chunks, view, Some(cell)),
            }
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
        let mut values = vec![Datum::from(0usize); columns];
        let mut nulls = vec![true; columns];
        while let Some(entry) = self.entries.next(self.forward) {
            error::check_interrupts();
            let Some(header) = index_entries::header_of_entry(entry.tid) else {
                continue;
            };
            // SAFETY: the entry is of this index and stays until the next read.
            let length = unsafe {
                entry.deform(desc.index.descriptor(), &mut values, &mut nulls);
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
