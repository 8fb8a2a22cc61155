//! Tables that are dropped: their marks go with them, when a session ends with temporary tables too. Storage is not asked: core drops
//! files by itself.

use crate::catalog::{access_method, chunk_marker};
use crate::pg::relation::{self, Open};
use pgrx::pg_sys;
use pgrx::prelude::*;

static mut NEXT: pg_sys::object_access_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
    }
}

/// Without `#[pg_guard]`, as the executor's hooks (`plan/hooks`): errors of the next hook pass through as they are.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    column: core::ffi::c_int,
    arg: *mut core::ffi::c_void,
) {
    // SAFETY: called by core; no value here needs dropping.
    unsafe {
        if let Some(next) = NEXT {
            next(access, class, object, column, arg);
        }
        let is_drop = access == pg_sys::ObjectAccessType::OAT_DROP
            && class == pg_sys::RelationRelationId
            && column == 0;
        if is_drop {
            drop_marker(object);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn drop_marker(table: pg_sys::Oid) {
    // SAFETY: who drops a table has locked it, and it is still there.
    unsafe {
        if !relation::has_rows(table)
            || relation::access_method(table) == Some(pg_sys::HEAP_TABLE_AM_OID)
        {
            return;
        }
        let open = Open::existing_table(table, pg_sys::NoLock);
        if let Some(open) = open.filter(|open| access_method::is_varve(open.rel())) {
            chunk_marker::drop_marker(open.rel());
        }
    }
}
