//! Running as the owner of a table, as VACUUM and REINDEX do: code that the owner has put into indexes, triggers and filters
//! must not run with the rights of whoever maintains the table.

use super::relation::Table;
use super::sql;
use pgrx::pg_sys;

/// Names without a schema mean the server's own objects.
const SEARCH_PATH: &core::ffi::CStr = c"pg_catalog, pg_temp";

/// Runs `body` as the owner of a table, who may not change what outlasts it, with a fixed search_path. An error that leaves
/// `body` ends the transaction, and that puts everything back.
pub fn as_owner<R>(owner: pg_sys::Oid, body: impl FnOnce() -> R) -> R {
    // SAFETY: inside a transaction.
    unsafe {
        let mut user = pg_sys::InvalidOid;
        let mut context = 0;
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(
            owner,
            context | pg_sys::SECURITY_RESTRICTED_OPERATION as i32,
        );
        let nesting = pg_sys::NewGUCNestLevel();
        set(c"search_path", SEARCH_PATH);
        let result = body();
        pg_sys::AtEOXact_GUC(false, nesting);
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

/// Has deferred triggers and constraints of a table fire with each statement, until the transaction ends: at commit nobody runs as the owner any more.
///
/// # Safety
/// Within a transaction, with an active snapshot. Inside a guard.
pub unsafe fn fire_deferred(table: Table<'_>) {
    if table.triggers().is_some() {
        // SAFETY: by contract.
        unsafe { sql::execute("SET CONSTRAINTS ALL IMMEDIATE", &[]) };
    }
}

/// Runs `body` as the owner of a table, who may not change what outlasts it, nor the role. An error that leaves `body` ends the
/// transaction, and that puts the role back.
pub fn locally_as<R>(owner: pg_sys::Oid, body: impl FnOnce() -> R) -> R {
    const RESTRICTED: u32 =
        pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE;
    // SAFETY: inside a transaction.
    unsafe {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(owner, context | RESTRICTED as i32);
        let result = body();
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

/// Sets a parameter for as long as `as_owner` runs.
///
/// # Safety
/// Inside a transaction, at a level of `as_owner` or of the caller's own.
pub unsafe fn set(name: &core::ffi::CStr, value: &core::ffi::CStr) {
    // SAFETY: by contract; SAVE makes it end with the nest level.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}
