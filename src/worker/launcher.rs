//! The launcher, which runs where the server preloads the library: it starts the worker of each database in turn, so that rules of
//! retention are kept where nobody writes, and work goes on after a restart. One that has nothing to do ends by itself.

use crate::guc;
use crate::pg::background::Request;
use crate::pg::departure;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::places;
use crate::pg::unbound::{die, SignalHandlerForConfigReload};
use crate::pg::wake;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A database is visited so often.
const VISIT: Duration = Duration::from_secs(30);
/// After it crashed, a launcher is started again after so many seconds.
const RESTART_SECONDS: i32 = 10;

pub fn init() {
    // SAFETY: a flag of the postmaster.
    if unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        Request {
            name: c"varve launcher",
            function: c"varve_launcher",
            argument: pg_sys::Datum::from(0usize),
            restart: Some(RESTART_SECONDS),
        }
        .register();
    }
}

/// SIGTERM ends the process at the next check for interrupts, SIGHUP makes it read the configuration.
///
/// # Safety
/// In a background process that has just begun.
pub unsafe fn attend_signals() {
    // SAFETY: core's own handlers.
    unsafe {
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(die));
        pg_sys::pqsignal(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Waits for a signal, or that long.
///
/// # Safety
/// In a background process.
pub unsafe fn wait(milliseconds: u64) {
    // SAFETY: the latch of this process.
    unsafe {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            events as i32,
            milliseconds as core::ffi::c_long,
            pg_sys::PG_WAIT_EXTENSION,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// The launcher's main function.
///
/// # Safety
/// Called by the postmaster in a process of its own.
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_launcher(_argument: pg_sys::Datum) {
    const SLICE_MS: u64 = 1_000;
    // SAFETY: by contract. Without a database only shared catalogs can be read.
    unsafe {
        attend_signals();
        let nothing = core::ptr::null();
        pg_sys::BackgroundWorkerInitializeConnection(nothing, nothing, 0);
        let mut visited = HashMap::new();
        loop {
            error::check_interrupts();
            departure::reload();
            if guc::has_worker() {
                start_one(&mut visited);
            }
            wait(SLICE_MS);
        }
    }
}

/// Starts the worker of the database that has waited longest.
unsafe fn start_one(visited: &mut HashMap<u32, Instant>) {
    // SAFETY: the launcher, between transactions.
    let databases = unsafe { databases() };
    visited.retain(|database, _| databases.contains(database));
    let due = |database: &&u32| {
        visited
            .get(database)
            .is_none_or(|last| last.elapsed() > VISIT)
    };
    let next = databases
        .iter()
        .filter(due)
        .min_by_key(|database| visited.get(database));
    if let Some(&database) = next {
        visited.insert(database, Instant::now());
        wake::start(pg_sys::Oid::from(database));
    }
}

/// The limit of connections of a database that is invalid: `DATCONNLIMIT_INVALID_DB`, which not all minor versions have.
const INVALID_DATABASE: i32 = -2;

/// Databases that can be connected to and have no worker now.
unsafe fn databases() -> Vec<u32> {
    let mut found = Vec::new();
    // SAFETY: the launcher, between transactions; pg_database is a shared catalog.
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
            if is_open && !(*row).datistemplate && !places::has_worker((*row).oid) {
                found.push((*row).oid.to_u32());
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, LockMode::AccessShare.as_raw());
        pg_sys::CommitTransactionCommand();
    }
    found
}
