//! Where rows of chunks are, by their keys: what a session has looked up, for as long as no transaction ends, nobody brings a batch, and
//! the session begins no other statement and writes no chunk. In that time a snapshot shows the same rows, so many keys are found in memory.
//!
//! It knows of more than its snapshot shows: chunks of transactions in progress may bring new keys (batches), and so may
//! those that this transaction has written since.

use super::series_key::{bytes_of, Bytes, SeriesKey};
use crate::chunk::chunk_cache::{self, Standing};
use crate::chunk::glance::{Glance, Times};
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::write;
use crate::guc;
use crate::pg::error;
use crate::pg::news;
use crate::pg::page::{Page, PageCursor};
use crate::pg::relation::{Address, Table};
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::{CommandId, Datum, Oid};
use crate::series_index::entries::{IndexDesc, Key, Time};
use crate::series_index::probe::{self, Section, Visited};
use crate::series_index::quals::Quals;
use crate::series_index::rows::{is_sorted_as, partition_point, rows_of_series, View};
use crate::table::statements;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::BlockEntry;
use varve_columns::summary::Bound;
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_TOMBSTONE};

/// Directories that are kept, one for each index that finds keys.
const KEPT: usize = 8;
/// How often chunks that came are weighed against `varve.batch_memory`, and how often series are.
const WEIGHED_EVERY: usize = 64;
const SERIES_WEIGHED_EVERY: usize = 1024;
/// What a series takes, about: its name, where it was looked for, and one part.
const SERIES_BYTES: usize = 256;
/// What is known of series may take one of so many parts of `varve.batch_memory`.
const SERIES_PART: usize = 4;
/// What the name of a first key takes, about.
const FIRST_KEY_BYTES: usize = 64;

/// Room for headers that wait, where there are any.
const FIRST_WAITING: usize = 28;

/// What a key cache depends on.
#[derive(Clone, Copy, PartialEq)]
struct Epoch {
    table: Address,
    file: Oid,
    /// The series index.
    index: Oid,
    stamp: Stamp,
    command: CommandId,
    statement: u64,
    began: i64,
    writes: u64,
}

/// A chunk that may have keys.
pub struct Known {
    pub reader: Rc<Reader>,
    pub standing: Standing,
    /// Nobody was changing rows of it when that was asked last.
    pub idle: Cell<bool>,
    /// A row of it was found to be there: it is worth asking whether nobody is changing any, for the next one.
    pub met: Cell<bool>,
}

impl Known {
    pub fn new(reader: Rc<Reader>, standing: Standing) -> Known {
        Known {
            reader,
            standing,
            idle: Cell::new(false),
            met: Cell::new(false),
        }
    }
}

/// A row of a chunk of the key cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub chunk: usize,
    pub row: u32,
}

/// Rows of one series in one chunk, in the order of time.
struct Part {
    min: i64,
    max: i64,
    chunk: usize,
    rows: Range<u32>,
    /// One of `rows`, or their end: the row after the one that was found last, which who loads the same rows again asks for next.
    next: Cell<u32>,
}

impl Part {
    fn new((min, max): (i64, i64), chunk: usize, rows: Range<u32>) -> Part {
        let next = Cell::new(rows.start);
        Part {
            min,
            max,
            chunk,
            rows,
            next,
        }
    }

    /// The rows at a time, by `time_of` a row.
    fn rows_at(
        &self,
        reader: &Reader,
        column: usize,
        at: Time,
        time_of: impl Fn(u32) -> Time,
    ) -> Range<u32> {
        let start = self.rows.start;
        let is_first = |row| time_of(row) == at && (row == start || time_of(row - 1) < at);
        let next = self.next.get();
        let first = if next < self.rows.end && is_first(next) {
            next
        } else {
            let rows = blocks_with(reader, column, &self.rows, at.1);
            partition_point(rows, |row| time_of(row) < at)
        };
        let mut end = first;
        while end < self.rows.end && time_of(end) == at {
            end += 1;
        }
        self.next.set(end);
        first..end
    }
}

#[derive(Default)]
struct Series {
    /// Times of which all chunks are known.
    covered: Option<(i64, i64)>,
    /// Times of which those are known that are entered under the series' key.
    keyed: Option<(i64, i64)>,
    parts: Vec<Part>,
    /// Chunks of several series that were looked into.
    resolved: FxHashSet<usize>,
}

