//! Finding chunks: by the TID of a header, with some readers kept per transaction, and by chunk id.

use super::note_cache;
use super::notes::View;
use super::read::{Chunk, Damage};
use super::reader::Reader;
pub use super::session_cache::Began;
use super::session_cache::{self, Place, Visit};
use crate::chunk::tuple_kind::{classify, raise, TupleKind};
use crate::guc;
use crate::pg::custom_scan::is_worker;
use crate::pg::heap::Fetched;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Presence, Snapshot};
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple;
use crate::pg::{Buffer, TransactionId};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Readers that are kept whatever memory they take.
const LEAST_READERS: usize = 8;
/// Readers that are kept as long as all that they hold takes no more than twice `varve.batch_memory`: rows that moved together, or
/// that a statement changes, lie in the chunks of as many series, now in one, now in another.
const MOST_READERS: usize = 512;
/// Memory is counted each time that so many readers have come.
const WEIGHED_EVERY: u64 = 16;

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

thread_local! {
    static KEPT: PerTransaction<Readers> = PerTransaction::default();
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

/// What a scan finds at the place of a header.
pub enum Passed {
    /// One of so many rows, of which it has been told all that it asks.
    Told(u32),
    Opened(Rc<Reader>),
}

/// A scan that reads one chunk after the other, and comes back to none.
#[derive(Clone, Copy, PartialEq)]
pub struct Passing {
    pub began: Began,
    /// Headers tell what it asks, as a rule: payload beside them is not read before it is asked for.
    pub by_headers: bool,
    /// Other processes read what it does not.
    pub is_shared: bool,
    /// The header that it comes to next, if it knows.
    pub next: Option<Tid>,
}

/// The reader of the header at `at`, if its tuple is visible to `snapshot`, for a scan that says when it has left the chunk (`leave`); none is made where
/// `tell`, which gets the bytes of the header, says how many rows it has and that this is enough. The table is known to have `blocks` pages at
/// least, and its file does not get shorter: nobody is asked how long that is.
///
/// # Safety
/// As `reader_at`; the table has had so many pages since it was locked.
pub unsafe fn reader_in_passing(
    table: Table<'_>,
    blocks: u32,
    at: Tid,
    snapshot: Snapshot<'_>,
    passing: Passing,
    tell: impl FnOnce(&[u8]) -> Option<u32>,
) -> Option<Passed> {
    // SAFETY: by contract; the tuple stays pinned for the error's sake.
    unsafe {
        if at.block >= blocks {
            return None;
        }
        let fetched = Fetched::at(table, at, snapshot)?;
        if let Some(next) = passing.next.filter(|next| next.block == at.block) {
            fetched.prefetch(next.offset);
        }
        with_fetched(&fetched, |found, buffer| {
            if let Some(rows) = tell(found.body()) {
                return Passed::Told(rows);
            }
            Passed::Opened(sound_reader(
                table,
                at,
                found,
                buffer,
                View::Snapshot(snapshot),
                Stay::Short(passing),
            ))
        })
    }
}

/// Who was given this reader in passing, by a scan that began then, is done with it.
///
/// # Safety
/// `table` must be open, and the reader's.
pub unsafe fn leave(table: Table<'_>, reader: &Reader, began: Began) {
    if is_worker() {
        // There is no later query of the process. What this one comes back to, it reads again.
        reader.chunk.forget_pieces();
    }
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
    /// It has come into being since the snapshot was taken, and may have got another header already.
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
                Presence::Gone => {
                    let writer = tuple::xmin(item.header());
                    let has_come = snapshot.is_running(writer)
                        && !transaction::is_current(writer)
                        && transaction::did_commit(writer);
                    has_come.then_some(Standing::Later)
                }
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
    with_fetched(&Fetched::at(table, at, snapshot)?, body)
}

/// The same of a tuple that has been fetched.
fn with_fetched<R>(
    fetched: &Fetched<'_>,
    body: impl FnOnce(PageTuple<'_>, Buffer) -> R,
) -> Option<R> {
    let found = fetched.tuple();
    let is_header = classify(&found) == TupleKind::Header;
    is_header.then(|| body(found, fetched.buffer()))
}

/// How long somebody has use for a reader.
#[derive(Clone, Copy, PartialEq)]
enum Stay {
    /// Maybe until the transaction ends.
    Long,
    /// Until the next chunk of a scan: the session has what it keeps of them.
    Short(Passing),
}

impl Stay {
    fn visit(self) -> Visit {
        match self {
            Stay::Long => Visit {
                scan: None,
                is_only: false,
            },
            Stay::Short(passing) => Visit {
                scan: Some(passing.began),
                is_only: passing.is_shared && is_worker(),
            },
        }
    }

    fn is_by_headers(self) -> bool {
        matches!(self, Stay::Short(passing) if passing.by_headers)
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
        let opened = match session_cache::find(table, place, body) {
            Some(opened) => opened,
            None => {
                let opened = session_cache::open(table, place, body, stay.visit())?;
                if !stay.is_by_headers() {
                    opened.content.cache_beside_header(at, buffer);
                }
                opened
            }
        };
        let chunk = Chunk::open_with(table, &found, opened.content, notes)?;
        let reader = Reader::with(chunk, opened.decoded);
        if stay != Stay::Long {
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
