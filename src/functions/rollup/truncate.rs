//! TRUNCATE of a source takes along what its rollups have stored, in the same transaction: it is not for snapshots in core, so
//! whoever reads with an older one finds neither rows nor buckets.

use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::owner;
use crate::pg::sql;
use crate::pg::Oid;
use crate::rollup::catalog;

/// Empties what the rollups of a source have stored.
///
/// # Safety
/// Called by the object access hook: who truncates the source has locked it.
pub unsafe fn empty(source: Oid) {
    for rollup in catalog::of_source(source) {
        // SAFETY: the right to empty the source is that to empty what is computed from it. Triggers are code of the rollup's owner.
        unsafe {
            let stored = Open::living_table(rollup.stored, LockMode::AccessExclusive);
            let name = stored.rel().qualified_name();
            owner::as_owner(stored.rel().owner(), move || {
                // Core insists that nobody uses what is emptied.
                drop(stored);
                sql::execute(&format!("TRUNCATE {name}"), &[]);
            });
        }
    }
}
