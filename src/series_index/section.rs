//! Chunks that are not keyed: fresh ones, those that many short series share, and others that may
//! overlap. A scan looks at those under NULL keys and under the first keys that it asks for, takes the
//! rows that it wants, and sorts them in the order of the index.

use super::entries::{IndexDesc, Key, KeyValues, Time};
use super::quals::Quals;
use super::rows::{candidates, rows_of_series, within_bounds, View};
use crate::chunk::chunk_cache;
use crate::chunk::index_entries;
use crate::chunk::reader::Reader;
use crate::pg::error;
use crate::pg::nbtree::EntryScan;
use crate::pg::relation;
use crate::pg::tid::Tid;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE};

/// The chunks under the NULL key that a snapshot sees.
pub fn open_unkeyed(entries: &mut EntryScan, place: Place) -> Unkeyed {
    let keys: Vec<_> = (1..=place.desc.columns.len()).map(is_null).collect();
    let mut seen = FxHashSet::default();
    let mut chunks = Vec::new();
    open(
        entries,
        place,
        &keys,
        |header| seen.insert(header),
        &mut chunks,
    );
    Unkeyed { chunks, seen }
}

/// The chunks under the NULL key, and the headers that were found there, whether the snapshot sees them or not.
pub struct Unkeyed {
    pub chunks: Vec<Rc<OpenChunk>>,
    seen: FxHashSet<Tid>,
}

/// The chunks under the first keys that `quals` ask for, besides `known` ones.
pub fn open_by_first_key(
    entries: &mut EntryScan,
    place: Place,
    quals: &Quals,
    known: &Unkeyed,
) -> Vec<Rc<OpenChunk>> {
    let mut chunks = Vec::new();
    let mut seen = FxHashSet::default();
    let mut is_new = |header| !known.seen.contains(&header) && seen.insert(header);
    if place.desc.key_columns() > 0 {
        for mut keys in quals.first_keys() {
            keys.extend((2..=place.desc.columns.len()).map(is_null));
            open(entries, place, &keys, &mut is_new, &mut chunks);
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

/// Adds the chunks that entries selected by `keys` name, if `is_new` says so of the header.
fn open(
    entries: &mut EntryScan,
    place: Place,
    keys: &[pg_sys::ScanKeyData],
    mut is_new: impl FnMut(Tid) -> bool,
    chunks: &mut Vec<Rc<OpenChunk>>,
) {
    // SAFETY: index and table are open, the snapshot is valid.
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
            let reader = chunk_cache::reader_at(place.table, header, place.snapshot);
            let reader = reader.filter(|reader| !reader.chunk.header.has(FLAG_TOMBSTONE));
            let chunk = reader.map(|reader| OpenChunk::new(reader, place.snapshot));
            chunks.extend(chunk.filter(|chunk| !chunk.is_empty()).map(Rc::new));
        }
    }
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
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: a key without a function.
    unsafe {
        pg_sys::ScanKeyEntryInitialize(
            &mut key,
            (pg_sys::SK_ISNULL | pg_sys::SK_SEARCHNULL) as i32,
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
}

pub struct Series {
    pub key: Rc<Key>,
    pub rows: Vec<(Time, Tid)>,
}

impl Section {
    /// # Safety
    /// `view` must be of the chunks' table; the chunks must outlive the section.
    pub unsafe fn collect(chunks: &[Rc<OpenChunk>], view: View) -> Section {
        let mut series = Vec::new();
        for chunk in chunks {
            // SAFETY: by contract.
            unsafe { collect_chunk(chunk, view, &mut series) };
        }
        series.sort_by(|a, b| view.desc.compare(&a.key, &b.key));
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
        }
    }

    /// The series that comes next.
    pub fn peek(&self, forward: bool) -> Option<&Rc<Key>> {
        let at = if forward {
            self.rest.clone().next()
        } else {
            self.rest.clone().next_back()
        };
        at.map(|at| &self.series[at].key)
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

/// The wanted rows of one chunk, run by run of equal keys.
unsafe fn collect_chunk(chunk: &OpenChunk, view: View, out: &mut Vec<Series>) {
    let reader = &chunk.reader;
    let (desc, descriptor) = (view.desc, view.descriptor);
    let keys = &desc.columns[..desc.key_columns()];
    // SAFETY: the caller's contract.
    unsafe {
        let runs = match rows_of_one(reader, view) {
            Some(rows) if rows.is_empty() => return,
            Some(rows) => vec![rows],
            None => candidates(reader, view)
                .into_iter()
                .flat_map(|range| index_entries::runs(reader, descriptor, keys, range))
                .collect(),
        };
        for run in runs {
            error::check_interrupts();
            let read = |&column: &usize| reader.value(descriptor, run.start, column);
            let key: KeyValues = keys.iter().map(read).collect();
            if view.quals.keys_hold(|column| key[column]) {
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

/// The rows, besides others, that a scan for one series wants of a chunk that is sorted as the index is; found by search.
unsafe fn rows_of_one(reader: &Reader, view: View) -> Option<Range<u32>> {
    let header = &reader.chunk.header;
    let is_sorted = header.has(FLAG_SORTED)
        && !header.has(FLAG_ONE_SERIES)
        && index_entries::own_columns(&reader.chunk) == view.desc.columns;
    if !is_sorted {
        return None;
    }
    // SAFETY: the caller's contract.
    unsafe {
        let series = view.quals.series(view.desc.index)?;
        let (first, last) = (header.min_time, header.max_time);
        let head = reader.chunk.columns.columns().get(view.desc.time_column());
        let has_times = head.is_some_and(|head| head.nulls == 0);
        let time = |at| index_entries::time_datum(at, view.desc.time_length);
        let mut bounds = view.quals.lowers.iter().chain(&view.quals.uppers);
        if has_times && !bounds.all(|bound| bound.may_hold(time(first), time(last))) {
            return Some(0..0);
        }
        let attributes = relation::attributes(view.descriptor);
        let columns = view.desc.columns.iter();
        let own = |(value, &column): (pg_sys::Datum, &usize)| {
            (relation::as_stored(value, &attributes[column]), false)
        };
        let key = Key::borrowed(series.into_iter().zip(columns).map(own).collect());
        let rows = rows_of_series(reader, &key, view, 0..0);
        // Null times come last.
        Some(if rows.is_empty() || !has_times {
            rows
        } else {
            within_bounds(reader, rows, view, true)
        })
    }
}
