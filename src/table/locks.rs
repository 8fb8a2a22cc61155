//! Locks on compressed rows (docs/design/0010). Few rows are locked one by one, with heavyweight locks: an intention on the
//! chunk and a lock on the row, so that others lock and change other rows of the chunk. Where a transaction takes many, it
//! locks chunks: the newest header version, as a tuple, once no others have rows of the chunk locked.

use super::activity::blocker;
use super::changes::{self, Newest};
use super::lock_count;
use crate::catalog::layout;
use crate::chunk::chunk_cache;
use crate::chunk::inspect;
use crate::chunk::next_header;
use crate::chunk::notes;
use crate::chunk::read::Chunk;
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::written_headers;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken, Whole};
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::pg::tuple;
use pgrx::pg_sys;
use std::rc::Rc;
use varve_columns::tuple::header;

/// Locks on chunks that compact holds to the end of a round.
const KEPT_CHUNKS: usize = 32;

/// How to lock.
#[derive(Clone, Copy)]
pub struct Request {
    pub mode: pg_sys::LockTupleMode::Type,
    pub policy: pg_sys::LockWaitPolicy::Type,
    /// To change the row. A header that is locked for that is locked exclusively, whatever becomes of the row.
    pub to_change: bool,
}

impl Request {
    pub fn waits(self) -> bool {
        self.policy == pg_sys::LockWaitPolicy::LockWaitBlock
    }

    fn skips(self) -> bool {
        self.policy == pg_sys::LockWaitPolicy::LockWaitSkip
    }

    fn is_shared(self) -> bool {
        self.mode <= pg_sys::LockTupleMode::LockTupleShare
    }

    /// The lock on the row: the modes that heap takes on tuples, which conflict as row locks do.
    pub fn row_mode(self) -> LockMode {
        match self.mode {
            pg_sys::LockTupleMode::LockTupleKeyShare => LockMode::AccessShare,
            pg_sys::LockTupleMode::LockTupleShare => LockMode::RowShare,
            pg_sys::LockTupleMode::LockTupleNoKeyExclusive => LockMode::Exclusive,
            _ => LockMode::AccessExclusive,
        }
    }

    /// The intention to lock rows of a chunk.
    fn intention(self) -> LockMode {
        if self.is_shared() {
            LockMode::RowShare
        } else {
            LockMode::RowExclusive
        }
    }

    /// The lock on a chunk that lets nobody else have conflicting rows of it.
    fn chunk_mode(self) -> LockMode {
        if self.is_shared() {
            LockMode::Share
        } else {
            LockMode::AccessExclusive
        }
    }

    /// The lock on the header.
    fn header_mode(self) -> pg_sys::LockTupleMode::Type {
        if self.to_change {
            pg_sys::LockTupleMode::LockTupleExclusive
        } else {
            self.mode
        }
    }

    /// The same without waiting.
    fn at_once(self) -> Request {
        let policy = if self.waits() {
            pg_sys::LockWaitPolicy::LockWaitSkip
        } else {
            self.policy
        };
        Request { policy, ..self }
    }

    /// A lock is not to be had at once: raises an error unless the caller wants to skip the row.
    pub fn refuse(self, table: Table<'_>) {
        if self.skips() {
            return;
        }
        let name = table.name();
        error::raise(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on row in relation \"{name}\""),
            "",
            "",
        )
    }

    fn refused(self, table: Table<'_>) -> Locked {
        self.refuse(table);
        Locked::WouldBlock
    }
}

/// What came of an attempt to lock a row or a chunk.
pub enum Locked {
    /// Locked; this is the chunk's newest version.
    Chunk(Rc<Reader>),
    /// All its rows were deleted: by us (true) or by a transaction that has committed.
    Deleted(bool),
    /// The rows that its last version, at this TID, had left live on in chunks that this transaction wrote.
    Moved(Tid, pg_sys::TransactionId),
    WouldBlock,
}

