//! Building an index again, in a file of its own.

use super::relation::Table;
use pgrx::pg_sys;

/// Builds an index of an open table again; a unique one may `trust` that no two rows have one key.
///
/// # Safety
/// The index must be of the table, and not be open; this transaction must have locked it against everybody, and the table against writers.
pub unsafe fn rebuild(table: Table<'_>, index: pg_sys::Oid, trust: bool) {
    let persistence = table.class().relpersistence;
    let mut params = pg_sys::ReindexParams::default();
    // SAFETY: by contract.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::reindex_index(index, trust, persistence, &mut params);
        #[cfg(feature = "pg17")]
        pg_sys::reindex_index(core::ptr::null(), index, trust, persistence, &mut params);
    }
}
