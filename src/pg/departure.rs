//! When a background worker has to go: the server asks for it, somebody wants its database for himself, or a setting says so.

use super::error::{self, Code};
use super::lock_mode::LockMode;
use pgrx::pg_sys;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// DROP DATABASE gives up after five seconds.
const EVERY: Duration = Duration::from_millis(100);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    static IS_WANTED_AWAY: Cell<bool> = const { Cell::new(false) };
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// This process is a worker of its database from now on.
pub fn begin() {
    IS_WORKER.set(true);
}

pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Does somebody want the database without this process in it, to drop it or to copy it?
pub fn is_wanted_away() -> bool {
    IS_WANTED_AWAY.get()
}

/// Reads the configuration again if the server has asked for it.
pub fn reload() {
    // SAFETY: flags of this process.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// In a worker, raises an error when somebody wants the database for himself; looks at most once in a tenth of a second.
#[inline]
pub fn check() {
    if IS_WORKER.get() {
        look();
    }
}

#[cold]
fn look() {
    // SAFETY: counters of this process.
    let is_held = unsafe { pg_sys::InterruptHoldoffCount > 0 || pg_sys::CritSectionCount > 0 };
    if is_held || LOOKED.get().is_some_and(|last| last.elapsed() < EVERY) {
        return;
    }
    LOOKED.set(Some(Instant::now()));
    if is_database_claimed() {
        IS_WANTED_AWAY.set(true);
        error::raise(
            Code::ERRCODE_ADMIN_SHUTDOWN,
            "varve worker leaves a database that somebody wants to drop or to copy",
            "",
            "",
        );
    }
}

/// Has somebody a lock on the database that connections to it are in the way of?
fn is_database_claimed() -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        // SAFETY: set when this process connected.
        locktag_field3: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: the list is palloc'd.
    unsafe {
        let mut count = 0;
        let list = pg_sys::GetLockConflicts(&tag, LockMode::RowExclusive.as_raw(), &mut count);
        pg_sys::pfree(list.cast());
        count > 0
    }
}