/// Locks a row of `seen`'s chunk, or the chunk. Waits, raises or gives up as the policy says.
///
/// # Safety
/// `table` must be open for writing or row locking; `seen` is protected by a snapshot.
pub unsafe fn lock_row(table: Table<'_>, seen: &Chunk, row: u32, request: Request) -> Locked {
    let id = seen.header.chunk;
    if is_own(table, seen) {
        return lock_chunk(table, seen, request);
    }
    // A row that is locked already needs no more.
    let is_held = || {
        let tag = Tag::row(table, id, row);
        let modes = [request.row_mode(), LockMode::AccessExclusive];
        modes.into_iter().any(|mode| lock_tags::is_held(&tag, mode))
    };
    // Who skips rows that others have leaves the others some.
    if lock_count::are_many(table.oid(), id) && !request.skips() && !is_held() {
        if let Some(locked) = lock_whole_at_once(table, seen, request) {
            return locked;
        }
    }
    if lock_count::is_full() && !is_held() {
        return lock_whole(table, seen, request, request.waits())
            .unwrap_or_else(|| request.refused(table));
    }
    let (chunk, bulk) = (Tag::chunk(table, id), Tag::whole(table, Whole::Bulk));
    match lock_tags::take(&chunk, request.intention(), request.waits()) {
        Taken::No => return request.refused(table),
        // Another chunk may have the same tag.
        Taken::Again if lock_count::is_looked_at(table.oid(), id, request.is_shared()) => {}
        // Nobody can lock the header from now on without waiting for us; but somebody may have done so.
        taken => {
            if lock_tags::take(&bulk, LockMode::Share, false) != Taken::No {
                lock_tags::release(&bulk, LockMode::Share);
            } else if !is_header_free(table, seen) {
                lock_tags::release(&chunk, request.intention());
                return lock_whole(table, seen, request, request.waits())
                    .unwrap_or_else(|| request.refused(table));
            }
            if taken == Taken::New {
                lock_count::add();
            }
            lock_count::add_look(table.oid(), id, request.is_shared());
        }
    }
    // Whoever updates the row hands key share locks on by transaction ids, several of them in a multixact: VACUUM must know from now on that we may
    // be in one, as of who locks a row of a heap.
    transaction::top_id();
    transaction::may_be_in_multixacts();
    match lock_tags::take(
        &Tag::row(table, id, row),
        request.row_mode(),
        request.waits(),
    ) {
        Taken::No => return request.refused(table),
        Taken::Again => {}
        Taken::New => lock_count::add_row(table.oid(), id, row),
    }
    newest_version(table, seen, row, request)
}

/// Locks all rows of a chunk, to delete some of them, where nobody else has any of them; the chunk's newest version then.
///
/// # Safety
/// As `lock_row`.
pub unsafe fn lock_all(table: Table<'_>, seen: &Chunk) -> Option<Rc<Reader>> {
    let request = Request {
        mode: pg_sys::LockTupleMode::LockTupleExclusive,
        policy: pg_sys::LockWaitPolicy::LockWaitSkip,
        to_change: true,
    };
    let locked = if is_own(table, seen) {
        lock_chunk(table, seen, request)
    } else {
        lock_whole(table, seen, request, false)?
    };
    match locked {
        Locked::Chunk(newest) => Some(newest),
        _ => None,
    }
}

/// Has this transaction the chunk to itself? What it wrote itself nobody else can lock before it ends, nor rows of temporary tables.
fn is_own(table: Table<'_>, seen: &Chunk) -> bool {
    transaction::is_current(seen.xmin)
        || table.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
        || changes::newest(seen).is_some()
}

/// Locks the chunk in place of a row; None when others have rows of it locked, and `waits` is not. Who has the header locked is waited for without the lock on
/// the chunk, which he may want next.
fn lock_whole(table: Table<'_>, seen: &Chunk, request: Request, waits: bool) -> Option<Locked> {
    let chunk = Tag::chunk(table, seen.header.chunk);
    let is_first = begin_bulk(table);
    let mut attempt = request.at_once();
    loop {
        error::check_interrupts();
        if lock_tags::take(&chunk, request.chunk_mode(), waits) == Taken::No {
            if is_first {
                lock_tags::release(&Tag::whole(table, Whole::Bulk), LockMode::RowExclusive);
            }
            return None;
        }
        let locked = lock_chunk(table, seen, attempt);
        // The header's lock keeps others out: they see that somebody locks headers.
        lock_tags::release(&chunk, request.chunk_mode());
        if !matches!(locked, Locked::WouldBlock) {
            lock_count::add_bulk();
        } else if request.waits() && attempt.skips() {
            if !await_header(table, seen, request) {
                // Others wait for what we have of it ourselves: that is for heap to see.
                attempt = request;
            }
            continue;
        }
        return Some(locked);
    }
}

