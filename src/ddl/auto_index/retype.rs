//! ALTER TABLE … TYPE to a type that no series index takes: an automatic index that nobody asked for must not stand in its way.

use super::existing::{auto_indexes, open_varve};
use super::{make, statement};
use crate::catalog::layout;
use crate::pg::relation::OpenIndex;
use pgrx::pg_sys;

/// A column that is to have another type.
struct Change {
    column: *mut core::ffi::c_char,
    to: pg_sys::Oid,
}

/// Drops the automatic indexes that could not be built again.
///
/// # Safety
/// `statement` must be a statement's parse tree.
pub unsafe fn make_way(statement: *mut pg_sys::Node) {
    let kind = pg_sys::AlterTableType::AT_AlterColumnType;
    // SAFETY: by contract.
    unsafe {
        let changes: Vec<_> = statement::commands(statement, kind)
            .into_iter()
            .map(|command| change(command))
            .filter(|change| change.to != pg_sys::InvalidOid && !is_indexable(change.to))
            .collect();
        if changes.is_empty() {
            return;
        }
        for table in statement::altered(statement) {
            for auto_index in auto_indexes_with(table, &changes) {
                make::unmake(auto_index);
            }
        }
    }
}

unsafe fn change(command: *mut pg_sys::AlterTableCmd) -> Change {
    // SAFETY: the caller's contract: the command that gives a column another type.
    unsafe {
        let definition: *mut pg_sys::ColumnDef = (*command).def.cast();
        let none = core::ptr::null_mut::<pg_sys::ParseState>();
        // That there is no such type is for core to say.
        let found = pg_sys::LookupTypeName(none, (*definition).typeName, none.cast(), true);
        let mut to = pg_sys::InvalidOid;
        if !found.is_null() {
            to = pg_sys::typeTypeId(found);
            pg_sys::ReleaseSysCache(found);
        }
        Change {
            column: (*command).name,
            to,
        }
    }
}

fn is_indexable(of_type: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::GetDefaultOpClass(of_type, layout::index_am()) != pg_sys::InvalidOid }
}

unsafe fn auto_indexes_with(table: pg_sys::Oid, changes: &[Change]) -> Vec<pg_sys::Oid> {
    let Some(open) = open_varve(table) else {
        return Vec::new();
    };
    // SAFETY: the table is open; the names are the statement's.
    unsafe {
        let changed: Vec<u16> = changes
            .iter()
            .map(|change| pg_sys::get_attnum(table, change.column) as u16)
            .collect();
        let has_changed = |index: &OpenIndex| {
            let columns = layout::index_columns(index.rel());
            columns.iter().any(|column| changed.contains(column))
        };
        auto_indexes(open.rel())
            .iter()
            .filter(|index| has_changed(index))
            .map(|index| index.rel().oid())
            .collect()
    }
}
