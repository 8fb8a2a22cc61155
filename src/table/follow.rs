//! Following rows that a sealer or merger moved while somebody waited for them. The move's transaction
//! is known from the mark that it left: the row is in a chunk that the same transaction wrote (`moves`).

use crate::chunk::chunk_cache;
use crate::chunk::slot;
use crate::chunk::written_headers;
use crate::pg::error::{self, Code};
use crate::pg::heap::heap_callback;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::pg::tuple;
use crate::table::changes;
use crate::table::locks::Request;
use crate::table::moves;
use pgrx::pg_sys;

type Outcome = pg_sys::TM_Result::Type;

/// Raises core's error for a row that left its table.
pub fn raise_moved_to_another_partition() -> ! {
    error::raise(
        Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "tuple to be locked was already moved to another partition due to concurrent update",
        "",
        "",
    )
}

/// The new place of a tail row, if `result` says that a sealer moved it.
///
/// # Safety
/// `table` must be open; `failure` as heapam filled it for the row at `at`.
pub unsafe fn after_seal(
    table: Table<'_>,
    at: Tid,
    result: Outcome,
    failure: *mut pg_sys::TM_FailureData,
) -> Option<Tid> {
    // SAFETY: by contract.
    unsafe {
        let moved = result == pg_sys::TM_Result::TM_Updated
            && tid::from_pg(&(*failure).ctid).is_moved_marker();
        if !moved {
            return None;
        }
        sealed_row(table, at, (*failure).xmax)
    }
}

/// The new place of a tail row that `mover` sealed.
fn sealed_row(table: Table<'_>, at: Tid, mover: pg_sys::TransactionId) -> Option<Tid> {
    changes::note_followed(table, mover);
    moves::of(table, mover).of_sealed(table, at)
}

/// The new place of a compressed row whose chunk `mover` merged into others. None when the row was
/// deleted before.
///
/// # Safety
/// `table` must be open; `last`, the version of the chunk's header that `mover` deleted, is protected by a
/// snapshot.
pub unsafe fn moved_row(
    table: Table<'_>,
    last: Tid,
    row: u32,
    mover: pg_sys::TransactionId,
) -> Option<Tid> {
    // SAFETY: by contract.
    unsafe {
        let any = Snapshot::any();
        let moved = chunk_cache::reader_at(table, last, any)?;
        if moved.chunk.map.contains(row) {
            return None;
        }
        changes::note_followed(table, mover);
        let values_of = || {
            let descriptor = table.descriptor();
            let natts = descriptor.len();
            (0..natts)
                .map(|at| moved.value(descriptor, row, at))
                .collect()
        };
        moves::of(table, mover).of_merged(table, Tid::of_row(last, row), values_of)
    }
}

/// Where a row is now that a cursor has returned under an older snapshot: the version that `snapshot` sees,
/// after whatever updates, seals and merges; `None` where there is none.
///
/// # Safety
/// `table` must be open, `snapshot` valid; the cursor's snapshot must still be held.
pub unsafe fn latest(table: Table<'_>, at: Tid, snapshot: Snapshot<'_>) -> Option<Tid> {
    let mut place = Place::Gone(Some(at));
    while let Place::Gone(next) = place {
        error::check_interrupts();
        let at = next?;
        place = match at.row_of() {
            Some((header, row)) => compressed_place(table, header, row, snapshot),
            None => tail_place(table, at, snapshot),
        };
    }
    match place {
        Place::Here(at) => Some(at),
        Place::Gone(_) => None,
    }
}

enum Place {
    Here(Tid),
    /// Not here any more, but perhaps there.
    Gone(Option<Tid>),
}