/// Waits for somebody who keeps the newest header of a chunk from being locked; false where nobody does.
fn await_header(table: Table<'_>, seen: &Chunk, request: Request) -> bool {
    let mut at = match changes::newest(seen) {
        Some(Newest::Gone) => return false,
        Some(Newest::At(tid)) => tid,
        None => seen.tid,
    };
    // SAFETY: the table is open.
    unsafe {
        loop {
            let blocker = match version(table, at, seen.header.chunk) {
                Version::Leaving(by) => Some(by),
                Version::Locked => blocker(table, at, request.header_mode()),
                Version::Replaced(by) => match written_headers::replacement(table, at, by) {
                    Some(next) => {
                        at = next;
                        continue;
                    }
                    // It was moved, and is to be looked for.
                    None => return true,
                },
                Version::Newest | Version::Deleted => return true,
            };
            if let Some(by) = blocker {
                let mut item = tid::to_pg(at);
                let why = pg_sys::XLTW_Oper::XLTW_Lock;
                pg_sys::XactLockTableWait(by, table.as_ptr(), &mut item, why);
            }
            return blocker.is_some();
        }
    }
}

/// Locks the chunk in place of a row, if nobody else has rows of it or its header locked just now.
fn lock_whole_at_once(table: Table<'_>, seen: &Chunk, request: Request) -> Option<Locked> {
    let at_once = Request {
        policy: pg_sys::LockWaitPolicy::LockWaitSkip,
        ..request
    };
    let bulk = Tag::whole(table, Whole::Bulk);
    let was_known = lock_tags::is_held(&bulk, LockMode::RowExclusive);
    match lock_whole(table, seen, at_once, false)? {
        Locked::WouldBlock => {
            // Who writes the header when he commits: nothing has been locked that others must know of.
            if !was_known {
                lock_tags::release(&bulk, LockMode::RowExclusive);
            }
            None
        }
        locked => Some(locked),
    }
}

/// Lets everybody know that this transaction locks headers; true where they did not know.
fn begin_bulk(table: Table<'_>) -> bool {
    let bulk = Tag::whole(table, Whole::Bulk);
    let is_first = !lock_tags::is_held(&bulk, LockMode::RowExclusive);
    if is_first {
        lock_tags::take(&bulk, LockMode::RowExclusive, true);
    }
    is_first
}

/// Runs `take`, which deletes the header of a chunk whose rows move, unless somebody has locked rows of the chunk. Who wants
/// some until this transaction ends waits for the lock on the chunk, or, where these are too many, for the header.
///
/// `table` must be open with the lock of compact.
pub fn with_whole_chunk(table: Table<'_>, chunk: u64, take: impl FnOnce() -> bool) -> bool {
    let tag = Tag::chunk(table, chunk);
    let keeps = lock_count::all() < KEPT_CHUNKS;
    if !keeps {
        begin_bulk(table);
    }
    if lock_tags::take(&tag, LockMode::AccessExclusive, false) == Taken::No {
        return false;
    }
    let taken = take();
    if taken && keeps {
        lock_count::add();
    } else {
        lock_tags::release(&tag, LockMode::AccessExclusive);
    }
    taken
}

/// Who moves rows of a table.
#[derive(Clone, Copy, PartialEq)]
pub enum Mover {
    Compact,
    /// A transaction that moves what it has inserted itself.
    Inserter,
}

