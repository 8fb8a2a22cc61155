//! The databases of the server.

use super::lock_mode::LockMode;
use super::places;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The limit of connections of a database that is invalid: `DATCONNLIMIT_INVALID_DB`, which not all minor versions have.
const INVALID_DATABASE: i32 = -2;

/// That of this process.
pub fn own() -> pg_sys::Oid {
    // SAFETY: set when a process connects.
    unsafe { pg_sys::MyDatabaseId }
}

/// Has it the extension of a name? Inside a transaction.
pub fn has_extension(name: &CStr) -> bool {
    // SAFETY: a look-up in the catalog.
    unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) != pg_sys::InvalidOid }
}

pub struct Database {
    pub id: u32,
    pub has_worker: bool,
}

/// Databases that can be connected to.
///
/// # Safety
/// In a background process, between transactions.
pub unsafe fn all_open() -> Vec<Database> {
    let mut found = Vec::new();
    // SAFETY: by contract; pg_database is a shared catalog.
    unsafe {
        pg_sys::StartTransactionCommand();
        let catalog =
            pg_sys::table_open(pg_sys::DatabaseRelationId, LockMode::AccessShare.as_raw());
        let scan = pg_sys::systable_beginscan(
            catalog,
            pg_sys::InvalidOid,
            false,
            core::ptr::null_mut(),
            0,
            core::ptr::null_mut(),
        );
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row: pg_sys::Form_pg_database = pg_sys::GETSTRUCT(tuple).cast();
            // A DROP DATABASE that was interrupted leaves one that nobody can connect to.
            let is_open = (*row).datallowconn && (*row).datconnlimit != INVALID_DATABASE;
            if is_open && !(*row).datistemplate {
                found.push(Database {
                    id: (*row).oid.to_u32(),
                    has_worker: places::has_worker((*row).oid),
                });
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, LockMode::AccessShare.as_raw());
        pg_sys::CommitTransactionCommand();
    }
    found
}
