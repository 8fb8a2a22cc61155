//! Locks by which workers keep out of each other's way: one for each database, and one for each of `varve.max_workers` places.
//! They are session locks of the kind of advisory ones, which outlast errors, in a space of tags that no user can name.

use super::lock_mode::LockMode;
use crate::guc;
use pgrx::pg_sys;

/// In place of a database: places of workers.
const ALL_DATABASES: u32 = 0;

fn tag(database: u32, number: u32) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        locktag_field1: database,
        locktag_field2: u32::from_be_bytes(*b"varv"),
        locktag_field3: number,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_USERLOCK as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

fn take(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: a valid tag; a lock of the session, for which nobody waits.
    let result = unsafe { pg_sys::LockAcquire(tag, LockMode::Exclusive.as_raw(), true, true) };
    result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

fn own_database() -> pg_sys::LOCKTAG {
    // SAFETY: set when this process connected.
    tag(unsafe { pg_sys::MyDatabaseId }.to_u32(), 0)
}

/// Makes this process the worker of its database until it ends; false where there is one.
pub fn take_database() -> bool {
    take(&own_database())
}

/// Takes one of the places that all workers share; false where none is free.
pub fn take_place() -> bool {
    (1..=guc::max_workers()).any(|number| take(&tag(ALL_DATABASES, number)))
}

/// Has the own database a worker now?
pub fn has_database_worker() -> bool {
    is_held(&own_database())
}

fn is_held(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: the list is palloc'd.
    unsafe {
        let mut count = 0;
        let list = pg_sys::GetLockConflicts(tag, LockMode::Exclusive.as_raw(), &mut count);
        pg_sys::pfree(list.cast());
        count > 0
    }
}

/// Has a database a worker now?
pub fn has_worker(database: pg_sys::Oid) -> bool {
    is_held(&tag(database.to_u32(), 0))
}

/// The tablespace of the database.
pub fn tablespace() -> pg_sys::Oid {
    // SAFETY: set when a backend connects.
    unsafe { pg_sys::MyDatabaseTableSpace }
}

/// The process.
pub fn pid() -> i32 {
    // SAFETY: set when the process starts.
    unsafe { pg_sys::MyProcPid }
}