/// Before a transaction moves rows of a table with keys, from the tail or from chunk to chunk: waits for those who look for keys
/// just now, and lets those who begin to look know until the transaction ends.
pub fn begin_moving(table: Table<'_>, who: Mover) {
    if layout::has_constraint_index(table) {
        transaction::id();
        let mode = match who {
            Mover::Compact => LockMode::Exclusive,
            Mover::Inserter => LockMode::RowExclusive,
        };
        lock_tags::take(&Tag::whole(table, Whole::Moving), mode, true);
    }
}

/// What became of a header version.
enum Version {
    Newest,
    /// The newest one, which a transaction in progress has locked.
    Locked,
    /// A transaction in progress has replaced it.
    Leaving(pg_sys::TransactionId),
    Replaced(pg_sys::TransactionId),
    Deleted,
}

/// Has nobody locked or replaced the header of a chunk, of which we have the intention to lock rows? Then nobody will before we end.
fn is_header_free(table: Table<'_>, seen: &Chunk) -> bool {
    let mut at = seen.tid;
    // SAFETY: the table is open.
    unsafe {
        loop {
            match version(table, at, seen.header.chunk) {
                Version::Newest => return true,
                Version::Replaced(by) => match written_headers::replacement(table, at, by) {
                    Some(next) => at = next,
                    None => return false,
                },
                Version::Locked | Version::Leaving(_) | Version::Deleted => return false,
            }
        }
    }
}

fn version(table: Table<'_>, at: Tid, chunk: u64) -> Version {
    const LOCK_ONLY: u16 = 0x0080;
    // SAFETY: the table is open; the page is pinned and locked while it is looked at.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let Some((cursor, item)) = cursor.pinned_at(at) else {
            return Version::Deleted;
        };
        let buffer = cursor.buffer();
        cursor.locked(|_| {
            if !is_header_of(&item, chunk) {
                return Version::Deleted;
            }
            let mut found = item.to_heap_tuple(table.oid());
            let command = transaction::command(false) + 1;
            let state = pg_sys::HeapTupleSatisfiesUpdate(&mut found, command, buffer);
            let writer = || tuple::update_xid(item.header());
            match state {
                pg_sys::TM_Result::TM_BeingModified
                    if (*item.header()).t_infomask & LOCK_ONLY == 0 =>
                {
                    Version::Leaving(writer())
                }
                pg_sys::TM_Result::TM_BeingModified => Version::Locked,
                pg_sys::TM_Result::TM_Updated | pg_sys::TM_Result::TM_SelfModified
                    if tuple::ctid(item.header()).is_moved_marker() =>
                {
                    Version::Replaced(writer())
                }
                pg_sys::TM_Result::TM_Updated
                | pg_sys::TM_Result::TM_Deleted
                | pg_sys::TM_Result::TM_SelfModified => Version::Deleted,
                _ => Version::Newest,
            }
        })
    }
}

/// Lets others know that a row of a chunk is about to be changed: the change is written only when the transaction ends.
/// The row must be locked.
pub fn announce_change(table: Table<'_>, chunk: u64, row: u32) {
    let tag = Tag::change(table, chunk, row);
    if lock_tags::take(&tag, LockMode::AccessExclusive, true) == Taken::New {
        lock_count::add();
    }
}

/// Is somebody changing a row of a chunk? Waits until nobody is if `waits` says so.
pub fn await_change(table: Table<'_>, chunk: u64, row: u32, waits: bool) -> bool {
    let tag = Tag::change(table, chunk, row);
    if lock_tags::take(&tag, LockMode::Share, false) == Taken::No {
        if waits {
            lock_tags::take(&tag, LockMode::Share, true);
            lock_tags::release(&tag, LockMode::Share);
        }
        return true;
    }
    lock_tags::release(&tag, LockMode::Share);
    false
}

/// Does anybody else hold locks on rows of a chunk, to change them? Who changes many rows locks the header instead.
pub fn has_changers(table: Table<'_>, chunk: u64) -> bool {
    lock_tags::has_conflicts(&Tag::chunk(table, chunk), LockMode::Share)
}