fn compressed_place(table: Table<'_>, header: Tid, row: u32, snapshot: Snapshot<'_>) -> Place {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let any = Snapshot::any();
        let Some(seen) = chunk_cache::reader_at(table, header, any) else {
            return Place::Gone(None);
        };
        let own = match changes::newest(&seen.chunk) {
            Some(changes::Newest::At(own)) => own,
            Some(changes::Newest::Gone) => return Place::Gone(None),
            None => header,
        };
        if let Some(reader) = chunk_cache::reader_at(table, own, snapshot) {
            if !changes::is_hidden(&reader.chunk, row, snapshot) {
                return Place::Here(Tid::of_row(own, row));
            }
            return Place::Gone(changes::successor(&reader.chunk, row));
        }
        let Some((taker, true)) = taken(table, header) else {
            return Place::Gone(None);
        };
        Place::Gone(match written_headers::replacement(table, header, taker) {
            Some(next) => Some(Tid::of_row(next, row)),
            None => moved_row(table, header, row, taker),
        })
    }
}

fn tail_place(table: Table<'_>, at: Tid, snapshot: Snapshot<'_>) -> Place {
    // SAFETY: the table is open, the snapshot valid; every TID is checked for a normal line pointer.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let Some((pinned, item)) = cursor.pinned(at, table.blocks()) else {
            return Place::Gone(None);
        };
        let mut found = item.to_heap_tuple(table.oid());
        let buffer = pinned.buffer();
        let visible = pinned.locked(|_| snapshot.sees(&mut found, buffer));
        if visible {
            return Place::Here(at);
        }
        match taken(table, at) {
            None => Place::Gone(None),
            Some((mover, true)) => Place::Gone(sealed_row(table, at, mover)),
            Some((updater, false)) => {
                let next = tuple::ctid(item.header());
                let follows = next != at
                    && cursor
                        .tuple(next, table.blocks())
                        .is_some_and(|item| tuple::xmin(item.header()) == updater);
                Place::Gone(follows.then_some(next))
            }
        }
    }
}

/// Who took the tuple at `at` away, for good or in this transaction, and whether its rows moved.
fn taken(table: Table<'_>, at: Tid) -> Option<(pg_sys::TransactionId, bool)> {
    // SAFETY: the table is open.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned(at, table.blocks())?;
        let taker = cursor.locked(|_| tuple::deleter(item.header()))?;
        let certain = transaction::is_current(taker) || transaction::did_commit(taker);
        certain.then(|| (taker, tuple::ctid(item.header()).is_moved_marker()))
    }
}

/// Locks a tail row as heapam does, but reports a row that was moved, at the end of whatever chain of
/// updates, as TM_Updated with core's marker and `item` at its last place, instead of an error.
///
/// # Safety
/// The arguments are those of the table AM's `tuple_lock`.
#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
pub unsafe fn lock_tail_row(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    snapshot: Snapshot<'_>,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
) -> Outcome {
    let find_last = pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8;
    // SAFETY: by contract.
    unsafe {
        let mut traversed = false;
        loop {
            let result = slot::as_heap(slot, || {
                heap_callback!(
                    tuple_lock,
                    table.as_ptr(),
                    item,
                    snapshot.as_ptr(),
                    slot,
                    command,
                    mode,
                    policy,
                    flags & !find_last,
                    failure,
                )
            });
            (*failure).traversed = traversed;
            let next = tid::from_pg(&(*failure).ctid);
            if result != pg_sys::TM_Result::TM_Updated
                || flags & find_last == 0
                || next.is_moved_marker()
            {
                return result;
            }
            slot::clear_slot(slot);
            if next == tid::read(item) {
                return pg_sys::TM_Result::TM_Deleted;
            }
            traversed = true;
            *item = (*failure).ctid;
            match walk_chain(table, item, command, policy, failure) {
                Step::Lock => {}
                Step::Stop(outcome) => {
                    (*failure).traversed = true;
                    return outcome;
                }
            }
        }
    }
}

/// Locks the last version of a compressed row that was updated to the tail row at `item`, as `lock_tail_row` would after
/// finding the update itself.
///
/// # Safety
/// As `lock_tail_row`.
pub unsafe fn lock_successor(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    request: Request,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
) -> Outcome {
    // SAFETY: by contract.
    unsafe {
        let Some(writer) = writer(table, tid::read(item)) else {
            return pg_sys::TM_Result::TM_Deleted;
        };
        (*failure).xmax = writer;
        match walk_chain(table, item, command, request.policy, failure) {
            Step::Lock => lock_tail_row(
                table,
                item,
                Snapshot::any(),
                slot,
                command,
                request.mode,
                request.policy,
                flags,
                failure,
            ),
            Step::Stop(outcome) => outcome,
        }
    }
}