pub struct KeyCache {
    epoch: Epoch,
    /// Headers that are left out.
    except: Vec<Tid>,
    pub chunks: Vec<Known>,
    /// Headers that were looked at, and their chunks.
    loaded: FxHashMap<Tid, Option<usize>>,
    /// Headers of chunks that have no times of those which were covered, and their least and greatest times.
    waiting: FxHashMap<Tid, (i64, i64)>,
    /// The least and the greatest of these times.
    waiting_span: Option<(i64, i64)>,
    series: FxHashMap<Bytes, Series>,
    /// Chunks of several series, sorted by series and time.
    shared: Vec<usize>,
    /// Chunks in another order.
    loose: Vec<usize>,
    all_read: bool,
    first_keys_read: FxHashSet<Bytes>,
    cells_read: FxHashSet<i64>,
    /// A chunk has come into being since the snapshot, or changed: it is not to be kept.
    pub outdated: bool,
}

thread_local! {
    static KNOWN: PerTransaction<Vec<KeyCache>> = PerTransaction::until_a_part_ends();
}

/// When a look happens.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Of this moment; until the key cache is asked to cover something, no other is taken, or it is registered.
    pub snapshot: Snapshot<'a>,
    pub(super) stamp: Stamp,
}

/// What tells moments apart.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Stamp {
    /// How many transactions have ended, as snapshots count them; 0 where that is not known.
    completions: u64,
    /// What others have told: who brings chunks with keys does so before his transaction ends, and tells it.
    heard: u64,
}

/// What tells whether new keys may have come into chunks since a look.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub enum Since {
    /// They may.
    #[default]
    Unknown,
    /// They come with the end of a transaction, or are told of: this was the moment. Whoever had told of new chunks by then, and ends later, may not
    /// have been met.
    Ends(Stamp),
    /// They are told of: this had been heard. Whoever had told by then was met, since his entries and headers were written before.
    News(u64),
}

impl<'a> Moment<'a> {
    /// This one.
    ///
    /// # Safety
    /// Inside a transaction. The moment's snapshot lasts until the next one is taken.
    pub unsafe fn now() -> Moment<'a> {
        // SAFETY: by contract. What is heard of is in the chunks that are looked at after that.
        unsafe {
            let heard = news::heard();
            let snapshot = Snapshot::latest();
            let completions = snapshot.completions();
            Moment {
                snapshot,
                stamp: Stamp { completions, heard },
            }
        }
    }

    /// Has any transaction ended since?
    pub fn is_over(self) -> bool {
        self.stamp.is_over()
    }

    /// Of a look that meets all that has been written, whoever sees it.
    pub fn since_news(self) -> Since {
        Since::News(self.stamp.heard)
    }

    /// Of a look that goes by what has been committed.
    pub fn since_ends(self) -> Since {
        Since::Ends(self.stamp)
    }
}

impl Stamp {
    /// Has any transaction ended since?
    fn is_over(self) -> bool {
        let Stamp { completions, .. } = self;
        // SAFETY: within a transaction; the snapshot is not used after this.
        completions == 0 || unsafe { Snapshot::latest() }.completions() != completions
    }
}

impl Since {
    /// May new keys have come into chunks since, of transactions that have ended or not?
    pub fn is_stale(self) -> bool {
        // SAFETY: keys are entered within transactions.
        let has_news = |heard| unsafe { news::heard() } != heard;
        match self {
            Since::Unknown => true,
            Since::Ends(stamp) => has_news(stamp.heard) || stamp.is_over(),
            Since::News(heard) => has_news(heard),
        }
    }
}

/// Lends the key cache of the chunks that a series index finds, or of all where `index` is invalid.
///
/// # Safety
/// `table` must be open, `index` a series index of it or invalid.
pub unsafe fn lend<R>(
    table: Table<'_>,
    index: Oid,
    moment: Moment,
    body: impl FnOnce(&mut KeyCache) -> R,
) -> R {
    let epoch = Epoch {
        table: table.address(),
        file: table.file_number(),
        index,
        stamp: moment.stamp,
        command: moment.snapshot.command(),
        statement: statements::begun(),
        began: transaction::statement_started(),
        writes: write::headers_written(),
    };
    let kept = KNOWN.with_borrow_mut(|known| {
        let same = |KeyCache { epoch, .. }: &KeyCache| {
            (epoch.table, epoch.index) == (table.address(), index)
        };
        known.iter().position(same).map(|at| known.swap_remove(at))
    });
    let mut cache = match kept {
        Some(cache) if cache.epoch == epoch => cache,
        _ => KeyCache::new(epoch),
    };
    let result = body(&mut cache);
    if cache.except.is_empty() && !cache.outdated {
        KNOWN.with_borrow_mut(|known| {
            if known.len() == KEPT {
                known.remove(0);
            }
            known.push(cache);
        });
    }
    result
}

