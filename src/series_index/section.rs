//! Chunks that are not keyed: fresh ones, those that many short series share, and others that may
//! overlap. A scan looks at those under NULL keys and under the first keys that it asks for, takes the
//! rows that it wants, and sorts them in the order of the index.

use super::entries::{IndexDesc, Key, KeyValues, Time};
use super::later::{Later, Turns};
use super::opened::Opened;
use super::quals::{self, Quals};
use super::rows::{candidates, integer_of, rows_of_first_keys, View};
use crate::chunk::index_entries;
use crate::chunk::reader::Reader;
use crate::chunk::{chunk_cache, dead_header};
use crate::pg::error;
use crate::pg::leaf_probe;
use crate::pg::nbtree::EntryScan;
use crate::pg::tid::Tid;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{smallvec, SmallVec};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// The chunks under the NULL key that a snapshot sees.
pub fn open_unkeyed(entries: &mut EntryScan, place: Place) -> Unkeyed {
    if place.has_none_under(None) {
        return Unkeyed::default();
    }
    let keys: Vec<_> = (1..=place.desc.columns.len()).map(is_null).collect();
    let mut seen = FxHashSet::default();
    let mut chunks = Vec::new();
    open(
        entries,
        place,
        &keys,
        |header| seen.insert(header),
        // SAFETY: as the place is.
        |header| unsafe {
            let reader = chunk_cache::reader_at(place.table, header, place.snapshot)?;
            Some(Rc::new(OpenChunk::new(reader, place.snapshot)))
        },
        &mut chunks,
    );
    Unkeyed { chunks, seen }
}

/// The chunks under the NULL key, and the headers that were found there, whether the snapshot sees them or not.
#[derive(Default)]
pub struct Unkeyed {
    pub chunks: Vec<Rc<OpenChunk>>,
    pub seen: FxHashSet<Tid>,
}

/// What a scan knows of chunks from one rescan to the next: those under the NULL key, those that it has opened, and the headers that its
/// snapshot sees of cells.
pub struct Known<'a> {
    pub unkeyed: &'a Unkeyed,
    pub opened: &'a mut Opened,
    pub cells: &'a mut FxHashMap<i64, SmallVec<[Tid; 1]>>,
}

/// Cells whose headers are remembered.
const MOST_CELLS: usize = 4096;

/// The chunks under the first keys that `quals` ask for, besides `known` ones.
pub fn open_by_first_key(
    entries: &mut EntryScan,
    place: Place,
    quals: &Quals,
    known: Known,
) -> Vec<Rc<OpenChunk>> {
    let mut chunks = Vec::new();
    let mut seen = FxHashSet::default();
    let mut is_new = |header| !known.unkeyed.seen.contains(&header) && seen.insert(header);
    if place.desc.key_columns() == 0 {
        return chunks;
    }
    let nulls = || (2..=place.desc.columns.len()).map(is_null);
    // SAFETY: the table is open, the snapshot valid.
    let mut opened = |header| unsafe { known.opened.open(place.table, header, place.snapshot) };
    for mut keys in quals.exact_first_keys() {
        // What an equality names comes last.
        if keys
            .last()
            .is_some_and(|key| place.has_none_under(Some(key)))
        {
            continue;
        }
        keys.extend(nulls());
        open(entries, place, &keys, &mut is_new, &mut opened, &mut chunks);
    }
    for (cell, key) in quals.cells() {
        if !known.cells.contains_key(cell) {
            let mut found = Vec::new();
            if !place.has_none_under(Some(key)) {
                let keys: Vec<_> = core::iter::once(*key).chain(nulls()).collect();
                open(entries, place, &keys, |_| true, &mut opened, &mut found);
            }
            if known.cells.len() >= MOST_CELLS {
                known.cells.clear();
            }
            let headers = found.iter().map(|chunk| chunk.reader.chunk.tid);
            known.cells.insert(*cell, headers.collect());
        }
        let headers = known.cells.get(cell).into_iter().flatten();
        for &header in headers {
            if is_new(header) {
                chunks.extend(opened(header).filter(|chunk| has_rows(chunk)));
            }
        }
    }
    chunks
}

/// Where chunks are looked for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub desc: &'a IndexDesc,
    pub table: pg_sys::Relation,
    pub snapshot: pg_sys::Snapshot,
}

