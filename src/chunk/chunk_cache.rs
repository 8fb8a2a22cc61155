//! Finding chunks: by the TID of a header, with some readers kept per transaction, and by chunk id.

use super::next_header;
use super::note_cache;
use super::notes::View;
use super::read::{Chunk, Damage};
use super::reader::Reader;
pub use super::session_cache::Began;
use super::session_cache::{self, Place};
use crate::chunk::tuple_kind::{classify, raise, TupleKind};
use crate::guc;
use crate::pg::error;
use crate::pg::heap::Fetched;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Presence, Snapshot};
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple;
use crate::pg::{Buffer, Oid, TransactionId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use varve_columns::tuple::header::{self, StorageTuple};

/// Readers that are kept whatever memory they take.
const LEAST_READERS: usize = 8;
/// Readers that are kept as long as all that they hold takes no more than twice `varve.batch_memory`: rows that moved together, or
/// that a statement changes, lie in the chunks of as many series, now in one, now in another.
const MOST_READERS: usize = 512;
/// Memory is counted each time that so many readers have come.
const WEIGHED_EVERY: u64 = 16;
const KEPT_WRITERS: usize = 16;

/// A header with some of its notes, by their stamp.
type Version = (Place, u64);

struct Kept {
    reader: Rc<Reader>,
    /// When it was asked for last, by the count of askings.
    used: u64,
}

#[derive(Default)]
struct Readers {
    kept: FxHashMap<Version, Kept>,
    asked: u64,
    opened: u64,
}

/// Table, file and transaction, and the headers that this has written.
type Writer = ((Oid, Oid, TransactionId), Rc<[Written]>);

thread_local! {
    static KEPT: PerTransaction<Readers> = PerTransaction::default();
    static WRITERS: PerTransaction<Vec<Writer>> = PerTransaction::default();
}

/// The reader of the header at `at`, if its tuple is visible to `snapshot`; raises XX001 when the chunk
/// is damaged.
///
/// # Safety
/// `table` must be open, `snapshot` valid.
pub unsafe fn reader_at(table: Table<'_>, at: Tid, snapshot: Snapshot<'_>) -> Option<Rc<Reader>> {
    // SAFETY: by contract; the tuple stays pinned for the error's sake.
    unsafe {
        with_header(table, at, snapshot, |found, buffer| {
            sound_reader(
                table,
                at,
                found,
                buffer,
                View::Snapshot(snapshot),
                Stay::Long,
            )
        })
    }
}

/// The reader of the header at `at`, which this transaction has locked, for who writes the next version: that says what the notes say which
/// `snapshot` shows, and names the others.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn reader_to_replace(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<Rc<Reader>> {
    // SAFETY: by contract; the tuple stays pinned for the error's sake.
    unsafe {
        let any = Snapshot::any();
        with_header(table, at, any, |found, buffer| {
            sound_reader(table, at, found, buffer, View::Naming(snapshot), Stay::Long)
        })
    }
}

/// The reader of the header at `at`, if its tuple is visible to `snapshot`, for who reads one chunk after the other and says when it has left
/// this one (`leave`), and when it began. The table is known to have `blocks` pages at least, and its file does not get shorter: nobody is asked how long that is.
///
/// # Safety
/// As `reader_at`; the table has had so many pages since it was locked.
pub unsafe fn reader_in_passing(
    table: Table<'_>,
    blocks: u32,
    at: Tid,
    snapshot: Snapshot<'_>,
    began: Began,
) -> Option<Rc<Reader>> {
    // SAFETY: by contract; the tuple stays pinned for the error's sake.
    unsafe {
        with_header_within(table, blocks, at, snapshot, |found, buffer| {
            sound_reader(
                table,
                at,
                found,
                buffer,
                View::Snapshot(snapshot),
                Stay::Short(began),
            )
        })
    }
}

/// Who was given this reader in passing, by a scan that began then, is done with it.
///
/// # Safety
/// `table` must be open, and the reader's.
pub unsafe fn leave(table: Table<'_>, reader: &Reader, began: Began) {
    if reader.chunk.has_grown() {
        let (oid, file) = (table.oid(), table.file_number());
        let place = (oid, file, reader.chunk.tid);
        session_cache::settle(core::iter::once(place), Some(began));
    }
}

