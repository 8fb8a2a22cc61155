//! What there is to do in a table: the chunks, by their headers, and the pages with rows of the tail. They are found by a series index
//! and by the visibility map (`quiet`), where these can tell; else by a walk over all pages.

use super::long_key;
use super::own_header::OwnHeaders;
use super::source::{has_layout, Source};
use super::windows::FEW_ROWS;
use crate::catalog::layout::Layout;
use crate::chunk::chunk_cache;
use crate::chunk::datum;
use crate::chunk::encode::CHUNK_BYTES;
use crate::chunk::notes;
use crate::chunk::place::Sizes;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::chunk::row_set::{append, integer_at};
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::guc;
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use crate::pg::TransactionId;
use crate::scan::headers::{self, Places};
use crate::table::quiet;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use varve_columns::chunk::FORMAT_VERSION;
use varve_columns::column::Column;
use varve_columns::tuple::header::{
    self, BodyKind, BODY_BYTES, FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED,
    PIECE_BYTES, VERSION,
};
use varve_columns::tuple::runs::Pieces;

/// Dead tuples of a chunk.
#[derive(Default)]
struct Dead {
    bytes: u64,
    /// A header's rows went elsewhere, into its own next version maybe.
    is_moved: bool,
    /// They went for good.
    is_deleted: bool,
}

/// What the pages that were looked at have of chunks, besides their headers.
#[derive(Default)]
struct Met {
    dead: FxHashMap<u64, Dead>,
    /// Chunks with notes on them.
    noted: FxHashSet<u64>,
}

/// A chunk as its newest committed header describes it.
#[derive(Clone)]
pub struct Seen {
    pub tid: Tid,
    pub chunk: u64,
    pub level: u8,
    pub rows: u32,
    pub live: u32,
    pub min_time: i64,
    pub max_time: i64,
    /// Of a fresh chunk the times between which half of its rows are; the same as above of others.
    pub usual_times: (i64, i64),
    pub one_series: bool,
    /// Found under its own key: overlaps no other such chunk of its series.
    pub keyed: bool,
    /// Written in the table's present layout.
    pub in_layout: bool,
    /// Written in an older format than this library writes.
    pub outdated: bool,
    pub tombstone: bool,
    /// The transactions that wrote the header and its notes are over for everybody.
    pub settled: bool,
    pub has_successors: bool,
    /// A round could not decode it: it stays as it is.
    pub damaged: bool,
    /// A keyed chunk that twice as many rows would fit into; of several series only where it has few.
    pub small: bool,
    pub first_key: Rc<[u8]>,
    pub last_key: Rc<[u8]>,
    pub pieces: u32,
    pub sizes: Sizes,
    /// Of its storage tuples, with their line pointers.
    pub bytes: u64,
    /// Highest page of its storage tuples.
    pub last_block: u32,
}

#[derive(Default)]
pub struct Survey {
    pub chunks: Vec<Seen>,
    /// Keyed chunks of each series, by time.
    pub keyed: FxHashMap<Rc<[u8]>, Vec<usize>>,
    /// What rows and storage tuples take of their pages.
    pub live_bytes: u64,
    /// Rows of the tail and storage tuples.
    pub live_tuples: u64,
    /// Rows that are not deleted.
    pub live_rows: u64,
    /// Tuples that nobody sees who starts now.
    pub dead: u64,
    /// What those of them took of their pages whose rows went into other chunks.
    pub rewritten_bytes: u64,
    /// Pages that have rows of the tail, ascending.
    pub tail: Vec<u32>,
    /// No page from here on has anything but chunks.
    pub chunks_from: u32,
    /// Headers that no series index leads to.
    pub unentered: Vec<Tid>,
    pub damaged: Vec<(Tid, Damage)>,
    pub blocks: u32,
    /// Pages from here on are empty, or soon will be.
    pub end: u32,
}

/// What a survey that was made before says about the chunks that have not changed since.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    pub survey: &'a Survey,
    /// Pages that had changed when VACUUM set bits in the visibility map since, ascending; `None`: nobody has set any.
    pub vacuumed: Option<&'a [u32]>,
}