impl<'a> Place<'a> {
    /// What functions that look for rows look at.
    pub fn view(self, quals: &'a Quals) -> View<'a> {
        View {
            desc: self.desc,
            quals,
            // SAFETY: the table is open.
            descriptor: unsafe { (*self.table).rd_att },
        }
    }

    /// Is it certain that there are no entries under NULLs, or under the first key that an equality names?
    fn has_none_under(&self, key: Option<&pg_sys::ScanKeyData>) -> bool {
        // SAFETY: the index is open, the key one of its first column's, the snapshot valid.
        unsafe {
            let first = match key {
                None => None,
                Some(key) => match quals::own_value(self.desc.index, key) {
                    Some(value) => Some(value),
                    None => return false,
                },
            };
            leaf_probe::has_none_without_time(self.desc.index, self.snapshot, first)
        }
    }
}

/// Adds the chunks that entries selected by `keys` name, if `is_new` says so of the header, as `opened` by the snapshot.
fn open(
    entries: &mut EntryScan,
    place: Place,
    keys: &[pg_sys::ScanKeyData],
    mut is_new: impl FnMut(Tid) -> bool,
    mut opened: impl FnMut(Tid) -> Option<Rc<OpenChunk>>,
    chunks: &mut Vec<Rc<OpenChunk>>,
) {
    // SAFETY: index and table are open, the snapshot is valid. The page of the entry that was read last is pinned.
    unsafe {
        entries.restart(keys);
        while let Some((entry, _)) = entries.next(true) {
            error::check_interrupts();
            let Some(header) = index_entries::header_of_entry(entry) else {
                continue;
            };
            if !is_new(header) {
                continue;
            }
            match opened(header) {
                Some(chunk) => chunks.extend(has_rows(&chunk).then_some(chunk)),
                None => entries.drop_if(entry, || dead_header::is_dead(place.table, header)),
            }
        }
    }
}

/// Is there a row in a chunk that was opened?
pub fn has_rows(chunk: &OpenChunk) -> bool {
    !chunk.reader.chunk.header.has(FLAG_TOMBSTONE) && !chunk.is_empty()
}

/// Scan keys for the entries of chunks that may have any series.
///
/// # Safety
/// `index` must be an open series index.
pub unsafe fn all_null(index: pg_sys::Relation) -> Vec<pg_sys::ScanKeyData> {
    // SAFETY: by contract.
    let columns = unsafe { index_entries::key_columns(index) }.len();
    (1..=columns).map(is_null).collect()
}

const NO_STRATEGY: u16 = 0;

/// The scan key `column IS NULL`.
pub fn is_null(column: usize) -> pg_sys::ScanKeyData {
    null_test(column, pg_sys::SK_SEARCHNULL)
}

/// The scan key `column IS NOT NULL`.
pub fn is_not_null(column: usize) -> pg_sys::ScanKeyData {
    null_test(column, pg_sys::SK_SEARCHNOTNULL)
}

fn null_test(column: usize, search: u32) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: a key without a function.
    unsafe {
        pg_sys::ScanKeyEntryInitialize(
            &mut key,
            (pg_sys::SK_ISNULL | search) as i32,
            column as i16,
            NO_STRATEGY,
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::Oid::from(0),
            pg_sys::Datum::from(0usize),
        );
    }
    key
}

/// Rows of the section that a scan wants, sorted by series and time.
#[derive(Default)]
pub struct Section {
    series: Vec<Series>,
    /// Series that have not been taken yet.
    rest: std::ops::Range<usize>,
    /// Chunks that are searched when their times come, where the scan names one series: that of `series`, if there is any.
    later: Option<Later>,
}

pub struct Series {
    pub key: Rc<Key>,
    pub rows: Vec<(Time, Tid)>,
}

impl Section {
    /// With chunks that are searched when their times come, where the scan names one series.
    ///
    /// # Safety
    /// `view` must be of the chunks' table; the chunks must outlive the section.
    pub unsafe fn collect(chunks: &[Rc<OpenChunk>], later: Option<Later>, view: View) -> Section {
        Section {
            later,
            // SAFETY: by contract.
            ..unsafe { Self::collect_of(chunks, view, None) }
        }
    }

    /// Of a cell only, if one is given.
    ///
    /// # Safety
    /// As `collect`; only indexes over integers have cells.
    pub unsafe fn collect_of(chunks: &[Rc<OpenChunk>], view: View, cell: Option<i64>) -> Section {
        let mut series = Vec::new();
        for chunk in chunks {
            // SAFETY: by contract.
            unsafe { collect_chunk(chunk, view, cell, &mut series) };
        }
        // A chunk that is sorted as the index is brings its series in order.
        if chunks.len() > 1
            || !series.is_sorted_by(|a, b| view.desc.compare(&a.key, &b.key).is_le())
        {
            series.sort_by(|a, b| view.desc.compare(&a.key, &b.key));
        }
        let mut merged: Vec<Series> = Vec::with_capacity(series.len());
        for mut next in series {
            match merged.last_mut() {
                Some(last) if view.desc.compare(&last.key, &next.key).is_eq() => {
                    last.rows.append(&mut next.rows);
                }
                _ => merged.push(next),
            }
        }
        for series in &mut merged {
            if !series.rows.is_sorted() {
                series.rows.sort();
            }
        }
        Section {
            rest: 0..merged.len(),
            series: merged,
            later: None,
        }
    }