impl KeyCache {
    /// The table that it is lent for.
    fn table<'a>(&self) -> Table<'a> {
        // SAFETY: who looks by the key cache has the table open (`lend`).
        unsafe { self.epoch.table.table() }
    }

    fn new(epoch: Epoch) -> KeyCache {
        KeyCache {
            epoch,
            except: Vec::new(),
            chunks: Vec::new(),
            loaded: FxHashMap::default(),
            waiting: FxHashMap::default(),
            waiting_span: None,
            series: FxHashMap::default(),
            shared: Vec::new(),
            loose: Vec::new(),
            all_read: false,
            first_keys_read: FxHashSet::default(),
            cells_read: FxHashSet::default(),
            outdated: false,
        }
    }

    /// Leaves out the chunks of some headers, as if they were not there. For a key cache that nothing was asked yet.
    pub fn leave_out(&mut self, headers: &[Tid]) {
        if !headers.is_empty() {
            *self = KeyCache::new(self.epoch);
            self.except = headers.to_vec();
        }
    }

    /// Gets to know the chunks that are entered under the key of a series and may have rows of it at times of `from..=to`. There is one of these, as a rule,
    /// and it has the row.
    ///
    /// # Safety
    /// As `cover`.
    pub unsafe fn cover_keyed(
        &mut self,
        series_key: &SeriesKey,
        (from, to): (i64, i64),
        snapshot: Snapshot<'_>,
    ) {
        let known = self.series.get(&series_key.bytes);
        let spans = known.map(|series| [series.covered, series.keyed]);
        if spans
            .into_iter()
            .flatten()
            .any(|span| has(span, (from, to)))
        {
            return;
        }
        let &SeriesKey { desc, key, .. } = series_key;
        let table = self.table();
        // SAFETY: by contract.
        if unsafe { key.len() == 1 && probe::has_none_from(desc, key, from, true) } {
            // Most rows come behind all others of their series: one look says so of what is entered under their key and under their first key.
            self.first_keys_read.insert(series_key.bytes.clone());
            let series = self.series.entry(series_key.bytes.clone()).or_default();
            series.keyed = Some(extended(series.keyed, from, i64::MAX));
            return;
        }
        // SAFETY: by contract.
        let end = snapshot::with_registered(snapshot, |snapshot| unsafe {
            probe::visit_keyed(table, desc, key, from, to, |header| {
                match self.load(desc, header, snapshot) {
                    Some(Standing::Seen) => Visited::Taken,
                    _ => Visited::Left,
                }
            })
        });
        let series = self.series.entry(series_key.bytes.clone()).or_default();
        series.keyed = Some(extended(series.keyed, from, end));
    }

