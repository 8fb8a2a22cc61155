//! TRUNCATE of a source takes along what its rollups have stored, in the same transaction: it is not for snapshots in core, so
//! whoever reads with an older one finds neither rows nor buckets.

use crate::pg::relation::{self, Open};
use crate::pg::sql;
use crate::rollup::catalog;
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

/// Without `#[pg_guard]`, so that errors of the next hook pass through as they are.
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
        if access == pg_sys::ObjectAccessType::OAT_TRUNCATE && class == pg_sys::RelationRelationId {
            empty(object);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn empty(source: pg_sys::Oid) {
    for rollup in catalog::of_source(source) {
        // SAFETY: an error ends the (sub)transaction, which puts back user and context. The right to empty the source is that to
        // empty what is computed from it.
        unsafe {
            let stored = Open::living_table(rollup.stored, pg_sys::AccessExclusiveLock);
            let name = relation::qualified_name(stored.rel());
            let owner = (*(*stored.rel()).rd_rel).relowner;
            drop(stored);
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let local = pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32;
            pg_sys::SetUserIdAndSecContext(owner, context | local);
            sql::execute(&format!("TRUNCATE {name}"), &[]);
            pg_sys::SetUserIdAndSecContext(user, context);
        }
    }
}
