//! What a series index cannot be, said when it is created.

use crate::catalog::layout;
use crate::pg::relation::{self, Index, Table};
use crate::pg::types as pg_types;
use crate::series_index::types::{self, refuse, SHAPE};
use pgrx::pg_sys;

/// Raises an error where `index` cannot be a series index of `table`.
///
/// # Safety
/// Both must be open; `info` describes the index.
pub unsafe fn check(table: Table<'_>, index: Index<'_>, info: *mut pg_sys::IndexInfo) {
    // SAFETY: by contract.
    unsafe {
        check_kind(info);
        let count = (*info).ii_NumIndexKeyAttrs as usize;
        let attributes = table.attributes();
        for at in 0..count {
            let number = (*info).ii_IndexAttrNumbers[at];
            if number <= 0 {
                refuse(
                    "series index on an expression is not supported",
                    "Chunks are sorted by the values of their columns.",
                    SHAPE,
                );
            }
            check_order(index, at);
            let attribute = &attributes[number as usize - 1];
            if at + 1 == count {
                check_time(table, info, attribute);
            } else {
                check_key(index, at, attribute);
            }
        }
    }
}

/// # Safety
/// `info` must describe an index.
unsafe fn check_kind(info: *mut pg_sys::IndexInfo) {
    // SAFETY: the caller's contract.
    unsafe {
        if !(*info).ii_Predicate.is_null() {
            refuse(
                "partial series index is not supported",
                "A chunk is entered as a whole.",
                "Leave out the WHERE clause.",
            );
        }
        if !(*info).ii_ExclusionOps.is_null() {
            refuse(
                "series index cannot enforce an exclusion constraint",
                "A chunk is entered as a whole, not row by row.",
                "",
            );
        }
    }
}

/// # Safety
/// `index` must be open, and have a key column `at`, from 0.
unsafe fn check_order(index: Index<'_>, at: usize) {
    // SAFETY: the caller's contract; rd_indoption has an entry for each key column.
    let option = unsafe { *(*index.as_ptr()).rd_indoption.add(at) } as u32;
    if option & (pg_sys::INDOPTION_DESC | pg_sys::INDOPTION_NULLS_FIRST) != 0 {
        refuse(
            "series index with DESC or NULLS FIRST is not supported",
            "Chunks are sorted in ascending order.",
            "Leave out the order: the index is read in both directions.",
        );
    }
}

/// # Safety
/// As `check`; `attribute` must be one of the table.
unsafe fn check_time(
    table: Table<'_>,
    info: *mut pg_sys::IndexInfo,
    attribute: &pg_sys::FormData_pg_attribute,
) {
    // SAFETY: the caller's contract; a syscache look-up.
    unsafe {
        if !layout::is_time_type(pg_types::base(attribute.atttypid)) {
            let count = (*info).ii_NumIndexKeyAttrs as usize;
            let columns = &(&(*info).ii_IndexAttrNumbers)[..count];
            types::refuse_time(table, columns, attribute);
        }
    }
}

/// # Safety
/// As `check_order`; `attribute` must be that of the column. Within a guarded entry point.
unsafe fn check_key(index: Index<'_>, at: usize, attribute: &pg_sys::FormData_pg_attribute) {
    // SAFETY: the caller's contract; syscache look-ups.
    unsafe {
        let collation = index.collation(at);
        if collation != pg_sys::InvalidOid && !pg_sys::get_collation_isdeterministic(collation) {
            refuse(
                format!(
                    "key column \"{}\" of a series index has a nondeterministic collation",
                    relation::attribute_name(attribute)
                ),
                "Series are told apart by the bytes of their keys.",
                "Use a deterministic collation.",
            );
        }
        if layout::has_equal_values_that_differ(attribute) {
            refuse(
                format!(
                    "key column \"{}\" of a series index has no length",
                    relation::attribute_name(attribute)
                ),
                "Values of type bpchar that differ in trailing blanks are equal, but not the same bytes.",
                "Use text, varchar or char(n).",
            );
        }
    }
}