/// The newest committed version of the chunk of a row that we have locked. Whoever replaces it just now leaves our row alone,
/// unless he updates it and we want no more than its key.
fn newest_version(table: Table<'_>, seen: &Chunk, row: u32, request: Request) -> Locked {
    let id = seen.header.chunk;
    let mut at = seen.tid;
    // SAFETY: the table is open.
    unsafe {
        loop {
            match version(table, at, id) {
                Version::Leaving(by)
                    if request.mode == pg_sys::LockTupleMode::LockTupleKeyShare
                        && takes_row(table, at, row, by) =>
                {
                    if !request.waits() && !pg_sys::ConditionalXactLockTableWait(by) {
                        return request.refused(table);
                    }
                    let mut item = tid::to_pg(at);
                    let why = pg_sys::XLTW_Oper::XLTW_Lock;
                    pg_sys::XactLockTableWait(by, table.as_ptr(), &mut item, why);
                }
                Version::Newest | Version::Locked | Version::Leaving(_) => {
                    if request.mode == pg_sys::LockTupleMode::LockTupleKeyShare {
                        // Who has noted an update of it handed on the locks that there were then.
                        if let Some(by) = notes::changer_of(table, at, id, row) {
                            if !request.waits() && !pg_sys::ConditionalXactLockTableWait(by) {
                                return request.refused(table);
                            }
                            let mut item = tid::to_pg(at);
                            let why = pg_sys::XLTW_Oper::XLTW_Lock;
                            pg_sys::XactLockTableWait(by, table.as_ptr(), &mut item, why);
                            continue;
                        }
                    }
                    let any = Snapshot::any();
                    let newest = chunk_cache::reader_at(table, at, any)
                        .filter(|newest| newest.chunk.header.chunk == id);
                    return newest.map_or(Locked::Deleted(false), Locked::Chunk);
                }
                Version::Replaced(by) => match written_headers::replacement(table, at, by) {
                    Some(next) => at = next,
                    None => return Locked::Moved(at, by),
                },
                Version::Deleted => return Locked::Deleted(false),
            }
        }
    }
}

/// Is the row gone in the version that `by` has put in the place of the one at `at`?
fn takes_row(table: Table<'_>, at: Tid, row: u32, by: pg_sys::TransactionId) -> bool {
    // SAFETY: the table is open.
    unsafe {
        let any = Snapshot::any();
        written_headers::replacement(table, at, by)
            .and_then(|next| chunk_cache::reader_at(table, next, any))
            .is_none_or(|next| next.chunk.map.contains(row))
    }
}

/// Locks the header of a chunk of which this transaction has changed rows, to write them at its end; `at` is where the newest
/// version was when the last of them was locked.
pub fn lock_to_write(table: Table<'_>, chunk: u64, mut at: Tid) -> Option<Tid> {
    let request = Request {
        mode: pg_sys::LockTupleMode::LockTupleExclusive,
        policy: pg_sys::LockWaitPolicy::LockWaitBlock,
        to_change: true,
    };
    loop {
        error::check_interrupts();
        if let Some((pg_sys::TM_Result::TM_Ok, _)) = lock_header(table, at, chunk, request) {
            return Some(at);
        }
        // Replaced, and perhaps vacuumed, since.
        at = match next_header::of(table, chunk, at) {
            Some(next) => next,
            None => living_header(table, chunk)?,
        };
    }
}

fn is_header_of(item: &PageTuple<'_>, chunk: u64) -> bool {
    classify(item) == TupleKind::Header && header::chunk_id(item.body()) == chunk
}

/// The version of a chunk's header that nobody has replaced, after waiting for who is about to.
fn living_header(table: Table<'_>, chunk: u64) -> Option<Tid> {
    const TRIES: usize = 100;
    // SAFETY: the table is open.
    unsafe {
        for _ in 0..TRIES {
            let mut found = None;
            let mut dirty = snapshot::dirty();
            let snapshot = Snapshot::from_ptr(&mut dirty);
            inspect::visible_tuples(table, snapshot, |kind, item| {
                let body = item.body();
                if kind == TupleKind::Header && header::chunk_id(body) == chunk {
                    // Whoever is writing this tuple; the next one is judged anew.
                    found = Some((item.tid, snapshot.xmin()));
                }
            });
            match found {
                Some((at, pg_sys::InvalidTransactionId)) => return Some(at),
                Some((at, writer)) => {
                    let mut item = tid::to_pg(at);
                    let why = pg_sys::XLTW_Oper::XLTW_Lock;
                    pg_sys::XactLockTableWait(writer, table.as_ptr(), &mut item, why);
                }
                // It moved on while we walked.
                None => {}
            }
        }
    }
    None
}

