//! Chunks that are not keyed: fresh ones, those that many short series share, and others that may
//! overlap. A scan looks at those under NULL keys and under the first keys that it asks for, takes the
//! rows that it wants, and sorts them in the order of the index.

use super::entries::{IndexDesc, Key, KeyValues, Time};
use super::later::{Found, Later, Turns};
use super::listed::{self, Pages};
use super::opened::Opened;
use super::quals::{self, Quals};
use super::rows::{candidates, integer_of, rows_of_first_keys, View};
use super::spans::{self, Span, Spans};
use crate::chunk::index_entries;
use crate::chunk::reader::Reader;
use crate::chunk::{chunk_cache, dead_header};
use crate::pg::error;
use crate::pg::leaf_probe::{self, PageState};
use crate::pg::nbtree::EntryScan;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use crate::table::visible::OpenChunk;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{smallvec, SmallVec};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// The chunks under the NULL key that a snapshot sees. Those that can wait are only listed where `waits` says so.
pub fn open_unkeyed(entries: &mut EntryScan, place: Place, waits: bool) -> Unkeyed {
    let mut seen = FxHashSet::default();
    let mut spans = waits.then(|| Spans::new(place.table, place.desc));
    let entered = Entered {
        keys: (1..=place.desc.columns.len())
            .map(ScanKey::is_null)
            .collect(),
        first: First::Null,
    };
    let is_new = |header| seen.insert(header);
    let (chunks, page) = open(entries, place, &entered, waits, is_new, |header| {
        let span = spans.as_mut().and_then(|spans| spans.of(header));
        Some(match span {
            Some(span) => Found::Listed(header, span),
            None => Found::Open(place.open(header)?),
        })
    });
    Unkeyed { chunks, seen, page }
}

/// The chunks under the NULL key, and the headers that were found there, whether the snapshot sees them or not.
#[derive(Default)]
pub struct Unkeyed {
    chunks: Vec<Found>,
    pub seen: FxHashSet<Tid>,
    /// The page of the index that says so, where all can wait.
    pub page: Option<PageState>,
}

impl Unkeyed {
    /// Opens those that were only listed.
    pub fn open(&mut self, place: Place) {
        let is_listed = |found: &Found| matches!(found, Found::Listed(..));
        if !self.chunks.iter().any(is_listed) {
            return;
        }
        let opened = |found| match found {
            Found::Listed(header, _) => place.open(header).map(Found::Open),
            open => Some(open),
        };
        let all = core::mem::take(&mut self.chunks).into_iter();
        self.chunks = all.filter_map(opened).filter(Found::has_rows).collect();
        // Another snapshot may see others.
        self.page = None;
    }

    pub fn chunks(&self) -> impl Iterator<Item = Found> + '_ {
        self.chunks.iter().cloned()
    }
}

/// What a scan knows of chunks from one rescan to the next: those under the NULL key, those that it has opened, and those of cells.
pub struct Known<'a> {
    pub unkeyed: &'a Unkeyed,
    pub opened: &'a mut Opened,
    pub cells: &'a mut FxHashMap<i64, Cell>,
}

/// Chunks that are entered by a cell.
pub struct Cell {
    chunks: SmallVec<[OfCell; 1]>,
    /// The page of the index that says so, where all can wait.
    page: Option<PageState>,
}

/// The header of a chunk of a cell. Without a span the scan's snapshot sees it; with one, it can wait, and nobody has judged it.
#[derive(Clone, Copy)]
pub struct OfCell {
    header: Tid,
    span: Option<Span>,
}

/// Cells whose headers are remembered.
const MOST_CELLS: usize = 4096;

/// Opens chunks under first keys and cells, or lists them.
struct Look<'a> {
    place: Place<'a>,
    opened: &'a mut Opened,
    /// Where chunks may wait.
    spans: Option<Spans<'a>>,
}

impl Look<'_> {
    /// A chunk that the snapshot sees, or one that can wait.
    fn at(&mut self, header: Tid) -> Option<Found> {
        match self.spans.as_mut().and_then(|spans| spans.of(header)) {
            Some(span) => Some(Found::Listed(header, span)),
            None => self.open(header).map(Found::Open),
        }
    }

    fn open(&mut self, header: Tid) -> Option<Rc<OpenChunk>> {
        let place = self.place;
        // SAFETY: the table is open, the snapshot valid.
        unsafe { self.opened.open(place.table, header, place.snapshot) }
    }

    /// The chunk of a cell, as it was remembered.
    fn remembered(&mut self, known: OfCell) -> Option<Found> {
        match known.span {
            Some(span) if self.spans.is_some() => Some(Found::Listed(known.header, span)),
            _ => self.open(known.header).map(Found::Open),
        }
    }

    /// What is remembered of a chunk of a cell.
    fn as_remembered(&self, found: &Found) -> OfCell {
        match found {
            &Found::Listed(header, span) => OfCell {
                header,
                span: Some(span),
            },
            Found::Open(chunk) => OfCell {
                header: chunk.reader.chunk.tid,
                span: spans::of_content(&chunk.reader.chunk, self.place.desc),
            },
        }
    }
}

