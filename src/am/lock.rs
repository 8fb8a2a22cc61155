//! Locking rows: SELECT FOR UPDATE and its kin, ON CONFLICT, triggers and foreign keys. Rows of the tail are locked by heapam, compressed ones by
//! `table::locks`; both are followed where they were updated, sealed or merged meanwhile.

use super::past_delete;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::pg::relation::Table;
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::table::locks::{self, Locked, Request, RowState};
use crate::table::visible;
use crate::table::{changes, follow, handover, key_columns};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

type Outcome = pg_sys::TM_Result::Type;

/// Rows that are remembered: those of statements within the one that updates, in triggers say, come between its lock and its update.
const LATELY: usize = 8;

/// A compressed row that was locked: the transaction by `transaction::local_id`, the table, and the row.
type Row = (u32, pg_sys::Oid, Tid);

thread_local! {
    /// Those that the session has locked last, and which of them is the oldest.
    static LOCKED: Cell<([Row; LATELY], usize)> =
        const { Cell::new(([(0, pg_sys::InvalidOid, Tid::MOVED); LATELY], 0)) };
}

fn remember(table: Table<'_>, at: Tid) {
    let (mut rows, oldest) = LOCKED.get();
    rows[oldest] = (transaction::local_id(), table.oid(), at);
    LOCKED.set((rows, (oldest + 1) % LATELY));
}

/// Is this compressed row one of the last that the transaction has locked? So it is for who updates it by ON CONFLICT.
pub fn was_locked_lately(table: Table<'_>, at: Tid) -> bool {
    let (rows, _) = LOCKED.get();
    rows.contains(&(transaction::local_id(), table.oid(), at))
}

#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_lock(
    table: pg_sys::Relation,
    item: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
) -> Outcome {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    let request = Request {
        mode,
        policy,
        to_change: false,
    };
    // SAFETY: called by core with a slot of ours.
    unsafe {
        // Who has materialised the row before, as pglogical does, finds a heap tuple in the slot again.
        let held_tuple = slot::holds_tuple(slot);
        let result = lock(
            table, item, snapshot, slot, command, request, flags, failure,
        );
        if held_tuple && result == pg_sys::TM_Result::TM_Ok {
            past_delete::warn(table, item);
            slot::form_row(slot);
        }
        if result == pg_sys::TM_Result::TM_Ok && tid::read(item).is_virtual() {
            remember(table, tid::read(item));
        }
        result
    }
}

/// Locks a row, of the tail or compressed.
///
/// # Safety
/// The arguments are those of the table AM's `tuple_lock`, with a slot of ours. Within a guarded entry point.
#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
unsafe fn lock(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    snapshot: Snapshot<'_>,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    request: Request,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
) -> Outcome {
    // SAFETY: the caller's contract.
    unsafe {
        (*failure).traversed = false;
        if tid::read(item).is_virtual() {
            return lock_compressed(table, item, slot, command, request, flags, failure);
        }
        let own = tid::read(item);
        if !handover::lock_origin(table, own, request.row_mode(), request.waits()) {
            request.refuse(table);
            return pg_sys::TM_Result::TM_WouldBlock;
        }
        let (mode, policy) = (request.mode, request.policy);
        let result = follow::lock_tail_row(
            table, item, snapshot, slot, command, mode, policy, flags, failure,
        );
        after_tail_lock(table, item, slot, command, request, flags, failure, result)
    }
}

/// Goes on with a tail row that turned out to have been sealed.
///
/// # Safety
/// As `lock`; `result` and `failure` must be what `follow::lock_tail_row` or `follow::lock_successor` has left for `item`.
#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
unsafe fn after_tail_lock(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    request: Request,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
    result: Outcome,
) -> Outcome {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(next) = follow::after_seal(table, tid::read(item), result, failure) {
            *item = tid::to_pg(next);
            return lock_compressed(table, item, slot, command, request, flags, failure);
        }
        let left = result == pg_sys::TM_Result::TM_Updated
            && tid::from_pg(&(*failure).ctid).is_moved_marker();
        if left && flags & pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8 != 0 {
            follow::raise_moved_to_another_partition();
        }
        result
    }
}