impl<'a> Before<'a> {
    /// Chunks whose headers are on pages that have not changed. The rest is looked at again, and so is what somebody may still see
    /// otherwise.
    fn unchanged(self, changed: &[u32]) -> FxHashMap<Tid, &'a Seen> {
        let is_in = |pages: &[u32], at: Tid| pages.binary_search(&at.block).is_ok();
        let vacuumed = self.vacuumed.unwrap_or_default();
        let chunks = self.survey.chunks.iter();
        chunks
            .filter(|seen| seen.settled && !seen.damaged && !seen.tombstone)
            .filter(|seen| !is_in(changed, seen.tid) && !is_in(vacuumed, seen.tid))
            .map(|seen| (seen.tid, seen))
            .collect()
    }

    /// Do the pages that were vacuumed tell what is new with less to read than the index has? VACUUM sets bits for nothing that came
    /// after its snapshot, and what came before that was on pages that had changed.
    fn is_enough(self, table: Table<'_>, snapshot: Snapshot<'_>) -> bool {
        let is_less = |pages: &[u32]| {
            headers::index_pages(table, snapshot).is_some_and(|all| pages.len() < all as usize)
        };
        self.vacuumed.is_none_or(is_less)
    }

    /// Pages that may have got what is new, besides those that have changed.
    fn pages(self) -> impl Iterator<Item = u32> + 'a {
        let vacuumed = self.vacuumed.unwrap_or_default();
        self.survey.tail.iter().chain(vacuumed).copied()
    }

    /// All headers that there were.
    fn headers(self) -> impl Iterator<Item = Tid> + 'a {
        let damaged = self.survey.damaged.iter().map(|(at, _)| *at);
        let chunks = self.survey.chunks.iter().map(|seen| seen.tid);
        chunks.chain(damaged)
    }
}

impl Survey {
    /// Surveys an open table. `unentered` are headers that may be there, and that no series index leads to, on pages with a bit in the
    /// visibility map; all pages are walked over where they are not known. `entered` is what the series index has led to, if that was read since the
    /// last VACUUM. Of what is known from `before` only the changes are looked at.
    ///
    /// `snapshot` must be an active MVCC snapshot, and the table have been locked against VACUUM by others since `before`, and since
    /// `entered` was read.
    pub fn take(
        table: Table<'_>,
        layout: &Layout,
        snapshot: Snapshot<'_>,
        unentered: Option<&[Tid]>,
        entered: Option<Places>,
        before: Option<Before>,
    ) -> Survey {
        let mut survey = Survey::default();
        // SAFETY: the table is open, the snapshot valid.
        unsafe {
            survey.blocks = table.blocks();
            let horizon = table.horizon();
            let changed = quiet::changed_pages(table);
            let with_changed = |others: &mut dyn Iterator<Item = u32>| {
                let mut pages = changed.clone();
                pages.extend(others.filter(|&block| block < survey.blocks));
                pages.sort_unstable();
                pages.dedup();
                pages
            };
            // Where much has changed, nothing is taken over: of chunks whose notes are on other pages less may be known.
            let before = before.filter(|known| known.is_enough(table, snapshot));
            let (mut headers, pages) = match before {
                Some(before) => (
                    before.headers().collect(),
                    with_changed(&mut before.pages()),
                ),
                None => match (
                    entered.or_else(|| headers::places(table, snapshot)),
                    unentered,
                ) {
                    (Some(entered), Some(unentered)) => (
                        [&entered.headers[..], unentered].concat(),
                        with_changed(&mut entered.tail.into_iter()),
                    ),
                    _ => (Vec::new(), (0..survey.blocks).collect()),
                },
            };
            let unchanged = before.map(|before| before.unchanged(&changed));
            let unchanged = unchanged.unwrap_or_default();
            let mut cursor = PageCursor::new(table);
            let mut met = Met::default();
            for block in pages {
                error::check_interrupts();
                cursor.go(block);
                survey.count_page(table, &cursor, snapshot, &mut headers, &mut met);
            }
            cursor.release();
            headers.sort_unstable();
            headers.dedup();
            let mut own = OwnHeaders::new(table, layout);
            for at in headers {
                error::check_interrupts();
                // A note leaves the page of the header as it is.
                let known = unchanged.get(&at).copied();
                let known = known.filter(|seen| !met.noted.contains(&seen.chunk));
                match known.cloned().or_else(|| own.seen_at(at)) {
                    Some(seen) => survey.add(seen),
                    None => survey.add_header(table, &own, layout, snapshot, at, horizon),
                }
            }
            drop(own);
            survey.chunks.iter().for_each(|seen| {
                met.dead.remove(&seen.chunk);
            });
            let merged = met
                .dead
                .values()
                .filter(|dead| dead.is_moved && !dead.is_deleted);
            survey.rewritten_bytes += merged.map(|dead| dead.bytes).sum::<u64>();
            for seen in survey.chunks.iter().filter(|seen| seen.tombstone) {
                survey.unentered.push(seen.tid);
            }
        }
        for (at, seen) in survey.chunks.iter().enumerate() {
            if seen.keyed && seen.one_series {
                survey
                    .keyed
                    .entry(Rc::clone(&seen.first_key))
                    .or_default()
                    .push(at);
            }
        }
        for list in survey.keyed.values_mut() {
            list.sort_by_key(|&at| (survey.chunks[at].min_time, survey.chunks[at].max_time));
        }
        survey
    }

