//! TRUNCATE of a source takes along what its rollups have stored, in the same transaction: it is not for snapshots in core, so
//! whoever reads with an older one finds neither rows nor buckets.

use crate::pg::relation::{self, Open};
use crate::pg::sql;
use crate::rollup::catalog;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Empties what the rollups of a source have stored.
///
/// # Safety
/// Called by the object access hook: who truncates the source has locked it.
#[pg_guard]
pub unsafe extern "C-unwind" fn empty(source: pg_sys::Oid) {
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