    /// The series that comes next.
    pub fn peek(&self, forward: bool) -> Option<&Rc<Key>> {
        let at = if forward {
            self.rest.clone().next()
        } else {
            self.rest.clone().next_back()
        };
        let later = || self.later.as_ref().map(|later| &later.key);
        at.map(|at| &self.series[at].key).or_else(later)
    }

    /// Takes the chunks that are searched when their times come: those of the only series.
    pub fn take_later(&mut self) -> Turns {
        self.later
            .take()
            .map_or_else(Turns::default, |later| later.chunks)
    }

    /// Takes the rows of the series that comes next.
    pub fn take(&mut self, forward: bool) -> Vec<(Time, Tid)> {
        let at = if forward {
            self.rest.next()
        } else {
            self.rest.next_back()
        };
        let mut rows = at.map_or_else(Vec::new, |at| core::mem::take(&mut self.series[at].rows));
        if !forward {
            rows.reverse();
        }
        rows
    }
}

/// The wanted rows of one chunk, run by run of equal keys; of a cell only, if one is given.
unsafe fn collect_chunk(chunk: &OpenChunk, view: View, cell: Option<i64>, out: &mut Vec<Series>) {
    let reader = &chunk.reader;
    let (desc, descriptor) = (view.desc, view.descriptor);
    let keys = &desc.columns[..desc.key_columns()];
    // SAFETY: the caller's contract.
    unsafe {
        let parts = parts_of(reader, view, cell);
        let meet = |range: &Range<u32>, part: &Range<u32>| {
            range.start.max(part.start)..range.end.min(part.end)
        };
        let mut wanted = Vec::new();
        for range in candidates(reader, view) {
            wanted.extend(parts.iter().map(|part| meet(&range, part)));
        }
        let runs = wanted
            .into_iter()
            .filter(|range| !range.is_empty())
            .flat_map(|range| index_entries::runs(reader, descriptor, keys, range));
        for run in runs {
            error::check_interrupts();
            let read = |&column: &usize| reader.value(descriptor, run.start, column);
            let key: KeyValues = keys.iter().map(read).collect();
            let is_of_cell = cell.is_none_or(|cell| {
                let (value, isnull) = key[0];
                let first = integer_of(value, keys[0], view).filter(|_| !isnull);
                first.is_some_and(|first| index_entries::cell_of(first) == cell)
            });
            if is_of_cell && view.quals.keys_hold(|column| key[column]) {
                let rows: Vec<_> = run
                    .filter(|&row| !chunk.is_hidden(row))
                    .filter_map(|row| {
                        let (value, isnull) = reader.value(descriptor, row, desc.time_column());
                        let wanted = view.quals.time_holds(value, isnull);
                        let tid = Tid::of_row(reader.chunk.tid, row);
                        wanted.then(|| (desc.time_of(value, isnull), tid))
                    })
                    .collect();
                if !rows.is_empty() {
                    out.push(Series {
                        key: Key::borrowed(key),
                        rows,
                    });
                }
            }
        }
    }
}

/// The first keys for which rows are looked for one by one are so many times fewer than the rows.
const ROWS_PER_SEARCH: usize = 64;

/// Rows of a chunk, ascending, among which are those of a cell, or else of the first keys that quals name.
unsafe fn parts_of(reader: &Reader, view: View, cell: Option<i64>) -> SmallVec<[Range<u32>; 1]> {
    // SAFETY: the caller's contract: quals name integers, and cells are given, only where first keys are such.
    let part = |keys| unsafe { rows_of_first_keys(reader, view, keys) };
    if let Some(cell) = cell {
        return smallvec![part(index_entries::keys_of_cell(cell))];
    }
    let named = view.quals.first_values();
    match named.filter(|keys| keys.len() * ROWS_PER_SEARCH < reader.rows() as usize) {
        Some(keys) => {
            let mut parts: SmallVec<_> = keys.iter().map(|&key| part(key..=key)).collect();
            // Those of a chunk in another order are all the same.
            parts.dedup();
            parts
        }
        None => smallvec![0..reader.rows()],
    }
}
