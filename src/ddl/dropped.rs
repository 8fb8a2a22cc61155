//! Tables that are dropped: their marks, and what is known of their jobs, go with them, when a session ends with temporary tables too. Storage is not asked: core drops
//! files by itself.

use crate::catalog::{access_method, chunk_marker};
use crate::chunk::job_states;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation_lookup;
use crate::pg::Oid;

/// Takes the mark of a table away that is being dropped, and what became of its jobs.
///
/// # Safety
/// Called by the object access hook: who drops a table has locked it, and it is still there.
pub unsafe fn drop_marker(table: Oid) {
    // SAFETY: by contract.
    unsafe {
        if !relation_lookup::has_rows(table) || relation_lookup::is_heap(table) {
            return;
        }
        let open = Open::existing_table(table, LockMode::Held);
        if let Some(open) = open.filter(|open| access_method::is_varve(open.rel())) {
            chunk_marker::drop_marker(open.rel());
            job_states::forget(table);
        }
    }
}