/// Who wrote the tuple at `at`, if there is one. No page is pinned afterwards.
fn writer(table: Table<'_>, at: Tid) -> Option<pg_sys::TransactionId> {
    let mut cursor = PageCursor::new(table);
    // SAFETY: the table is open, and the tuple's page pinned by the cursor.
    unsafe {
        let found = cursor.tuple(at, table.blocks())?;
        Some(tuple::xmin(found.header()))
    }
}

enum Step {
    /// `item` is a live version: try to lock it.
    Lock,
    Stop(Outcome),
}

/// Walks a chain of updates from `item`, whose writer must be `failure.xmax`, to a version that is not
/// updated by a committed transaction. Waits for transactions in progress as `policy` says.
///
/// # Safety
/// As `lock_tail_row`.
unsafe fn walk_chain(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    command: pg_sys::CommandId,
    policy: pg_sys::LockWaitPolicy::Type,
    failure: *mut pg_sys::TM_FailureData,
) -> Step {
    // SAFETY: the caller's contract.
    unsafe {
        let mut writer = (*failure).xmax;
        let mut cursor = PageCursor::new(table);
        loop {
            error::check_interrupts();
            let at = tid::read(item);
            let Some((pinned, found)) = cursor.pinned(at, table.blocks()) else {
                return Step::Stop(pg_sys::TM_Result::TM_Deleted);
            };
            if tuple::xmin(found.header()) != writer {
                return Step::Stop(pg_sys::TM_Result::TM_Deleted);
            }
            let mut dirty = snapshot::dirty();
            let mut heap_tuple = found.to_heap_tuple(table.oid());
            let buffer = pinned.buffer();
            let live = pinned.locked(|_| {
                pg_sys::HeapTupleSatisfiesVisibility(&mut heap_tuple, &mut dirty, buffer)
            });
            if live {
                if dirty.xmax != pg_sys::InvalidTransactionId {
                    cursor.release();
                    match wait_for(table, dirty.xmax, item, policy) {
                        Some(outcome) => return Step::Stop(outcome),
                        None => continue,
                    }
                }
                let own = transaction::is_current(writer);
                if own && pg_sys::HeapTupleHeaderGetCmin(found.header()) >= command {
                    (*failure).xmax = writer;
                    (*failure).cmax = pg_sys::HeapTupleHeaderGetCmin(found.header());
                    return Step::Stop(pg_sys::TM_Result::TM_SelfModified);
                }
                return Step::Lock;
            }
            let next = tuple::ctid(found.header());
            if next == at {
                return Step::Stop(pg_sys::TM_Result::TM_Deleted);
            }
            writer = tuple::update_xid(found.header());
            if next.is_moved_marker() {
                (*failure).ctid = tid::to_pg(next);
                (*failure).xmax = writer;
                return Step::Stop(pg_sys::TM_Result::TM_Updated);
            }
            *item = tid::to_pg(next);
        }
    }
}

/// Waits for a transaction as `policy` says; an outcome instead where it must not wait.
fn wait_for(
    table: Table<'_>,
    xid: pg_sys::TransactionId,
    item: pg_sys::ItemPointer,
    policy: pg_sys::LockWaitPolicy::Type,
) -> Option<Outcome> {
    // SAFETY: the table is open.
    unsafe {
        if policy == pg_sys::LockWaitPolicy::LockWaitBlock {
            pg_sys::XactLockTableWait(
                xid,
                table.as_ptr(),
                item,
                pg_sys::XLTW_Oper::XLTW_FetchUpdated,
            );
            return None;
        }
        if pg_sys::ConditionalXactLockTableWait(xid) {
            return None;
        }
        if policy == pg_sys::LockWaitPolicy::LockWaitSkip {
            return Some(pg_sys::TM_Result::TM_WouldBlock);
        }
        error::raise(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            format!(
                "could not obtain lock on row in relation \"{}\"",
                table.name()
            ),
            "",
            "",
        )
    }
}
