//! Building an index again, in a file of its own.

use super::relation::Table;
use pgrx::pg_sys;

/// Builds an index of an open table again.
///
/// # Safety
/// The index must be of the table, and not be open; this transaction must have locked it against everybody, and the table against writers.
pub unsafe fn rebuild(table: Table<'_>, index: pg_sys::Oid) {
    let persistence = table.class().relpersistence;
    let mut params = pg_sys::ReindexParams::default();
    // SAFETY: by contract.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::reindex_index(index, true, persistence, &mut params);
        #[cfg(feature = "pg17")]
        pg_sys::reindex_index(core::ptr::null(), index, true, persistence, &mut params);
    }
}