    /// Gets to know all chunks that may have rows of a series at times of `from..=to`. Were there any that were not known?
    ///
    /// # Safety
    /// The key cache must be that of the index of `series_key`, and the snapshot that of `lend`.
    pub unsafe fn cover(
        &mut self,
        series_key: &SeriesKey,
        (from, to): (i64, i64),
        snapshot: Snapshot<'_>,
    ) -> bool {
        let mut known = Some(self.chunks.len());
        // SAFETY: by contract.
        unsafe { self.load_waiting(series_key.desc, (from, to), snapshot) };
        let series = self.series.get(&series_key.bytes);
        if has(series.and_then(|series| series.covered), (from, to)) {
            return known != Some(self.chunks.len());
        }
        let weighs_series = self.series.len() % SERIES_WEIGHED_EVERY == SERIES_WEIGHED_EVERY - 1;
        if (weighs_series || self.loaded.len() % WEIGHED_EVERY == WEIGHED_EVERY - 1)
            && self.starts_over()
        {
            known = None;
        }
        let &SeriesKey { desc, key, .. } = series_key;
        // SAFETY: by contract.
        snapshot::with_registered(snapshot, |snapshot| unsafe {
            let mut glance = Glance::new(self.table());
            if !self.all_read {
                probe::visit_section(desc, key, Section::All, |header| {
                    self.load_if_due(desc, (header, &mut glance), (from, to), snapshot);
                });
                self.all_read = true;
            }
            // It may find that there is nothing under the first key either.
            self.cover_keyed(series_key, (from, to), snapshot);
            if let Some(first) = key.first() {
                let first = core::slice::from_ref(first);
                let first = bytes_of(self.table(), &desc.columns, first);
                if !self.first_keys_read.contains(&first) {
                    probe::visit_section(desc, key, Section::FirstKey, |header| {
                        self.load_if_due(desc, (header, &mut glance), (from, to), snapshot);
                    });
                    self.first_keys_read.insert(first);
                }
            }
            if let Some(cell) = probe::cell_of(desc, key) {
                if !self.cells_read.contains(&cell) {
                    probe::visit_section(desc, key, Section::Cell, |header| {
                        self.load_if_due(desc, (header, &mut glance), (from, to), snapshot);
                    });
                    self.cells_read.insert(cell);
                }
            }
        });
        let series = self.series.entry(series_key.bytes.clone()).or_default();
        let end = series.keyed.map_or(to, |(_, end)| end);
        series.covered = Some(extended(series.covered, from, end));
        known != Some(self.chunks.len())
    }

    /// Gets to know all chunks of the table, of a key cache without an index.
    ///
    /// # Safety
    /// As `cover`.
    pub unsafe fn cover_table(&mut self, snapshot: Snapshot<'_>) {
        self.starts_over();
        if self.all_read {
            return;
        }
        let table = self.table();
        // SAFETY: by contract.
        snapshot::with_registered(snapshot, |snapshot| unsafe {
            let mut cursor = PageCursor::new(table);
            for block in 0..table.blocks() {
                error::check_interrupts();
                cursor.go(block);
                for header in cursor.locked(headers) {
                    match chunk_cache::standing_at(table, header, snapshot) {
                        // What has come since the snapshot, it shows elsewhere.
                        None | Some((Standing::Later, _)) => {}
                        Some((standing, reader)) => self.chunks.push(Known::new(reader, standing)),
                    }
                }
            }
        });
        self.all_read = true;
    }

    /// May a series have rows at times of `from..=to`, which are covered?
    ///
    /// # Safety
    /// As `cover`.
    pub unsafe fn may_have(&mut self, series_key: &SeriesKey, (from, to): (i64, i64)) -> bool {
        // SAFETY: by contract.
        unsafe { self.resolve(series_key, (from, to)) };
        let overlaps = |part: &Part| part.min <= to && from <= part.max;
        let series = self.series.get(&series_key.bytes);
        !self.loose.is_empty() || series.is_some_and(|series| series.parts.iter().any(overlaps))
    }

    /// The rows of a series at a time that is covered, those that are gone by their chunk's map excepted.
    ///
    /// # Safety
    /// As `cover`; `time` must be of the index's last column.
    pub unsafe fn rows_at(&mut self, series_key: &SeriesKey, time: Datum) -> SmallVec<[Hit; 4]> {
        let mut hits = SmallVec::new();
        let desc = series_key.desc;
        let at = desc.time_of(time, false);
        // SAFETY: by contract.
        unsafe {
            let descriptor = self.table().descriptor();
            self.resolve(series_key, (at.1, at.1));
            let column = desc.time_column();
            let series = self.series.get(&series_key.bytes);
            for part in series.iter().flat_map(|series| &series.parts) {
                if !(part.min..=part.max).contains(&at.1) {
                    continue;
                }
                let chunk = part.chunk;
                let reader = &self.chunks[chunk].reader;
                let time_of = |row| {
                    let (value, isnull) = reader.value(descriptor, row, column);
                    desc.time_of(value, isnull)
                };
                let rows = part.rows_at(reader, column, at, time_of);
                let live = rows.filter(|&row| !reader.chunk.map.contains(row));
                hits.extend(live.map(|row| Hit { chunk, row }));
            }
            for &chunk in &self.loose {
                let reader = &self.chunks[chunk].reader;
                let values: Vec<_> = series_key.key.iter().copied().chain([time]).collect();
                let rows = probe::rows_in(reader, desc, descriptor, &values);
                let live = rows
                    .into_iter()
                    .filter(|&row| !reader.chunk.map.contains(row));
                hits.extend(live.map(|row| Hit { chunk, row }));
            }
        }
        hits
    }

