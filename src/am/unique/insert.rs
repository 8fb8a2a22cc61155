//! Entering a key: `aminsert` of a unique index. A key that is in a chunk is refused before btree gets it, so
//! that nobody waits for an entry that is to go again. Then btree enters it, and settles it with the tail's:
//! from here on every inserter of the same key meets it. What has been sealed between the first look and
//! btree's is found by a second one, which is needed only if some transaction has told meanwhile that it has written chunks: a sealer does so
//! before it commits, and a batch when its chunks are there. Neither is needed for an update that keeps its row's key. A deferrable key is entered first and looked for once, without waiting; where it may be taken, core asks again when it is due.
//!
//! Errors of btree must reach core as they were raised, with constraint and all, and so must ours. They jump
//! over the unguarded frames here, which hold plain values only.

use super::enter::{self, Call};
use crate::pg::constraint;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{Index, Table};
use crate::pg::tid;
use crate::pg::unbound::LockRelationOid;
use crate::unique::find::{self, Answer, Key, Search};
use crate::unique::kept_key;
use crate::unique::key_cache::Since;
use crate::unique::tail;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// `aminsert`.
pub unsafe extern "C-unwind" fn insert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    item: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    check: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool {
    let call = Call {
        index,
        values,
        nulls,
        item,
        table,
        check,
        unchanged,
        info,
    };
    // SAFETY: called by core.
    unsafe { settle(call, enter::enter, false) }
}

/// Enters a row into the btree of an index that lacks it, and that other indexes may have: the second half of CREATE INDEX CONCURRENTLY. A row that is
/// gone by now is no duplicate, as for btree, though an old snapshot has shown it.
///
/// # Safety
/// As core calls `aminsert`.
pub unsafe fn add_missing(call: Call) -> bool {
    // SAFETY: by contract.
    unsafe { settle(call, enter::into_btree, true) }
}

/// Looks for the key in the chunks, has it entered, and looks again.
///
/// # Safety
/// As core calls `aminsert`.
unsafe fn settle(call: Call, enter: unsafe fn(Call) -> bool, may_be_gone: bool) -> bool {
    let Call {
        index,
        values,
        nulls,
        item,
        table,
        check,
        ..
    } = call;
    // SAFETY: both are open until core's call returns.
    let (opened_index, opened_table) = unsafe { (Index::from_ptr(index), Table::from_ptr(table)) };
    // SAFETY: called by core with open relations and values for each column; no value here needs dropping.
    unsafe {
        if tid::read(item) == tid::PENDING {
            // The batch enters it.
            return true;
        }
        let mut since = Since::default();
        let waits = check == pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
            && !kept_key::is_kept(opened_table, opened_index, tid::read(item));
        if waits
            && look(index, values, nulls, table, true, &mut since) == Answer::Taken
            && !(may_be_gone && is_gone(table, item))
        {
            raise_taken(index, values, nulls, table);
        }
        let unique = enter(call);
        // A check of an entry that was made before has been published long since: one look is enough.
        let existed = check == pg_sys::IndexUniqueCheck::UNIQUE_CHECK_EXISTING;
        if (existed || waits && is_stale(since))
            && look(index, values, nulls, table, true, &mut since) == Answer::Taken
            && !(may_be_gone && is_gone(table, item))
        {
            raise_taken(index, values, nulls, table);
        }
        if check != pg_sys::IndexUniqueCheck::UNIQUE_CHECK_PARTIAL {
            return unique;
        }
        let free = unique && look(index, values, nulls, table, false, &mut since) == Answer::Free;
        if !free && !opened_index.form().indimmediate {
            keep_intercepted(opened_index);
        }
        free
    }
}

/// Sees to it that the check that is made later comes to us: it opens the table first and the index then, and while we hold
/// the lock that it takes, nothing is made known in between that would have the routine with our functions replaced.
///
/// # Safety
/// `index` must be open. Inside a transaction; errors jump over the caller's frames, which must hold nothing that needs dropping.
unsafe fn keep_intercepted(index: Index<'_>) {
    // SAFETY: an error jumps over frames of plain values only.
    unsafe { LockRelationOid((*index.as_ptr()).rd_id, LockMode::RowExclusive.as_raw()) };
}

/// May new keys have come into chunks since an earlier look, of transactions that are in progress too?
#[pg_guard]
unsafe extern "C-unwind" fn is_stale(since: Since) -> bool {
    since.is_stale()
}

/// Is the key in a chunk?
#[pg_guard]
unsafe extern "C-unwind" fn look(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    table: pg_sys::Relation,
    waits: bool,
    since: *mut Since,
) -> Answer {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by `insert` with its own `since`, and with values and nulls for each column, as core gave them.
    unsafe {
        let count = index.form().indnkeyatts as usize;
        let nulls = core::slice::from_raw_parts(nulls, count);
        if nulls.contains(&true) {
            return Answer::Free;
        }
        let key = Key {
            values: core::slice::from_raw_parts(values, count),
            nulls,
            columns: (0..count).collect(),
        };
        let search = Search {
            table,
            index,
            waits,
        };
        let (answer, _) = find::find(search, &key, &mut *since);
        if answer == Answer::Taken && waits {
            // A serialization failure is the better error.
            table.check_serializable();
        }
        answer
    }
}

/// Has somebody deleted the row of the tail?
#[pg_guard]
unsafe extern "C-unwind" fn is_gone(table: pg_sys::Relation, item: pg_sys::ItemPointer) -> bool {
    // SAFETY: open, and valid, until core's call returns.
    let (table, at) = unsafe { (Table::from_ptr(table), tid::read(item)) };
    tail::is_gone(table, at)
}

/// The error that btree raises for a key that a tail row has.
#[pg_guard]
pub unsafe extern "C-unwind" fn raise_taken(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    table: pg_sys::Relation,
) {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by `insert` with values and nulls for each column, as core gave them.
    unsafe {
        let count = index.form().indnkeyatts as usize;
        let values = core::slice::from_raw_parts(values, count);
        let nulls = core::slice::from_raw_parts(nulls, count);
        constraint::raise_duplicate(table, index, values, nulls)
    }
}