/// The chunks under the first keys that `quals` ask for, besides `known` ones, and the pages of the index that say so. Those that can wait are only listed
/// where `waits` says so.
pub fn open_by_first_key(
    entries: &mut EntryScan,
    place: Place,
    quals: &Quals,
    known: Known,
    waits: bool,
) -> (Vec<Found>, Pages) {
    let mut chunks = Vec::new();
    let mut pages = Pages::default().and(known.unkeyed.page);
    let mut met = Met::default();
    let mut is_new = |header| !known.unkeyed.seen.contains(&header) && met.is_new(header);
    if place.desc.key_columns() == 0 {
        return (chunks, pages);
    }
    let nulls = || (2..=place.desc.columns.len()).map(ScanKey::is_null);
    let mut look = Look {
        place,
        opened: known.opened,
        spans: waits.then(|| Spans::new(place.table, place.desc)),
    };
    for mut keys in quals.exact_first_keys() {
        // What an equality names comes last.
        let first = keys.last().map_or(First::Any, |&key| First::Named(key));
        keys.extend(nulls());
        let entered = Entered { keys, first };
        let look = |header| look.at(header);
        let (found, page) = open(entries, place, &entered, waits, &mut is_new, look);
        pages = pages.and(page);
        // Most scans name one first key.
        if chunks.is_empty() {
            chunks = found;
        } else {
            chunks.extend(found);
        }
    }
    for &(cell, key) in quals.cells() {
        if !known.cells.contains_key(&cell) {
            let entered = Entered {
                keys: core::iter::once(key).chain(nulls()).collect(),
                first: First::Named(key),
            };
            let at = |header| look.at(header);
            let (found, page) = open(entries, place, &entered, waits, |_| true, at);
            let found = found.iter().map(|chunk| look.as_remembered(chunk));
            let chunks = found.collect();
            if known.cells.len() >= MOST_CELLS {
                known.cells.clear();
            }
            known.cells.insert(cell, Cell { chunks, page });
        }
        let of_cell = known.cells.get(&cell);
        pages = pages.and(of_cell.and_then(|of_cell| of_cell.page));
        for &of_cell in of_cell.into_iter().flat_map(|of_cell| &of_cell.chunks) {
            if is_new(of_cell.header) {
                let chunk = look.remembered(of_cell);
                chunks.extend(chunk.filter(Found::has_rows));
            }
        }
    }
    (chunks, pages)
}

/// Headers that were met before. As long as they are few, to look through them is quicker than to hash one.
#[derive(Default)]
struct Met {
    few: SmallVec<[Tid; 16]>,
    many: FxHashSet<Tid>,
}

impl Met {
    fn is_new(&mut self, header: Tid) -> bool {
        if self.many.is_empty() {
            if self.few.contains(&header) {
                return false;
            }
            if self.few.len() < self.few.inline_size() {
                self.few.push(header);
                return true;
            }
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(header)
    }
}

/// Where chunks are looked for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub desc: &'a IndexDesc<'a>,
    pub table: Table<'a>,
    pub snapshot: Snapshot<'a>,
}