/// Locks the key of a compressed row that others have updated, all but its key: the row as the caller knows it will do, if
/// its new version can be locked as well.
///
/// # Safety
/// As `lock`; `row` must be one of `old`, the newest version of its chunk, and `next` where it was updated to.
unsafe fn locks_key(
    table: Table<'_>,
    old: &Reader,
    row: u32,
    next: Tid,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    request: Request,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        if request.mode != pg_sys::LockTupleMode::LockTupleKeyShare || next == Tid::MOVED {
            return false;
        }
        let mut item = tid::to_pg(next);
        let mut failure = pg_sys::TM_FailureData::default();
        let any = Snapshot::any();
        let result = follow::lock_tail_row(
            table,
            &mut item,
            any,
            slot,
            command,
            request.mode,
            request.policy,
            // Nor may the versions go that have come after it.
            pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS as u8,
            &mut failure,
        );
        let is_last = tid::from_pg(&failure.ctid).is_moved_marker();
        let result = if result == pg_sys::TM_Result::TM_Updated && !is_last {
            // One of those is gone, perhaps into a chunk: the last one is what must stay.
            let last = pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8;
            follow::lock_successor(table, &mut item, slot, command, request, last, &mut failure)
        } else {
            result
        };
        let result = match follow::after_seal(table, tid::read(&mut item), result, &mut failure) {
            Some(sealed) => {
                item = tid::to_pg(sealed);
                lock_compressed(table, &mut item, slot, command, request, 0, &mut failure)
            }
            None => result,
        };
        result == pg_sys::TM_Result::TM_Ok
            && !key_columns::differs_in_key(table, old, row, Slot::from_ptr(slot))
    }
}

/// Locks the chunk of a compressed row, following an update when the caller wants that. `failure` says whether one has been followed
/// already: who asked has to look at the row again then.
///
/// # Safety
/// As `lock`, with the TID of a compressed row in `item`; `traversed` of `failure` must be set.
unsafe fn lock_compressed(
    table: Table<'_>,
    item: pg_sys::ItemPointer,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    request: Request,
    flags: u8,
    failure: *mut pg_sys::TM_FailureData,
) -> Outcome {
    let follow_updates = flags & pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8 != 0;
    // SAFETY: the caller's contract.
    unsafe {
        let at = tid::read(item);
        let any = Snapshot::any();
        (*failure).ctid = *item;
        let Some((seen, row)) = visible::visible_row(table, at, any) else {
            return pg_sys::TM_Result::TM_Deleted;
        };
        let newest = match locks::lock_row(table, &seen.chunk, row, request) {
            Locked::Chunk(newest) => newest,
            Locked::Deleted(true) => {
                (*failure).cmax = command;
                return pg_sys::TM_Result::TM_SelfModified;
            }
            Locked::Deleted(false) => return pg_sys::TM_Result::TM_Deleted,
            Locked::WouldBlock => return pg_sys::TM_Result::TM_WouldBlock,
            Locked::Moved(last, mover) => match follow::moved_row(table, last, row, mover) {
                Some(next) => {
                    *item = tid::to_pg(next);
                    return lock_compressed(table, item, slot, command, request, flags, failure);
                }
                None => return pg_sys::TM_Result::TM_Deleted,
            },
        };
        (*failure).xmax = newest.chunk.xmin;
        match locks::row_state(&newest.chunk, row) {
            RowState::Live => {
                slot::store_row(slot, &newest, row, table.oid());
                pg_sys::TM_Result::TM_Ok
            }
            RowState::OwnChange(_) if follow_updates && (*failure).traversed => {
                // Who comes from an older version is told of the last one.
                let Some(next) = changes::successor(&newest.chunk, row) else {
                    return pg_sys::TM_Result::TM_Deleted;
                };
                *item = tid::to_pg(next);
                let result =
                    follow::lock_successor(table, item, slot, command, request, flags, failure);
                (*failure).traversed = true;
                result
            }
            RowState::OwnChange(by) => {
                (*failure).xmax = transaction::id();
                (*failure).cmax = by.unwrap_or(command);
                if let Some(next) = changes::successor(&newest.chunk, row) {
                    (*failure).ctid = tid::to_pg(next);
                }
                pg_sys::TM_Result::TM_SelfModified
            }
            RowState::Deleted => pg_sys::TM_Result::TM_Deleted,
            RowState::Updated(next)
                if locks_key(table, &newest, row, next, slot, command, request) =>
            {
                slot::store_row(slot, &newest, row, table.oid());
                pg_sys::TM_Result::TM_Ok
            }
            RowState::Updated(next) if next == Tid::MOVED => {
                if follow_updates {
                    follow::raise_moved_to_another_partition();
                }
                (*failure).ctid = tid::to_pg(next);
                pg_sys::TM_Result::TM_Updated
            }
            RowState::Updated(next) if follow_updates => {
                *item = tid::to_pg(next);
                let result =
                    follow::lock_successor(table, item, slot, command, request, flags, failure);
                (*failure).traversed = true;
                after_tail_lock(table, item, slot, command, request, flags, failure, result)
            }
            RowState::Updated(next) => {
                (*failure).ctid = tid::to_pg(next);
                pg_sys::TM_Result::TM_Updated
            }
        }
    }
}