/// Locks the newest version of `seen`'s chunk. Waits, raises or gives up as the policy says.
fn lock_chunk(table: Table<'_>, seen: &Chunk, request: Request) -> Locked {
    let request = Request {
        mode: request.header_mode(),
        ..request
    };
    let mut at = match changes::newest(seen) {
        Some(Newest::Gone) => return Locked::Deleted(true),
        Some(Newest::At(tid)) => tid,
        None => seen.tid,
    };
    // SAFETY: the table is open.
    unsafe {
        loop {
            let chunk = seen.header.chunk;
            let Some((result, failure)) = lock_header(table, at, chunk, request) else {
                return Locked::Deleted(false);
            };
            match result {
                pg_sys::TM_Result::TM_Ok => {
                    let any = Snapshot::any();
                    let newest = chunk_cache::reader_at(table, at, any)
                        .filter(|newest| newest.chunk.header.chunk == seen.header.chunk);
                    let Some(newest) = newest else {
                        return Locked::Deleted(false);
                    };
                    if request.mode == pg_sys::LockTupleMode::LockTupleExclusive {
                        changes::note_locked(&newest.chunk);
                    }
                    return Locked::Chunk(newest);
                }
                pg_sys::TM_Result::TM_WouldBlock => return Locked::WouldBlock,
                pg_sys::TM_Result::TM_Updated if tid::from_pg(&failure.ctid).is_moved_marker() => {
                    match written_headers::replacement(table, at, failure.xmax) {
                        Some(next) => at = next,
                        None => return Locked::Moved(at, failure.xmax),
                    }
                }
                _ => return Locked::Deleted(false),
            }
        }
    }
}

/// Locks a header of a chunk; None where none is at the place. The page is pinned from the look on, so nobody prunes it before heap takes the tuple: the header may
/// be one that no snapshot sees any more.
fn lock_header(
    table: Table<'_>,
    at: Tid,
    chunk: u64,
    request: Request,
) -> Option<(pg_sys::TM_Result::Type, pg_sys::TM_FailureData)> {
    let mut cursor = PageCursor::new(table);
    cursor
        .tuple_at(at)
        .filter(|item| is_header_of(item, chunk))?;
    // SAFETY: the table is open, and a header is there, as above.
    unsafe {
        let mut found = pg_sys::HeapTupleData {
            t_self: tid::to_pg(at),
            ..Default::default()
        };
        let mut buffer: pg_sys::Buffer = 0;
        let mut failure = pg_sys::TM_FailureData::default();
        let result = pg_sys::heap_lock_tuple(
            table.as_ptr(),
            &mut found,
            transaction::command(false) + 1,
            request.mode,
            request.policy,
            false,
            &mut buffer,
            &mut failure,
        );
        pg_sys::ReleaseBuffer(buffer);
        Some((result, failure))
    }
}

/// State of a row in the newest version of its chunk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowState {
    Live,
    /// Changed by this transaction: by command `.0`, where that is known.
    OwnChange(Option<pg_sys::CommandId>),
    Deleted,
    /// Updated by a transaction that has committed.
    Updated(Tid),
}

/// Looks a row up in a locked chunk.
pub fn row_state(newest: &Chunk, row: u32) -> RowState {
    if let Some((stamp, _)) = changes::change(newest, row) {
        return RowState::OwnChange(Some(stamp.command));
    }
    if !newest.map.contains(row) {
        return RowState::Live;
    }
    if changes::gone_before(newest, row) == Some(false) {
        return RowState::OwnChange(None);
    }
    match newest.map.successor(row) {
        Some(next) => RowState::Updated(next),
        None => RowState::Deleted,
    }
}
