//! Putting our functions into the places of btree's: in the copies that this process has of the unique indexes'
//! access method. A copy lasts as long as somebody has the index open, and may be a new one after that; so
//! it is looked at again by each callback of the table that comes between opening an index and using it.

use super::{insert, ordinary, scan};
use crate::catalog::keys;
use crate::pg::bare;
use crate::pg::relation::{Index, Table};
use crate::unique::bypass;
use pgrx::pg_sys;

/// Sees to it that uses of the table's unique indexes that follow come to us.
pub fn intercept(table: Table<'_>) {
    if bypass::is_bypassed() {
        return;
    }
    // SAFETY: the table is open; an index that is there is kept by the table's lock or by who has it open.
    unsafe {
        if table.class().relhasindex {
            let keys = keys::of(table);
            if keys.concern_chunks() {
                keys.unique
                    .iter()
                    .for_each(|unique| intercept_index(unique.index));
            }
        }
    }
}

/// Sees to it that the table's other indexes, but for series indexes, pass over rows that batches have collected.
pub fn arm_ordinary(table: Table<'_>) {
    // SAFETY: the table is open.
    unsafe {
        if table.class().relhasindex {
            let keys = keys::of(table);
            keys.ordinary
                .iter()
                .for_each(|&oid| ordinary::intercept(oid));
        }
    }
}

/// Puts our functions into the places of those for inserts and scans.
///
/// # Safety
/// As `with_routine`; the index must be a unique one of btree.
unsafe fn intercept_index(oid: pg_sys::Oid) {
    // SAFETY: the routine is this entry's own copy.
    unsafe {
        with_routine(oid, |_, routine| {
            (*routine).aminsert = Some(insert::insert);
            (*routine).amrescan = Some(scan::rescan);
            (*routine).amgettuple = Some(scan::get_tuple);
            (*routine).amendscan = Some(scan::end_scan);
        });
    }
}

/// Will core come to us when it enters rows into an index that it has open?
pub fn is_intercepted(oid: pg_sys::Oid) -> bool {
    let mut is_ours = false;
    // SAFETY: the table whose index it is is open.
    unsafe {
        with_routine(oid, |_, routine| {
            let own = insert::insert as *const () as usize;
            is_ours = (*routine)
                .aminsert
                .is_some_and(|function| function as usize == own);
        });
    }
    is_ours
}

/// Shows the copy of an index's routine that this process has.
///
/// # Safety
/// `oid` must be of an index of a table that is open.
pub unsafe fn with_routine(
    oid: pg_sys::Oid,
    change: impl FnOnce(Index<'_>, *mut pg_sys::IndexAmRoutine),
) {
    // SAFETY: by contract.
    unsafe {
        let index = pg_sys::RelationIdGetRelation(oid);
        if index.is_null() {
            return;
        }
        let routine = (*index).rd_indam;
        if !routine.is_null() {
            change(Index::from_ptr(index), routine);
        }
        bare::RelationClose(index);
    }
}
