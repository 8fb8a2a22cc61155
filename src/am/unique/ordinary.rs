//! Ordinary indexes cover the tail, so a row that goes into a chunk has no entry in them (docs/design/0023). Core asks for one all the same, of a
//! row that a batch has collected and that has no place yet: nothing is entered then. What of a batch ends in the tail is entered
//! when it is written (`ingest::ordinary`).
//!
//! Errors of the index's own function jump over the unguarded frame here, which holds plain values only.

use super::intercept::with_routine;
use crate::pg::relation::{Index, Table};
use crate::pg::tid;
use pgrx::pg_sys;
use std::cell::RefCell;

type Insert = unsafe extern "C-unwind" fn(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    item: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    check: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool;

thread_local! {
    /// The access methods that were met, and their own functions.
    static METHODS: RefCell<Vec<(pg_sys::Oid, Insert)>> = const { RefCell::new(Vec::new()) };
}

/// Puts our function into the place of the index's own, in the copy of the routine that this process has.
///
/// # Safety
/// As `with_routine`; the index must be none of those that `intercept::intercept` concerns, nor a series index.
pub unsafe fn intercept(oid: pg_sys::Oid) {
    // SAFETY: by contract.
    unsafe {
        with_routine(oid, |index, routine| {
            let Some(own) = (*routine).aminsert else {
                return;
            };
            if own as usize == insert as *const () as usize {
                return;
            }
            let method = index.class().relam;
            METHODS.with_borrow_mut(|methods| {
                if !methods.iter().any(|known| known.0 == method) {
                    methods.push((method, own));
                }
            });
            (*routine).aminsert = Some(insert);
        });
    }
}

fn own_function(method: pg_sys::Oid) -> Option<Insert> {
    METHODS.with_borrow(|methods| {
        let found = methods.iter().find(|known| known.0 == method);
        found.map(|known| known.1)
    })
}

unsafe extern "C-unwind" fn insert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    item: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    check: pg_sys::IndexUniqueCheck::Type,
    unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core, or by who inserts as core does; an armed index's method was noted.
    unsafe {
        if tid::read(item) == tid::PENDING {
            return false;
        }
        match own_function(index.class().relam) {
            Some(own) => own(
                index.as_ptr(),
                values,
                nulls,
                item,
                table.as_ptr(),
                check,
                unchanged,
                info,
            ),
            None => false,
        }
    }
}
