//! Guards that open a table or an index with a lock, lend its handle, and close it.

use super::error::{self, Code};
use super::lock_mode::LockMode;
use super::relation::{Index, Table};
use pgrx::pg_sys;

/// A table opened with a lock that is kept until the end of the transaction; closed on drop.
pub struct Open(pg_sys::Relation);

/// The same of an index.
pub struct OpenIndex(pg_sys::Relation);

impl Open {
    pub fn table(oid: pg_sys::Oid, lock: LockMode) -> Self {
        // SAFETY: raises an error when there is no such table.
        Open(unsafe { pg_sys::table_open(oid, lock.as_raw()) })
    }

    /// None where there is no such table any more.
    pub fn existing_table(oid: pg_sys::Oid, lock: LockMode) -> Option<Self> {
        // SAFETY: an OID may be of any relation or none.
        let relation = unsafe { pg_sys::try_table_open(oid, lock.as_raw()) };
        (!relation.is_null()).then(|| Open(relation))
    }

    /// Of a table that may be dropped while this waits for the lock: that is an error of the user's.
    pub fn living_table(oid: pg_sys::Oid, lock: LockMode) -> Self {
        Self::existing_table(oid, lock).unwrap_or_else(|| {
            error::raise(
                Code::ERRCODE_UNDEFINED_TABLE,
                "the table does not exist any more",
                "It was dropped while this session waited for its lock.",
                "",
            )
        })
    }

    /// Closes the table, and lets go of a lock on it.
    pub fn unlock(self, lock: LockMode) {
        // SAFETY: open; the guard is not dropped besides.
        unsafe { pg_sys::table_close(self.0, lock.as_raw()) };
        core::mem::forget(self);
    }

    #[inline]
    pub fn rel(&self) -> Table<'_> {
        // SAFETY: open until the guard is dropped.
        unsafe { Table::from_ptr(self.0) }
    }

    /// Leaves the table open until `of_leaked` is asked for the guard again, or an error ends what has opened it.
    ///
    /// # Safety
    /// Nobody may use the handle after that.
    pub unsafe fn leak(self) -> Table<'static> {
        let table = core::mem::ManuallyDrop::new(self).0;
        // SAFETY: by contract: open as long as it is used.
        unsafe { Table::from_ptr(table) }
    }

    /// The guard that was leaked.
    ///
    /// # Safety
    /// `table` must come from `leak`, and is asked for so once.
    pub unsafe fn of_leaked(table: Table<'static>) -> Self {
        Open(table.as_ptr())
    }
}

impl OpenIndex {
    pub fn open(oid: pg_sys::Oid, lock: LockMode) -> Self {
        // SAFETY: raises an error when there is no such index.
        OpenIndex(unsafe { pg_sys::index_open(oid, lock.as_raw()) })
    }

    #[inline]
    pub fn rel(&self) -> Index<'_> {
        // SAFETY: open until the guard is dropped.
        unsafe { Index::from_ptr(self.0) }
    }

    /// As `Open::leak`.
    ///
    /// # Safety
    /// As `Open::leak`.
    pub unsafe fn leak(self) -> Index<'static> {
        let index = core::mem::ManuallyDrop::new(self).0;
        // SAFETY: by contract: open as long as it is used.
        unsafe { Index::from_ptr(index) }
    }

    /// As `Open::of_leaked`.
    ///
    /// # Safety
    /// As `Open::of_leaked`.
    pub unsafe fn of_leaked(index: Index<'static>) -> Self {
        OpenIndex(index.as_ptr())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened in the constructors; the lock stays.
            unsafe { pg_sys::table_close(self.0, pg_sys::NoLock as i32) }
        }
    }
}

impl Drop for OpenIndex {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened in the constructor; the lock stays.
            unsafe { pg_sys::index_close(self.0, pg_sys::NoLock as i32) }
        }
    }
}
