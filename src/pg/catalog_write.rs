//! Rows of tables of ours that are kept like catalogs: heaps with plain indexes, without triggers.

use super::relation::{Index, Table};
use super::transaction;
use super::tuple::Formed;
use pgrx::pg_sys::{self, Datum, ItemPointerData};

/// Inserts a row with its entries in all indexes.
///
/// # Safety
/// There must be a value of the right type for each column; the table must be open for writing.
pub unsafe fn insert(table: Table<'_>, values: &mut [Datum], nulls: &mut [bool]) {
    // SAFETY: by contract.
    unsafe {
        let tuple = Formed::new(table.descriptor(), values, nulls);
        pg_sys::CatalogTupleInsert(table.as_ptr(), tuple.as_ptr());
    }
}

/// Inserts a row that logical decoding does not see, into a table with one index over its first columns.
///
/// # Safety
/// As `insert`; the index must be open for writing.
pub unsafe fn insert_unseen(
    table: Table<'_>,
    index: Index<'_>,
    values: &mut [Datum],
    nulls: &mut [bool],
) {
    // SAFETY: by contract.
    unsafe {
        let tuple = Formed::new(table.descriptor(), values, nulls);
        pg_sys::heap_insert(
            table.as_ptr(),
            tuple.as_ptr(),
            transaction::command(true),
            pg_sys::HEAP_INSERT_NO_LOGICAL as i32,
            core::ptr::null_mut(),
        );
        pg_sys::index_insert(
            index.as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &mut (*tuple.as_ptr()).t_self,
            table.as_ptr(),
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
            false,
            pg_sys::BuildIndexInfo(index.as_ptr()),
        );
    }
}

/// Puts a row in the place of the one that it was made from, with its entries. It raises an error where somebody else has changed that.
///
/// # Safety
/// `row` must come from a row of the table, which is open for writing.
pub unsafe fn update(table: Table<'_>, row: &Formed) {
    // SAFETY: by contract.
    unsafe {
        let tuple = row.as_ptr();
        pg_sys::CatalogTupleUpdate(table.as_ptr(), &mut (*tuple).t_self, tuple);
    }
}

/// Deletes a row. It raises an error where somebody else has changed it.
///
/// # Safety
/// `place` must be that of a row of the table, which is open for writing.
pub unsafe fn delete(table: Table<'_>, mut place: ItemPointerData) {
    // SAFETY: by contract.
    unsafe { pg_sys::simple_heap_delete(table.as_ptr(), &mut place) }
}

/// Deletes a row, if nobody else has done so; waits for whoever is about to.
///
/// # Safety
/// As `delete`; the row must be one that this command sees.
pub unsafe fn delete_if_there(table: Table<'_>, mut place: ItemPointerData) {
    // SAFETY: by contract.
    unsafe {
        let mut failure = pg_sys::TM_FailureData::default();
        pg_sys::heap_delete(
            table.as_ptr(),
            &mut place,
            transaction::command(true),
            core::ptr::null_mut(),
            true,
            &mut failure,
            false,
        );
    }
}