/// The same, but returns what is wrong with a damaged chunk.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn try_reader_at(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<Result<Rc<Reader>, Damage>> {
    // SAFETY: by contract.
    unsafe { try_reader_of(table, at, snapshot, View::Snapshot(snapshot)) }
}

/// The same for who has the header's page pinned by a cursor, and judges nothing by what it reads: serializable transactions do not get into
/// conflicts by it.
///
/// # Safety
/// As `reader_at`; the cursor must be on the page of `at`.
pub unsafe fn try_reader_on(
    cursor: &PageCursor<'_>,
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<Result<Rc<Reader>, Damage>> {
    let buffer = cursor.buffer();
    // SAFETY: by contract; the page stays pinned while the header is opened.
    unsafe {
        let found = cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            let is_seen = classify(&item) == TupleKind::Header
                && snapshot.sees(&mut item.to_heap_tuple(table.oid()), buffer);
            is_seen.then_some(item)
        })?;
        let view = View::Snapshot(snapshot);
        Some(kept_reader(table, at, found, buffer, view, Stay::Long))
    }
}

/// The same, but of what is in the file now: nothing that was read before is used.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn try_reader_anew(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<Result<Rc<Reader>, Damage>> {
    // SAFETY: by contract.
    unsafe {
        with_header(table, at, snapshot, |found, _| {
            let view = View::Snapshot(snapshot);
            Chunk::open(table, &found, view).map(Reader::new)
        })
    }
}

/// The same of the chunk as its header was written, without notes, if the header's tuple is there at all.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn try_reader_as_written(
    table: Table<'_>,
    at: Tid,
) -> Option<Result<Rc<Reader>, Damage>> {
    // SAFETY: by contract.
    unsafe {
        let any = Snapshot::any();
        try_reader_of(table, at, any, View::Written)
    }
}

/// The reader of the header at `at` with the notes that `view` shows, if its tuple is visible to `snapshot`.
///
/// # Safety
/// As `reader_at`; the view's snapshot must be valid.
unsafe fn try_reader_of(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
    view: View,
) -> Option<Result<Rc<Reader>, Damage>> {
    // SAFETY: the callers' contract.
    unsafe {
        with_header(table, at, snapshot, |found, buffer| {
            kept_reader(table, at, found, buffer, view, Stay::Long)
        })
    }
}

/// The reader of the header at `at`, if its tuple is visible to `snapshot`, for checks that are no reading: serializable
/// transactions do not get into conflicts by it.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn reader_for_check(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<Rc<Reader>> {
    // SAFETY: by contract.
    unsafe {
        check(table, at, View::Check(snapshot), |found, buffer| {
            let mut found = found.to_heap_tuple(table.oid());
            snapshot.sees(&mut found, buffer).then_some(())
        })
        .map(|((), reader)| reader)
    }
}

/// What a header is to those who must know of more than their snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// The snapshot shows it.
    Seen,
    /// Written by this transaction, after the snapshot.
    Own,
    /// Written by a transaction that is in progress.
    Pending(TransactionId),
    /// It has come into being since the snapshot was taken.
    Later,
}

/// The reader of the header at `at`, and what it is; None for one that is not valid any more, or never will be. No reading either.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn standing_at(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
) -> Option<(Standing, Rc<Reader>)> {
    // SAFETY: by contract.
    unsafe {
        check(table, at, View::Check(snapshot), |item, buffer| {
            let mut found = item.to_heap_tuple(table.oid());
            if snapshot.sees(&mut found, buffer) {
                return Some(Standing::Seen);
            }
            match snapshot::presence(&mut found, buffer) {
                Presence::Gone => None,
                Presence::Coming(writer) => Some(Standing::Pending(writer)),
                Presence::There if transaction::is_current(tuple::xmin(item.header())) => {
                    Some(Standing::Own)
                }
                Presence::There => Some(Standing::Later),
            }
        })
    }
}