    /// Opens the chunk of a header, or lets it wait where it has none of these times.
    ///
    /// # Safety
    /// As `cover`, with a registered snapshot; `glance` must be of the table.
    unsafe fn load_if_due(
        &mut self,
        desc: &IndexDesc,
        (header, glance): (Tid, &mut Glance),
        (from, to): (i64, i64),
        snapshot: Snapshot<'_>,
    ) {
        if self.loaded.contains_key(&header) || self.waiting.contains_key(&header) {
            return;
        }
        // SAFETY: the callers' contract.
        unsafe {
            match glance.times(header, desc.time_column()) {
                Times::Span(min, max) if max < from || to < min => {
                    if self.waiting.is_empty() {
                        self.waiting.reserve(FIRST_WAITING);
                    }
                    self.waiting.insert(header, (min, max));
                    let (first, last) = self.waiting_span.unwrap_or((min, max));
                    self.waiting_span = Some((first.min(min), last.max(max)));
                }
                _ => drop(self.load(desc, header, snapshot)),
            }
        }
    }

    /// Opens the chunks that have waited for one of these times.
    ///
    /// # Safety
    /// As `cover`.
    unsafe fn load_waiting(
        &mut self,
        desc: &IndexDesc,
        (from, to): (i64, i64),
        snapshot: Snapshot<'_>,
    ) {
        let meets = |(min, max): (i64, i64)| min <= to && from <= max;
        if !self.waiting_span.is_some_and(meets) {
            return;
        }
        let due: Vec<Tid> = self
            .waiting
            .iter()
            .filter(|(_, &times)| meets(times))
            .map(|(&header, _)| header)
            .collect();
        // SAFETY: the callers' contract.
        snapshot::with_registered(snapshot, |snapshot| unsafe {
            for header in due {
                self.waiting.remove(&header);
                self.load(desc, header, snapshot);
            }
        });
    }

    /// Opens the chunk of a header, unless it is known; returns what it is.
    ///
    /// # Safety
    /// As `cover`, with a registered snapshot.
    unsafe fn load(
        &mut self,
        desc: &IndexDesc,
        header: Tid,
        snapshot: Snapshot<'_>,
    ) -> Option<Standing> {
        // SAFETY: the callers' contract.
        unsafe {
            let chunk = self.open(header, snapshot)?;
            let standing = self.chunks[chunk.0].standing;
            if chunk.1 {
                self.enter(desc, chunk.0);
            }
            Some(standing)
        }
    }

    /// The chunk of a header, and whether it is new.
    ///
    /// # Safety
    /// As `load`.
    unsafe fn open(&mut self, header: Tid, snapshot: Snapshot<'_>) -> Option<(usize, bool)> {
        if let Some(known) = self.loaded.get(&header) {
            return known.map(|at| (at, false));
        }
        self.loaded.insert(header, None);
        if self.except.contains(&header) {
            return None;
        }
        // SAFETY: the callers' contract.
        let (standing, reader) =
            unsafe { chunk_cache::standing_at(self.table(), header, snapshot) }?;
        if standing == Standing::Later {
            self.outdated = true;
            return None;
        }
        self.chunks.push(Known::new(reader, standing));
        let at = self.chunks.len() - 1;
        self.loaded.insert(header, Some(at));
        Some((at, true))
    }

    /// Sorts a new chunk in.
    ///
    /// # Safety
    /// The table must be open; `desc` must be that of the index that the key cache is lent for.
    unsafe fn enter(&mut self, desc: &IndexDesc, at: usize) {
        let reader = Rc::clone(&self.chunks[at].reader);
        let header = &reader.chunk.header;
        if header.has(FLAG_TOMBSTONE) {
            return;
        }
        if !is_sorted_as(&reader.chunk, desc) {
            self.loose.push(at);
        } else if header.has(FLAG_ONE_SERIES) {
            // SAFETY: the callers' contract.
            let bytes = unsafe {
                let descriptor = self.table().descriptor();
                let value = |&column: &usize| reader.value(descriptor, 0, column);
                let keys = &desc.columns[..desc.key_columns()];
                let values: Vec<_> = keys.iter().map(value).collect();
                // A key that is null in part is nobody's.
                if values.iter().any(|&(_, isnull)| isnull) {
                    return;
                }
                let values: Vec<_> = values.into_iter().map(|(value, _)| value).collect();
                bytes_of(self.table(), &desc.columns, &values)
            };
            let times = (header.min_time, header.max_time);
            let part = Part::new(times, at, 0..reader.rows());
            self.series.entry(bytes).or_default().parts.push(part);
        } else {
            self.shared.push(at);
        }
    }