impl<'a> Place<'a> {
    /// What functions that look for rows look at.
    pub fn view(self, quals: &'a Quals) -> View<'a> {
        View {
            desc: self.desc,
            quals,
            descriptor: self.table.descriptor(),
        }
    }

    /// The chunk whose header is at `header`, if the snapshot sees it.
    fn open(self, header: Tid) -> Option<Rc<OpenChunk>> {
        // SAFETY: the table is open, the snapshot valid.
        unsafe {
            let reader = chunk_cache::reader_at(self.table, header, self.snapshot)?;
            Some(Rc::new(OpenChunk::new(reader, self.snapshot)))
        }
    }

    /// Is it certain that there are no entries under a first key?
    fn has_none_under(self, first: Option<Datum>) -> bool {
        // SAFETY: the index is open, the key one of its first column's, the snapshot valid.
        unsafe { leaf_probe::has_none_without_time(self.desc.index, self.snapshot, first) }
    }

    /// What is entered under a first key, where one page of the index tells.
    fn told_under(self, first: Option<Datum>) -> Option<Under> {
        // SAFETY: as above.
        let told = unsafe { leaf_probe::all_without_time(self.desc.index, self.snapshot, first)? };
        let headers = told.tids.into_iter();
        Some(Under {
            headers: headers.filter_map(index_entries::header_of_entry).collect(),
            page: told.page,
        })
    }

    /// Where a session may remember what is entered under a first key.
    fn section_under(self, first: Option<Datum>) -> Option<listed::Section> {
        let may_be_named = first.is_none() || self.desc.index.descriptor().attributes()[0].attbyval;
        may_be_named.then(|| listed::section(self.desc.index, first.map(|value| value.value())))
    }

    /// The value of the first column that entries have, or NULL, if that can be told.
    fn value_of(self, first: &First) -> Option<Option<Datum>> {
        match first {
            First::Null => Some(None),
            // SAFETY: the index is open, the key one of its first column's.
            First::Named(key) => unsafe { quals::own_value(self.desc.index, key) }.map(Some),
            First::Any => None,
        }
    }
}

/// Entries of chunks that are looked for in an index.
struct Entered {
    keys: Vec<ScanKey>,
    first: First,
}

/// The first key that entries of chunks are under.
enum First {
    Null,
    /// What an equality names.
    Named(ScanKey),
    Any,
}

/// What a page of the index says is entered under a first key.
struct Under {
    headers: SmallVec<[Tid; 8]>,
    /// The page as it was, where it can be known again.
    page: Option<PageState>,
}

/// The chunks with rows that `look` finds at the headers which entries name, if `is_new` says so of them. An entry whose header is dead, where `look` has found
/// nothing, is forgotten. Where `by_page` says so, a page that is known to have the entries is asked for them before a scan is: only there may chunks be listed.
/// If they are all, and have been, that page.
fn open(
    entries: &mut EntryScan,
    place: Place,
    entered: &Entered,
    by_page: bool,
    mut is_new: impl FnMut(Tid) -> bool,
    mut look: impl FnMut(Tid) -> Option<Found>,
) -> (Vec<Found>, Option<PageState>) {
    let is_dead = |header| {
        // SAFETY: the table is open.
        unsafe { dead_header::is_dead(place.table, header) }
    };
    let mut found = Vec::new();
    let mut show = |header| {
        let chunk = look(header);
        let is_there = chunk.is_some();
        found.extend(chunk.filter(Found::has_rows));
        is_there
    };
    let first = place.value_of(&entered.first);
    if by_page {
        let section = first.and_then(|first| place.section_under(first));
        let recall = |section| listed::recall(section, place.desc.index, place.snapshot);
        if let Some(known) = section.and_then(recall) {
            found.reserve_exact(known.chunks.len());
            let new = known.chunks.iter().filter(|&&(header, _)| is_new(header));
            found.extend(new.map(|&(header, span)| Found::Listed(header, span)));
            return (found, Some(known.page));
        }
        if let Some(under) = first.and_then(|first| place.told_under(first)) {
            let mut is_any_dead = false;
            for &header in &under.headers {
                error::check_interrupts();
                is_any_dead |= is_new(header) && !show(header) && is_dead(header);
            }
            if is_any_dead {
                visit(entries, place, &entered.keys, |header| !is_dead(header));
            }
            let page = under.page.filter(|&page| {
                section.is_some_and(|section| under.remember(section, page, &found))
            });
            return (found, page);
        }
    } else if first.is_some_and(|first| place.has_none_under(first)) {
        return (found, None);
    }
    visit(entries, place, &entered.keys, |header| {
        !is_new(header) || show(header)
    });
    (found, None)
}

impl Under {
    /// Has the session remember what was found, if that is all and can wait; else false.
    fn remember(&self, section: listed::Section, page: PageState, found: &[Found]) -> bool {
        let listed = |chunk: &Found| match *chunk {
            Found::Listed(header, span) => Some((header, span)),
            Found::Open(_) => None,
        };
        found.len() == self.headers.len()
            && found.iter().all(|chunk| listed(chunk).is_some())
            && listed::remember(section, page, found.iter().filter_map(listed))
    }
}

/// Shows the headers that entries selected by `keys` name to `is_there`. An entry of which it says no is forgotten, if its header is dead.
pub fn visit(
    entries: &mut EntryScan,
    place: Place,
    keys: &[ScanKey],
    mut is_there: impl FnMut(Tid) -> bool,
) {
    // SAFETY: index and table are open. The page of the entry that was read last is pinned.
    unsafe {
        entries.restart(keys);
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            let Some(header) = index_entries::header_of_entry(entry.tid) else {
                continue;
            };
            if !is_there(header) {
                entries.drop_if(entry.tid, || dead_header::is_dead(place.table, header));
            }
        }
    }
}

/// Is there a row in a chunk that was opened?
pub fn has_rows(chunk: &OpenChunk) -> bool {
    !chunk.reader.chunk.header.has(FLAG_TOMBSTONE) && !chunk.is_empty()
}

impl Found {
    /// May there be a row in it?
    fn has_rows(&self) -> bool {
        match self {
            Found::Open(chunk) => has_rows(chunk),
            Found::Listed(..) => true,
        }
    }
}

/// Scan keys for the entries of chunks that may have any series.
///
/// # Safety
/// `index` must be an open series index.
pub unsafe fn all_null(index: Index<'_>) -> Vec<ScanKey> {
    let columns = index_entries::key_columns(index).len();
    (1..=columns).map(ScanKey::is_null).collect()
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

    /// Nothing but chunks that are searched when their times come.
    pub fn of_later(later: Option<Later>) -> Section {
        Section {
            later,
            ..Section::default()
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
///
/// # Safety
/// As `collect_of`.
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
///
/// # Safety
/// As `collect_of`.
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