/// The reader of the header at `at`, with what `judge` says of its tuple while the page is locked.
///
/// # Safety
/// `table` must be open, the view's snapshot valid. `judge` must not lock buffers: the page is locked.
unsafe fn check<R>(
    table: Table<'_>,
    at: Tid,
    view: View,
    judge: impl FnOnce(PageTuple<'_>, Buffer) -> Option<R>,
) -> Option<(R, Rc<Reader>)> {
    // SAFETY: the callers' contract; the tuple stays pinned while it is opened.
    unsafe {
        if !table.has_block(at.block) {
            return None;
        }
        let mut cursor = PageCursor::new(table);
        cursor.go(at.block);
        let buffer = cursor.buffer();
        let (judged, found) = cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            if classify(&item) != TupleKind::Header {
                return None;
            }
            judge(item, buffer).map(|judged| (judged, item))
        })?;
        let reader = sound_reader(table, at, found, buffer, view, Stay::Long);
        Some((judged, reader))
    }
}

/// Shows the header tuple at `at` to `body` while it is pinned, if it is one and visible.
fn with_header<R>(
    table: Table<'_>,
    at: Tid,
    snapshot: Snapshot<'_>,
    body: impl FnOnce(PageTuple<'_>, Buffer) -> R,
) -> Option<R> {
    if !table.has_block(at.block) {
        return None;
    }
    with_header_within(table, at.block + 1, at, snapshot, body)
}

/// The same in a table that is known to have so many blocks at least.
fn with_header_within<R>(
    table: Table<'_>,
    blocks: u32,
    at: Tid,
    snapshot: Snapshot<'_>,
    body: impl FnOnce(PageTuple<'_>, Buffer) -> R,
) -> Option<R> {
    if at.block >= blocks {
        return None;
    }
    let fetched = Fetched::at(table, at, snapshot)?;
    let found = fetched.tuple();
    let is_header = classify(&found) == TupleKind::Header;
    is_header.then(|| body(found, fetched.buffer()))
}

/// How long somebody has use for a reader.
#[derive(Clone, Copy, PartialEq)]
enum Stay {
    /// Maybe until the transaction ends.
    Long,
    /// Until the next chunk of a scan. Where the session has its content, a reader is made faster than it is remembered.
    Short(Began),
}

impl Stay {
    fn scan(self) -> Option<Began> {
        match self {
            Stay::Long => None,
            Stay::Short(began) => Some(began),
        }
    }
}

/// `kept_reader`, of a chunk that is not damaged: else that is raised.
///
/// # Safety
/// As `kept_reader`.
unsafe fn sound_reader(
    table: Table<'_>,
    at: Tid,
    found: PageTuple<'_>,
    buffer: Buffer,
    view: View,
    stay: Stay,
) -> Rc<Reader> {
    // SAFETY: the callers' contract; the tuple stays pinned for the error's sake.
    unsafe {
        kept_reader(table, at, found, buffer, view, stay)
            .unwrap_or_else(|damage| raise(table, &found, &damage))
    }
}

/// The reader of a header with the notes that `view` shows: one that is kept, or a new one.
///
/// # Safety
/// `table` must be open, the view's snapshot valid; `found` must be the header at `at`, on the page in `buffer`.
unsafe fn kept_reader(
    table: Table<'_>,
    at: Tid,
    found: PageTuple<'_>,
    buffer: Buffer,
    view: View,
    stay: Stay,
) -> Result<Rc<Reader>, Damage> {
    // SAFETY: the tuple is on the page in `buffer`, which is pinned.
    unsafe {
        let place = (table.oid(), table.file_number(), at);
        let body = found.body();
        let writer = tuple::raw_xmin(found.header());
        let notes = note_cache::find(table, place, writer, body, view)?;
        let version = (place, notes.stamp());
        let known = KEPT.with_borrow_mut(|readers| {
            readers.asked += 1;
            let entry = readers.kept.get_mut(&version)?;
            entry.used = readers.asked;
            let chunk = &entry.reader.chunk;
            let is_same = chunk.raw_writer == writer && chunk.content.is_of(body);
            is_same.then(|| Rc::clone(&entry.reader))
        });
        if let Some(reader) = known {
            reader.chunk.table.set(table.address());
            return Ok(reader);
        }
        let known = session_cache::find(table, place, body);
        let is_known = known.is_some();
        let opened = match known {
            Some(opened) => opened,
            None => {
                let opened = session_cache::open(table, place, body, stay.scan())?;
                opened.content.cache_beside_header(at, buffer);
                opened
            }
        };
        let chunk = Chunk::open_with(table, &found, opened.content, notes)?;
        let reader = Reader::with(chunk, opened.decoded);
        if is_known && stay != Stay::Long {
            return Ok(reader);
        }
        KEPT.with_borrow_mut(|readers| {
            readers.make_room();
            let entry = Kept {
                reader: Rc::clone(&reader),
                used: readers.asked,
            };
            readers.kept.insert(version, entry);
        });
        Ok(reader)
    }
}

/// The transaction ends: what its readers have decoded stays with the session.
impl Drop for Readers {
    fn drop(&mut self) {
        let places: Vec<Place> = self.kept.drain().map(|((place, _), _)| place).collect();
        session_cache::settle(places.into_iter(), None);
    }
}

impl Readers {
    /// Lets go of readers that were not asked for longest.
    fn make_room(&mut self) {
        self.opened += 1;
        let is_full = self.kept.len() >= MOST_READERS;
        if self.kept.len() < LEAST_READERS || !is_full && !self.opened.is_multiple_of(WEIGHED_EVERY)
        {
            return;
        }
        let weight =
            |(version, entry): (&Version, &Kept)| (entry.used, entry.reader.kept_bytes(), *version);
        let mut entries: Vec<_> = self.kept.iter().map(weight).collect();
        let most = 2 * guc::batch_memory_bytes();
        if !is_full && entries.iter().map(|entry| entry.1).sum::<usize>() <= most {
            return;
        }
        entries.sort_unstable_by_key(|&(used, ..)| core::cmp::Reverse(used));
        let mut bytes = 0;
        let mut left = Vec::new();
        for (at, (_, of_entry, version)) in entries.into_iter().enumerate() {
            bytes += of_entry;
            // A sixteenth less than would do, so that the next ones find room.
            let has_room = bytes <= most && at < MOST_READERS - MOST_READERS / 16;
            if at >= LEAST_READERS && !has_room {
                self.kept.remove(&version);
                left.push(version.0);
            }
        }
        session_cache::settle(left.into_iter(), None);
    }
}

/// A header as a transaction wrote it.
#[derive(Clone, Copy)]
pub struct Written {
    pub tid: Tid,
    pub chunk: u64,
    pub deleted: u32,
    pub min_time: i64,
    pub max_time: i64,
    /// The same transaction has put another version of the chunk in its place.
    is_replaced: bool,
}

/// The headers of a table that a transaction has written, in the order of their places. Walks over the
/// table's pages; what a transaction wrote that is over is remembered until this one ends.
///
/// That is as long as it is asked for: by a snapshot that does not see the writer's commit, which keeps its
/// headers in their places.
pub fn headers_by(table: Table<'_>, writer: TransactionId) -> Rc<[Written]> {
    let (oid, file, own) = (
        table.oid(),
        table.file_number(),
        transaction::is_current(writer),
    );
    let key = (oid, file, writer);
    let known = WRITERS.with_borrow(|writers| {
        let known = writers.iter().find(|known| known.0 == key);
        known.map(|known| Rc::clone(&known.1))
    });
    if let (Some(known), false) = (known, own) {
        return known;
    }
    // SAFETY: the walk pins and locks the page of each tuple. Who is still at work may write more.
    let (is_over, found) = unsafe {
        let is_over = !own && !transaction::is_in_progress(writer);
        let by_writer = |item: PageTuple<'_>| tuple::xmin(item.header()) == writer;
        (is_over, walk_for_headers(table, by_writer))
    };
    let found: Rc<[Written]> = found.into();
    if is_over {
        WRITERS.with_borrow_mut(|writers| {
            if writers.len() == KEPT_WRITERS {
                writers.remove(0);
            }
            writers.push((key, Rc::clone(&found)));
        });
    }
    found
}

/// The headers of a table that `mover` deleted because their rows moved, in the order of their places.
///
/// # Safety
/// As `headers_by`.
pub unsafe fn headers_moved_by(table: Table<'_>, mover: TransactionId) -> Vec<Written> {
    // SAFETY: by contract; the walk pins and locks the page of each tuple.
    unsafe {
        walk_for_headers(table, |item| {
            tuple::ctid(item.header()).is_moved_marker()
                && tuple::update_xid(item.header()) == mover
        })
    }
}

/// The headers that are `wanted`, in the order of their places.
///
/// # Safety
/// As `headers_by`; `wanted` must not lock buffers: each page is locked.
unsafe fn walk_for_headers(
    table: Table<'_>,
    wanted: impl Fn(PageTuple<'_>) -> bool,
) -> Vec<Written> {
    let mut found = Vec::new();
    let mut cursor = PageCursor::new(table);
    // SAFETY: the caller's contract; pages are pinned and locked while they are looked at.
    unsafe {
        for block in 0..table.blocks() {
            error::check_interrupts();
            cursor.go(block);
            cursor.locked(|page| {
                let wanted = page.tuples().filter(|&item| wanted(item));
                found.extend(wanted.filter_map(|item| as_written(item)));
            });
        }
    }
    found
}

/// What a header says, if the tuple is one.
///
/// # Safety
/// The tuple's page must be locked.
unsafe fn as_written(item: PageTuple<'_>) -> Option<Written> {
    // SAFETY: the caller's contract.
    unsafe {
        if classify(&item) != TupleKind::Header {
            return None;
        }
        match header::decode(item.body()) {
            Ok(StorageTuple::Header(header)) => Some(Written {
                tid: item.tid,
                chunk: header.chunk,
                deleted: header.deleted,
                min_time: header.min_time,
                max_time: header.max_time,
                is_replaced: tuple::ctid(item.header()).is_moved_marker()
                    && tuple::deleter(item.header()) == Some(tuple::xmin(item.header())),
            }),
            _ => None,
        }
    }
}

/// The header that took the place of the one at `at`, which `replacer` deleted: the last version of the
/// chunk that `replacer` has inserted since. None when it moved the chunk's rows into others instead.
///
/// A transaction can have inserted earlier versions too, each of which it has replaced by the next one, unless that went with its
/// subtransaction. Where it has replaced all of them, since it moved the rows of the last one, that is the one with the most rows deleted.
///
/// # Safety
/// As `headers_by`.
pub unsafe fn replacement(table: Table<'_>, at: Tid, replacer: TransactionId) -> Option<Tid> {
    // SAFETY: by contract.
    let (replaced, headers) = unsafe {
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned_at(at)?;
        let replaced = cursor.locked(|_| as_written(item))?;
        if let Some(next) = next_header::of(table, replaced.chunk, at) {
            if is_last_of(table, next, replacer) {
                return Some(next);
            }
        }
        (replaced, headers_by(table, replacer))
    };
    let later = headers.iter().filter(|header| {
        header.tid != at && header.chunk == replaced.chunk && header.deleted >= replaced.deleted
    });
    // Versions that were written for notes alone have as many rows deleted as the ones before them.
    let newest = later.max_by_key(|header| (!header.is_replaced, header.deleted));
    newest.map(|header| header.tid)
}

/// Has `writer` written the header at `at`, and not replaced it itself?
///
/// # Safety
/// As `headers_by`.
unsafe fn is_last_of(table: Table<'_>, at: Tid, writer: TransactionId) -> bool {
    // SAFETY: the caller's contract; the page is pinned and locked while it is looked at.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let found = cursor.pinned_at(at);
        found.is_some_and(|(cursor, item)| {
            cursor.locked(|_| {
                tuple::xmin(item.header()) == writer
                    && as_written(item).is_some_and(|header| !header.is_replaced)
            })
        })
    }
}