    /// Looks into the chunks of several series that may have a series at times of `from..=to`.
    ///
    /// # Safety
    /// As `cover`.
    unsafe fn resolve(&mut self, series_key: &SeriesKey, (from, to): (i64, i64)) {
        if self.shared.is_empty() {
            return;
        }
        let table = self.table();
        let series = self.series.entry(series_key.bytes.clone()).or_default();
        let quals = Quals::default();
        let view = View {
            desc: series_key.desc,
            quals: &quals,
            descriptor: table.descriptor(),
        };
        for &chunk in &self.shared {
            let reader = &self.chunks[chunk].reader;
            let (min, max) = (reader.chunk.header.min_time, reader.chunk.header.max_time);
            if max < from || to < min || !series.resolved.insert(chunk) {
                continue;
            }
            let key = Key::borrowed(series_key.key.iter().map(|&value| (value, false)).collect());
            // SAFETY: the callers' contract.
            let rows = unsafe { rows_of_series(reader, &key, view, 0..0) };
            if !rows.is_empty() {
                series.parts.push(Part::new((min, max), chunk, rows));
            }
        }
    }

    /// Starts over when what is decoded, and what is known of series, takes too much memory; does it?
    fn starts_over(&mut self) -> bool {
        let of_series =
            self.series.len() * SERIES_BYTES + self.first_keys_read.len() * FIRST_KEY_BYTES;
        let decoded: usize = self
            .chunks
            .iter()
            .map(|known| known.reader.kept_bytes())
            .sum();
        let most = guc::batch_memory_bytes();
        // The rows of a batch are in memory, too: that there are as many series as rows should not double what they take.
        let is_too_much = of_series > most / SERIES_PART || of_series + decoded > most;
        if is_too_much {
            let before = core::mem::replace(self, KeyCache::new(self.epoch));
            self.except = before.except;
            self.outdated = before.outdated;
        }
        is_too_much
    }
}

/// Has a span of times all of `from..=to`?
fn has(span: Option<(i64, i64)>, (from, to): (i64, i64)) -> bool {
    span.is_some_and(|(start, end)| start <= from && to <= end)
}

/// A span of times with those of `from..=end`, or these alone where they do not hang together.
fn extended(span: Option<(i64, i64)>, from: i64, end: i64) -> (i64, i64) {
    match span {
        Some((start, last)) if start <= from && from <= last.saturating_add(1) => {
            (start, end.max(last))
        }
        _ => (from, end),
    }
}

fn headers(page: &Page<'_>) -> Vec<Tid> {
    let headers = page
        .tuples()
        .filter(|item| classify(item) == TupleKind::Header);
    headers.map(|item| item.tid).collect()
}

/// Those of `rows`, which are in the order of time, that lie in blocks with a time, and what is between them: a search in a whole
/// chunk would decode a block with each of its steps.
fn blocks_with(reader: &Reader, column: usize, rows: &Range<u32>, time: i64) -> Range<u32> {
    // A column that was added later has one value in all rows.
    if reader.chunk.columns.columns().len() <= column {
        return rows.clone();
    }
    let may_have = |block: &&BlockEntry| match (&block.min, &block.max) {
        (Bound::Int(min), Bound::Int(max)) => (*min..=*max).contains(&time),
        _ => true,
    };
    reader.with_directory(column, |of_column| {
        let blocks = of_column.blocks();
        let first = blocks.iter().find(may_have);
        let last = blocks.iter().rfind(may_have);
        match (first, last) {
            (Some(first), Some(last)) => {
                let start = rows.start.max(first.rows.start);
                start..rows.end.min(last.rows.end).max(start)
            }
            _ => rows.start..rows.start,
        }
    })
}
