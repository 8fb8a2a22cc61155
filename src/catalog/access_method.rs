//! Which tables are ours: those whose relcache entry points to the one routine that this process has made.

use crate::pg::relation::Table;
use pgrx::pg_sys;
use std::cell::OnceCell;

thread_local! {
    static ROUTINE: OnceCell<Box<pg_sys::TableAmRoutine>> = const { OnceCell::new() };
}

/// The routine of our tables, built at the first call. It lives as long as the backend.
pub fn routine(build: fn() -> Box<pg_sys::TableAmRoutine>) -> *const pg_sys::TableAmRoutine {
    ROUTINE.with(|cell| {
        let routine: *const pg_sys::TableAmRoutine = &**cell.get_or_init(build);
        routine
    })
}

/// Is this table one of ours?
pub fn is_varve(table: Table<'_>) -> bool {
    ROUTINE.with(|cell| {
        cell.get().is_some_and(|routine| {
            // SAFETY: the table is open.
            core::ptr::eq(unsafe { (*table.as_ptr()).rd_tableam }, &**routine)
        })
    })
}