    /// Would VACUUM cut off the empty end of the file? It does from a sixteenth on.
    pub fn has_empty_end(&self) -> bool {
        let empty = self.blocks - self.end;
        empty > 0 && (empty >= 1000 || empty >= self.blocks / 16)
    }

    /// Notes that the chunk at `at`, if there is one, cannot be decoded.
    pub fn leave_out(&mut self, at: Tid) {
        let found = self.chunks.iter_mut().find(|seen| seen.tid == at);
        found.into_iter().for_each(|seen| seen.damaged = true);
    }

    /// Counts what is on a page, and notes its headers.
    ///
    /// # Safety
    /// `table` must be open, and `cursor` be on a page of it.
    unsafe fn count_page(
        &mut self,
        table: Table<'_>,
        cursor: &PageCursor,
        snapshot: Snapshot<'_>,
        headers: &mut Vec<Tid>,
        met: &mut Met,
    ) {
        let buffer = cursor.buffer();
        cursor.locked(|page| {
            for item in page.tuples() {
                let block = item.tid.block;
                // SAFETY: the page is pinned and locked.
                let (found, visible) = unsafe {
                    let mut heap_tuple = item.to_heap_tuple(table.oid());
                    (classify(&item), snapshot.sees(&mut heap_tuple, buffer))
                };
                if found == TupleKind::Skip {
                    let body = item.body();
                    if header::body_kind(body) == BodyKind::Note {
                        met.noted.insert(header::chunk_id(body));
                    }
                }
                if !visible {
                    self.dead += 1;
                    self.chunks_from = self.chunks_from.max(block + 1);
                    // SAFETY: as above.
                    unsafe { self.count_dead(item, found, &mut met.dead) };
                    continue;
                }
                self.end = self.end.max(block + 1);
                match found {
                    TupleKind::Header => headers.push(item.tid),
                    TupleKind::Skip => {}
                    TupleKind::Row => {
                        self.live_bytes += tuple_bytes(item.bytes() as usize);
                        self.live_tuples += 1;
                        self.live_rows += 1;
                        self.chunks_from = self.chunks_from.max(block + 1);
                        if self.tail.last() != Some(&block) {
                            self.tail.push(block);
                        }
                    }
                }
            }
        });
    }

    /// Notes a dead tuple of a page that is locked.
    ///
    /// # Safety
    /// The page of `item` must be locked.
    unsafe fn count_dead(
        &mut self,
        item: PageTuple<'_>,
        found: TupleKind,
        dead: &mut FxHashMap<u64, Dead>,
    ) {
        let bytes = tuple_bytes(item.bytes() as usize);
        // SAFETY: the caller's contract.
        let is_moved = unsafe { tuple::ctid(item.header()) }.is_moved_marker();
        if found == TupleKind::Row {
            self.rewritten_bytes += if is_moved { bytes } else { 0 };
            return;
        }
        let of_chunk = dead.entry(header::chunk_id(item.body())).or_default();
        of_chunk.bytes += bytes;
        if found == TupleKind::Header {
            of_chunk.is_moved |= is_moved;
            of_chunk.is_deleted |= !is_moved;
        }
    }

    /// Adds the chunk of a header, if the snapshot sees that.
    ///
    /// # Safety
    /// `table` must be open, `snapshot` active, and `own` be that table's, asked last for the header at `at`.
    unsafe fn add_header(
        &mut self,
        table: Table<'_>,
        own: &OwnHeaders<'_>,
        layout: &Layout,
        snapshot: Snapshot<'_>,
        at: Tid,
        horizon: TransactionId,
    ) {
        let Some(page) = own.page_of(at) else {
            return;
        };
        // SAFETY: the table is open and the snapshot active; the header was just looked at.
        match unsafe { chunk_cache::try_reader_on(page, table, at, snapshot) } {
            None => {}
            Some(Err(damage)) => self.add_damaged(at, damage),
            // SAFETY: as above.
            Some(Ok(reader)) => match unsafe { describe(&reader, layout, horizon) } {
                Ok(seen) => self.add(seen),
                Err(damage) => self.add_damaged(at, damage),
            },
        }
    }

