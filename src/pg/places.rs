//! Locks by which workers keep out of each other's way: one for each database, one for each of `varve.max_workers` places, and as
//! many for those who wait for a place.
//! They are session locks of the kind of advisory ones, which outlast errors, in a space of tags that no user can name.

use super::lock_mode::LockMode;
use crate::guc;
use pgrx::pg_sys;

/// In place of a database: places of workers, and from this number on of those who wait for one.
const ALL_DATABASES: u32 = 0;
const QUEUE: u32 = 1 << 16;

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

/// Takes one of the places that all workers share, until this process ends; false where none is free.
pub fn take_place() -> bool {
    (1..=guc::max_workers()).any(|number| take(&tag(ALL_DATABASES, number)))
}

/// Joins those who wait for a place, and returns the number of that; None where there are as many of them as there are places.
pub fn queue() -> Option<u32> {
    queue_numbers().find(|&number| take(&tag(ALL_DATABASES, number)))
}

pub fn leave_queue(number: u32) {
    let tag = tag(ALL_DATABASES, number);
    // SAFETY: a valid tag; a lock that this session has.
    unsafe { pg_sys::LockRelease(&tag, LockMode::Exclusive.as_raw(), true) };
}

/// Does a worker wait for a place now?
pub fn is_awaited() -> bool {
    queue_numbers().any(|number| is_held(&tag(ALL_DATABASES, number)))
}

fn queue_numbers() -> impl Iterator<Item = u32> {
    (0..guc::max_workers()).map(|number| QUEUE + number)
}

/// Has the own database a worker now?
pub fn has_database_worker() -> bool {
    is_held(&own_database())
}

/// Requests count that have been granted, those of processes between transactions too.
fn is_held(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: a valid tag.
    unsafe { pg_sys::LockWaiterCount(tag) > 0 }
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
