//! Inserting, deleting and updating rows. Tail rows are heapam's business, except when a row
//! turns out to have been sealed; compressed rows go through `table::changes`.

use super::lock;
use super::unique::intercept::{arm_ordinary, intercept};
use crate::catalog::keys;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::chunk::write;
use crate::compact::torture;
use crate::ingest::batch;
use crate::pg::heap::heap_callback;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::Table;
use crate::pg::row_slot::RowSlot;
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::pg::wake;
use crate::rollup::watch;
use crate::table::key_columns;
use crate::table::locks::{self, Locked, Request, RowState};
use crate::table::visible;
use crate::table::{changes, crosscheck, deferred, follow, handover, stream, tail_page};
use crate::unique::{kept_key, written_row};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::rc::Rc;

type Outcome = pg_sys::TM_Result::Type;

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_insert(
    table: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    options: i32,
    bulk: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with a filled slot.
    unsafe {
        watch::inserted(table, Slot::from_ptr(slot));
        if batch::collects(table, command) || batch::fills(table, command, options) {
            intercept(table);
            arm_ordinary(table);
            batch::collect(table, Slot::from_ptr(slot), command, options);
            (*slot).tts_tid = tid::to_pg(tid::PENDING);
            (*slot).tts_tableOid = table.oid();
        } else {
            // A bulk load goes on with a page of its own.
            let is_alone = bulk.is_null();
            let options = match is_alone {
                true => tail_page::choose(table, options),
                false => options,
            };
            intercept(table);
            heap_callback!(tuple_insert, table.as_ptr(), slot, command, options, bulk);
            note_tail_row(table, slot);
            if is_alone {
                tail_page::note(table, tid::from_pg(&(*slot).tts_tid));
            }
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_insert_speculative(
    table: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    options: i32,
    bulk: *mut pg_sys::BulkInsertStateData,
    token: u32,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with a filled slot.
    unsafe {
        intercept(table);
        watch::inserted(table, Slot::from_ptr(slot));
        heap_callback!(
            tuple_insert_speculative,
            table.as_ptr(),
            slot,
            command,
            options,
            bulk,
            token
        );
        note_tail_row(table, slot);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn multi_insert(
    table: pg_sys::Relation,
    slots: *mut *mut pg_sys::TupleTableSlot,
    count: i32,
    command: pg_sys::CommandId,
    options: i32,
    bulk: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with `count` filled slots. Only COPY calls it.
    unsafe {
        intercept(table);
        wake::at_statement();
        for at in 0..count as usize {
            watch::inserted(table, Slot::from_ptr(*slots.add(at)));
        }
        if batch::collects_all(table, command) {
            arm_ordinary(table);
            for at in 0..count as usize {
                let slot = *slots.add(at);
                batch::collect(table, Slot::from_ptr(slot), command, options);
                (*slot).tts_tid = tid::to_pg(tid::PENDING);
                (*slot).tts_tableOid = table.oid();
            }
        } else {
            pg_sys::heap_multi_insert(table.as_ptr(), slots, count, command, options, bulk);
            for at in 0..count as usize {
                note_tail_row(table, *slots.add(at));
            }
        }
    }
}

/// A row has come to the tail.
///
/// # Safety
/// `table` must be open; `slot` must be live, and have the TID that its row has got there.
unsafe fn note_tail_row(table: Table<'_>, slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: the callers' contract.
    unsafe {
        let at = tid::from_pg(&(*slot).tts_tid);
        write::expect_real(table, at);
        written_row::count_one();
        torture::note(table, at);
        wake::note_rows(1);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn finish_bulk_insert(table: pg_sys::Relation, _options: i32) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    batch::finish_table(table)
}

/// What an attempt to get hold of a compressed row came to, in core's terms.
enum Held {
    Row(Rc<Reader>, u32),
    Not(Outcome),
}

/// Locks a compressed row, to change it, and looks it up in its chunk's newest version.
///
/// # Safety
/// `table` must be open for writing, and a snapshot be active that keeps the chunk of `at` where it is; `failure` must point to what core has its
/// callback fill. Within a guarded entry point.
unsafe fn hold(
    table: Table<'_>,
    at: Tid,
    mode: pg_sys::LockTupleMode::Type,
    command: pg_sys::CommandId,
    wait: bool,
    failure: *mut pg_sys::TM_FailureData,
) -> Held {
    let request = Request {
        mode,
        policy: if wait {
            pg_sys::LockWaitPolicy::LockWaitBlock
        } else {
            pg_sys::LockWaitPolicy::LockWaitSkip
        },
        to_change: true,
    };
    // SAFETY: the caller's contract.
    unsafe {
        (*failure).ctid = tid::to_pg(at);
        (*failure).xmax = pg_sys::InvalidTransactionId;
        (*failure).cmax = pg_sys::InvalidCommandId;
        (*failure).traversed = false;
        let any = Snapshot::any();
        let Some((seen, row)) = visible::visible_row(table, at, any) else {
            return Held::Not(pg_sys::TM_Result::TM_Deleted);
        };
        let newest = match locks::lock_row(table, &seen.chunk, row, request) {
            Locked::Chunk(newest) => newest,
            Locked::Deleted(own) => {
                (*failure).cmax = command;
                return Held::Not(if own {
                    pg_sys::TM_Result::TM_SelfModified
                } else {
                    pg_sys::TM_Result::TM_Deleted
                });
            }
            Locked::WouldBlock => return Held::Not(pg_sys::TM_Result::TM_BeingModified),
            Locked::Moved(last, mover) => match follow::moved_row(table, last, row, mover) {
                Some(next) => return hold(table, next, mode, command, wait, failure),
                None => return Held::Not(pg_sys::TM_Result::TM_Deleted),
            },
        };
        (*failure).xmax = newest.chunk.xmin;
        match locks::row_state(&newest.chunk, row) {
            RowState::Live => {
                if changes::newest(&newest.chunk).is_none() {
                    changes::note_row_locked(&newest.chunk);
                    if keys::announces_changes(table) {
                        locks::announce_change(table, newest.chunk.header.chunk, row);
                    }
                }
                Held::Row(newest, row)
            }
            RowState::OwnChange(by) => {
                (*failure).xmax = transaction::id();
                (*failure).cmax = by.unwrap_or(command);
                Held::Not(pg_sys::TM_Result::TM_SelfModified)
            }
            RowState::Deleted => Held::Not(pg_sys::TM_Result::TM_Deleted),
            RowState::Updated(next) => {
                (*failure).ctid = tid::to_pg(next);
                Held::Not(pg_sys::TM_Result::TM_Updated)
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_delete(
    table: pg_sys::Relation,
    item: pg_sys::ItemPointer,
    command: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    transaction: pg_sys::Snapshot,
    wait: bool,
    failure: *mut pg_sys::TM_FailureData,
    changing_partition: bool,
) -> Outcome {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: open, or valid, until core's call returns.
    let transaction = unsafe { Snapshot::from_ptr(transaction) };
    // SAFETY: called by core.
    unsafe {
        let known = tid::read(item);
        let mut at = known;
        if !at.is_virtual() {
            if !handover::lock_origin(table, at, LockMode::AccessExclusive, wait) {
                return pg_sys::TM_Result::TM_BeingModified;
            }
            let result = heap_callback!(
                tuple_delete,
                table.as_ptr(),
                item,
                command,
                snapshot.as_ptr(),
                transaction.as_ptr(),
                wait,
                failure,
                changing_partition,
            );
            match follow::after_seal(table, at, result, failure) {
                Some(next) => at = next,
                None => {
                    if result == pg_sys::TM_Result::TM_Ok {
                        watch::removed_from_tail(table, at);
                    }
                    return result;
                }
            }
        }
        let exclusive = pg_sys::LockTupleMode::LockTupleExclusive;
        match hold(table, at, exclusive, command, wait, failure) {
            Held::Row(reader, row)
                if crosscheck::passes(table, known, &reader, row, transaction) =>
            {
                deferred::keep_for_triggers(table);
                watch::removed(table, &reader, row);
                table.check_serializable();
                let successor = changing_partition.then_some(Tid::MOVED);
                if stream::is_streamed(table, command) {
                    stream::delete(table, &reader, row, command, successor);
                } else {
                    changes::record(&reader.chunk, row, command, command, successor);
                }
                pg_sys::TM_Result::TM_Ok
            }
            Held::Row(..) => pg_sys::TM_Result::TM_Updated,
            Held::Not(outcome) => outcome,
        }
    }
}

#[cfg(feature = "pg15")]
type UpdateIndexes = bool;
#[cfg(feature = "pg17")]
type UpdateIndexes = pg_sys::TU_UpdateIndexes::Type;

#[cfg(feature = "pg15")]
const ALL_INDEXES: UpdateIndexes = true;
#[cfg(feature = "pg17")]
const ALL_INDEXES: UpdateIndexes = pg_sys::TU_UpdateIndexes::TU_All;

#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_update(
    table: pg_sys::Relation,
    item: pg_sys::ItemPointer,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    transaction: pg_sys::Snapshot,
    wait: bool,
    failure: *mut pg_sys::TM_FailureData,
    mode: *mut pg_sys::LockTupleMode::Type,
    update_indexes: *mut UpdateIndexes,
) -> Outcome {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: open, or valid, until core's call returns.
    let transaction = unsafe { Snapshot::from_ptr(transaction) };
    // SAFETY: called by core.
    unsafe {
        intercept(table);
        let known = tid::read(item);
        let mut at = known;
        if !at.is_virtual() {
            let result = heap_callback!(
                tuple_update,
                table.as_ptr(),
                item,
                slot,
                command,
                snapshot.as_ptr(),
                transaction.as_ptr(),
                wait,
                failure,
                mode,
                update_indexes,
            );
            match follow::after_seal(table, at, result, failure) {
                Some(next) => at = next,
                None => {
                    if result == pg_sys::TM_Result::TM_Ok {
                        watch::removed_from_tail(table, at);
                        watch::inserted(table, Slot::from_ptr(slot));
                        note_tail_row(table, slot);
                        note_kept_key(table, slot, *mode);
                        after_tail_update(table, at, tid::from_pg(&(*slot).tts_tid), *mode);
                    }
                    return result;
                }
            }
        }
        *mode = if key_columns::changes_key(table, at, Slot::from_ptr(slot)) {
            pg_sys::LockTupleMode::LockTupleExclusive
        } else {
            pg_sys::LockTupleMode::LockTupleNoKeyExclusive
        };
        match hold(table, at, *mode, command, wait, failure) {
            Held::Row(reader, row)
                if crosscheck::passes(table, known, &reader, row, transaction) =>
            {
                deferred::keep_for_triggers(table);
                watch::removed(table, &reader, row);
                watch::inserted(table, Slot::from_ptr(slot));
                // The new version is a tail row.
                let is_streamed = stream::is_streamed(table, command);
                if is_streamed {
                    let new = RowSlot::from_ptr(slot);
                    stream::update(table, &reader, row, command, new);
                } else {
                    heap_callback!(
                        tuple_insert,
                        table.as_ptr(),
                        slot,
                        command,
                        0,
                        core::ptr::null_mut()
                    );
                    let next = tid::from_pg(&(*slot).tts_tid);
                    changes::record(&reader.chunk, row, command, command, Some(next));
                }
                if changes::newest(&reader.chunk).is_none() {
                    let next = tid::from_pg(&(*slot).tts_tid);
                    handover::note_version(table, next, reader.chunk.header.chunk, row);
                }
                note_tail_row(table, slot);
                if !is_streamed {
                    note_kept_key(table, slot, *mode);
                }
                if lock::was_locked_lately(table, at) {
                    slot::show_own_lock(slot);
                }
                *update_indexes = ALL_INDEXES;
                pg_sys::TM_Result::TM_Ok
            }
            Held::Row(..) => pg_sys::TM_Result::TM_Updated,
            Held::Not(outcome) => outcome,
        }
    }
}

/// Tells those who enter the row's keys that an update has kept them.
///
/// # Safety
/// As `note_tail_row`.
unsafe fn note_kept_key(
    table: Table<'_>,
    slot: *mut pg_sys::TupleTableSlot,
    mode: pg_sys::LockTupleMode::Type,
) {
    if mode == pg_sys::LockTupleMode::LockTupleNoKeyExclusive {
        // SAFETY: the caller's contract.
        unsafe { kept_key::note(table, tid::from_pg(&(*slot).tts_tid)) };
    }
}

/// Lets a newer version of a new version of a compressed row have the row's locks.
fn after_tail_update(table: Table<'_>, at: Tid, next: Tid, mode: pg_sys::LockTupleMode::Type) {
    if mode == pg_sys::LockTupleMode::LockTupleExclusive {
        handover::lock_origin(table, at, LockMode::AccessExclusive, true);
    }
    handover::note_next_version(table, at, next);
}