    fn add(&mut self, seen: Seen) {
        self.live_bytes += seen.bytes;
        self.live_rows += u64::from(seen.live);
        self.live_tuples += u64::from(seen.pieces) + 1;
        self.end = self.end.max(seen.last_block + 1);
        self.chunks.push(seen);
    }

    /// Where its storage tuples are is not known.
    fn add_damaged(&mut self, at: Tid, damage: Damage) {
        self.damaged.push((at, damage));
        self.chunks_from = self.blocks;
        self.end = self.blocks;
    }
}

/// What a tuple takes of its page.
fn tuple_bytes(len: usize) -> u64 {
    len.next_multiple_of(8) as u64 + 4
}

/// What the storage tuples of a chunk take of their pages, of which there are `pieces` besides the header.
pub fn chunk_bytes(payload: &Pieces, pieces: usize, header_bytes: usize) -> u64 {
    const TUPLE_HEADER_BYTES: usize = 24;
    let full = tuple_bytes(BODY_BYTES + TUPLE_HEADER_BYTES);
    let others = pieces - payload.tids.len();
    let last = match payload.len as usize % PIECE_BYTES {
        0 => 0,
        rest => full - tuple_bytes(BODY_BYTES - PIECE_BYTES + rest + TUPLE_HEADER_BYTES),
    };
    let header = tuple_bytes(header_bytes + TUPLE_HEADER_BYTES);
    (payload.tids.len() + others) as u64 * full - last.min(full) + header
}

/// How long its storage tuples are when it has moved: what notes say is in the header then.
pub fn sizes(payload: &Pieces, header_bytes: usize) -> Sizes {
    let payload = payload.len as usize;
    Sizes {
        header: header_bytes.min(BODY_BYTES),
        full_pieces: (payload / PIECE_BYTES) as u64,
        last_piece: match payload % PIECE_BYTES {
            0 => 0,
            rest => BODY_BYTES - PIECE_BYTES + rest,
        },
    }
}

/// What a survey says of a chunk.
///
/// # Safety
/// The reader's table must be open.
unsafe fn describe(
    reader: &Rc<Reader>,
    layout: &Layout,
    horizon: TransactionId,
) -> Result<Seen, Damage> {
    let chunk = &reader.chunk;
    let header = &chunk.header;
    let in_layout = has_layout(chunk, layout);
    let tombstone = header.has(FLAG_TOMBSTONE);
    let pieces = chunk.piece_tids()?;
    let (first_key, last_key) = match tombstone || !in_layout {
        true => one_key(&[]),
        false => key_range(chunk, layout)?,
    };
    let keyed = in_layout && !tombstone && !header.has(FLAG_UNKEYED);
    let rows = header.rows as usize * 2;
    let most = match header.has(FLAG_ONE_SERIES) {
        true => guc::chunk_rows(),
        false => guc::chunk_rows().min(2 * FEW_ROWS as usize),
    };
    let mut small = keyed && rows <= most;
    if small {
        // SAFETY: by contract.
        let source = unsafe { Source::new(Rc::clone(reader), layout) }?;
        small = rows * source.row_bytes <= CHUNK_BYTES;
    }
    let mut usual_times = (header.min_time, header.max_time);
    if header.level == 0 && in_layout && !tombstone && header.has(FLAG_SORTED) {
        usual_times = middle_times(chunk, layout)?.unwrap_or(usual_times);
    }
    let payload = &chunk.statics.payload;
    Ok(Seen {
        tid: chunk.tid,
        chunk: header.chunk,
        level: header.level,
        rows: header.rows,
        live: header.rows - header.deleted,
        min_time: header.min_time,
        max_time: header.max_time,
        usual_times,
        one_series: header.has(FLAG_ONE_SERIES),
        keyed,
        small,
        in_layout,
        outdated: !tombstone && chunk.format() < FORMAT_VERSION.min(VERSION),
        tombstone,
        settled: notes::is_settled(chunk, horizon),
        has_successors: chunk.map.has_successors(),
        damaged: false,
        first_key,
        last_key,
        sizes: sizes(payload, chunk.header_bytes() + chunk.notes.bytes() as usize),
        bytes: chunk_bytes(payload, pieces.len(), chunk.header_bytes()) + chunk.notes.bytes(),
        pieces: (pieces.len() + chunk.notes.seen.len()) as u32,
        last_block: pieces
            .iter()
            .chain(chunk.notes.seen.iter().map(|note| &note.tid))
            .map(|tid| tid.block)
            .max()
            .unwrap_or(0)
            .max(chunk.tid.block),
    })
}

