//! Core's hook for what happens to objects, and who wants to know of it: keys and indexes that come or go, tables that are dropped,
//! and partitions of sources of rollups, or such sources that are emptied.

use super::{auto_index::seen, dropped};
use crate::functions::rollup::{partitions, truncate};
use pgrx::pg_sys;

/// pg_inherits.
const INHERITS: pg_sys::Oid = pg_sys::Oid::from_u32(2611);

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
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_ALTER, OAT_TRUNCATE};
    // SAFETY: called by core; no value here needs dropping.
    unsafe {
        if let Some(next) = NEXT {
            next(access, class, object, column, arg);
        }
        if column != 0 {
            return;
        }
        seen::note(access, class, object);
        match (access, class) {
            (OAT_DROP, pg_sys::RelationRelationId) => {
                dropped::drop_marker(object);
                partitions::dropped(object);
            }
            (OAT_POST_ALTER, INHERITS) => partitions::inheritance(object, arg),
            (OAT_TRUNCATE, pg_sys::RelationRelationId) => truncate::empty(object),
            _ => {}
        }
    }
}
