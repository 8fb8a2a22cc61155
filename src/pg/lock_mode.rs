//! Modes of heavyweight locks.

use pgrx::pg_sys;

/// In the order of their strength; each conflicts with what PostgreSQL's table of conflicts says.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// No lock is taken: the transaction has one already.
    Held = pg_sys::NoLock,
    AccessShare = pg_sys::AccessShareLock,
    RowShare = pg_sys::RowShareLock,
    RowExclusive = pg_sys::RowExclusiveLock,
    ShareUpdateExclusive = pg_sys::ShareUpdateExclusiveLock,
    Share = pg_sys::ShareLock,
    ShareRowExclusive = pg_sys::ShareRowExclusiveLock,
    Exclusive = pg_sys::ExclusiveLock,
    AccessExclusive = pg_sys::AccessExclusiveLock,
}

impl LockMode {
    /// For PostgreSQL's functions.
    #[inline]
    pub const fn as_raw(self) -> pg_sys::LOCKMODE {
        self as pg_sys::LOCKMODE
    }
}