/// Least and greatest key of a chunk.
pub type KeyRange = (Rc<[u8]>, Rc<[u8]>);

/// Series keys of the first and the last row: of long ones what is not behind the one, and not before the other.
fn key_range(chunk: &Chunk, layout: &Layout) -> Result<KeyRange, Damage> {
    let last = match chunk.header.has(FLAG_ONE_SERIES) {
        true => 0,
        false => chunk.header.rows.saturating_sub(1),
    };
    let keys = keys_at(chunk, layout, 0)?;
    let first_key = not_behind(&keys);
    if last == 0 {
        return Ok(up_to(first_key, &keys));
    }
    drop(keys);
    Ok(up_to(first_key, &keys_at(chunk, layout, last)?))
}

/// The same where all rows have one key, of which these are the columns.
pub fn one_key(keys: &[Column]) -> KeyRange {
    up_to(not_behind(keys), keys)
}

fn not_behind(keys: &[Column]) -> Rc<[u8]> {
    let mut key = Vec::new();
    long_key::put_not_behind(&mut key, keys.iter(), 0);
    key.into()
}

fn up_to(first_key: Rc<[u8]>, last: &[Column]) -> KeyRange {
    let mut key = Vec::new();
    long_key::put_not_before(&mut key, last.iter(), 0);
    match key == *first_key {
        true => (Rc::clone(&first_key), first_key),
        false => (first_key, key.into()),
    }
}

/// The first and the third quartile of times, if there are any.
fn middle_times(chunk: &Chunk, layout: &Layout) -> Result<Option<(i64, i64)>, Damage> {
    let Some(at) = layout.time.map(|number| usize::from(number) - 1) else {
        return Ok(None);
    };
    if at >= chunk.columns.columns().len() {
        return Ok(None);
    }
    let directory = chunk.directory(at)?;
    // Rows are in the order of series, so each block has all times of some.
    let mut values = datum::empty(chunk.columns.column(at).kind);
    let rows = chunk.decode_block(at, &directory, 0, &mut values)?;
    let timed = (0..rows.len()).map(|row| integer_at(&values, row));
    let timed = timed.filter(|(null, _)| !null);
    let mut times: Vec<i64> = timed.map(|(_, time)| time).collect();
    times.sort_unstable();
    Ok(times
        .get(times.len() / 4)
        .copied()
        .zip(times.get(times.len() * 3 / 4).copied()))
}

/// The key columns of one row.
fn keys_at(chunk: &Chunk, layout: &Layout, row: u32) -> Result<Vec<Column>, Damage> {
    let mut keys = Vec::new();
    for &number in &layout.keys {
        let at = usize::from(number) - 1;
        if at >= chunk.columns.columns().len() {
            continue;
        }
        let directory = chunk.directory(at)?;
        let kind = chunk.columns.column(at).kind;
        let mut values = datum::empty(kind);
        let rows = chunk.decode_block(at, &directory, directory.block_of_row(row), &mut values)?;
        let mut key = datum::empty(kind);
        append(&mut key, &values, &[row - rows.start]);
        keys.push(key);
    }
    Ok(keys)
}

/// The source of a chunk that a survey has seen, if it is still what it was; or what is wrong with it.
///
/// `table` must be open for writing, `snapshot` active.
pub fn open(
    table: Table<'_>,
    layout: &Layout,
    snapshot: Snapshot<'_>,
    seen: &Seen,
) -> Option<Result<Source, Damage>> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        match chunk_cache::try_reader_at(table, seen.tid, snapshot)? {
            Ok(reader) if reader.chunk.header.chunk != seen.chunk => None,
            Ok(reader) => Some(Source::new(reader, layout)),
            Err(damage) => Some(Err(damage)),
        }
    }
}
