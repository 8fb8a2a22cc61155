//! Size estimates and the like: callbacks that concern the table as a whole.

use crate::catalog::chunk_marker;
use crate::catalog::marker_file::File;
use crate::chunk::density;
use crate::pg::heap::heap_callback;
use crate::pg::relation::Table;
use crate::pg::wake;
use crate::rollup::{truncate, watch};
use crate::table::{changes, flush, quiet};
use pgrx::pg_sys;
use pgrx::prelude::*;

#[cfg(feature = "pg15")]
type FileName = pg_sys::RelFileNode;
#[cfg(feature = "pg17")]
type FileName = pg_sys::RelFileLocator;

/// SET TABLESPACE: the same bytes under another name.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_copy_data(table: pg_sys::Relation, to: *const FileName) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with the table locked exclusively.
    unsafe {
        flush::before_rewrite(table);
        #[cfg(feature = "pg15")]
        let (number, tablespace) = ((*to).relNode, (*to).spcNode);
        #[cfg(feature = "pg17")]
        let (number, tablespace) = ((*to).relNumber, (*to).spcOid);
        let to_file = File::at(number, tablespace, (*table.as_ptr()).rd_backend);
        chunk_marker::carry(table, to_file);
        heap_callback!(relation_copy_data, table.as_ptr(), to);
    }
}

/// A new file for a table: the first, or an empty one for TRUNCATE, whoever truncates.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_set_new_file(
    table: pg_sys::Relation,
    name: *const FileName,
    persistence: core::ffi::c_char,
    freeze_xid: *mut pg_sys::TransactionId,
    min_multi: *mut pg_sys::MultiXactId,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with the table locked exclusively.
    unsafe {
        watch::emptied(table);
        #[cfg(feature = "pg15")]
        let number = (*name).relNode;
        #[cfg(feature = "pg17")]
        let number = (*name).relNumber;
        if number != table.file_number() {
            chunk_marker::drop_marker(table);
            truncate::note(table.oid());
        }
        #[cfg(feature = "pg15")]
        heap_callback!(
            relation_set_new_filenode,
            table.as_ptr(),
            name,
            persistence,
            freeze_xid,
            min_multi
        );
        #[cfg(feature = "pg17")]
        heap_callback!(
            relation_set_new_filelocator,
            table.as_ptr(),
            name,
            persistence,
            freeze_xid,
            min_multi
        );
    }
}

/// TRUNCATE of a table whose file this transaction has made.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_nontransactional_truncate(table: pg_sys::Relation) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with the table locked exclusively.
    unsafe {
        watch::emptied(table);
        truncate::note(table.oid());
        changes::forget(table);
        heap_callback!(relation_nontransactional_truncate, table.as_ptr());
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn relation_toast_am(_table: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: open, or valid, until core's call returns.
    let _table = unsafe { Table::from_ptr(_table) };
    // Values too large for a tail row are toasted as heap does it.
    pg_sys::HEAP_TABLE_AM_OID
}

/// How many pages heap says that a table has which has fewer, and was never looked at: it may soon have more (`tableam.c`).
const PAGES_OF_NEW: pg_sys::BlockNumber = 10;

/// What heap says, except for the number of rows of a table with chunks.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_estimate_size(
    table: pg_sys::Relation,
    widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    tuples: *mut f64,
    all_visible: *mut f64,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by the planner with an open relation.
    unsafe {
        super::unique::intercept::intercept(table);
        heap_callback!(
            relation_estimate_size,
            table.as_ptr(),
            widths,
            pages,
            tuples,
            all_visible
        );
        // To ask for the length of a file is a call of the system, and heap has just asked.
        let blocks = match *pages {
            PAGES_OF_NEW => table.blocks(),
            counted => counted,
        };
        if let Some(rows) = super::estimate::rows(table, blocks) {
            *pages = blocks;
            *tuples = rows.round();
        }
    }
}

/// Heap's own vacuum, which counts tuples; `pg_class` is to say how many rows there are.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_vacuum(
    table: pg_sys::Relation,
    params: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with a locked table in a transaction of its own.
    unsafe {
        quiet::unsettle(table);
        heap_callback!(relation_vacuum, table.as_ptr(), params, strategy);
        density::store_rows(table);
        wake::after_visit();
    }
}
