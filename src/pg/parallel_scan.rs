//! What the processes of a query share that read a table page by page together.

use super::expression_context::guarded;
use super::relation::Table;
use super::snapshot::Snapshot;
use core::ffi::c_void;
use core::ptr::NonNull;
use pgrx::pg_sys;

/// A scan that gives out pages to processes, in memory that they share.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ParallelScan(NonNull<pg_sys::ParallelTableScanDescData>);

impl ParallelScan {
    /// How many bytes it takes. Within a guarded entry point.
    pub fn bytes(table: Table<'_>, snapshot: Snapshot<'_>) -> usize {
        // SAFETY: the table is open, the snapshot valid.
        unsafe { pg_sys::table_parallelscan_estimate(table.as_ptr(), snapshot.as_ptr()) }
    }

    /// Makes one. Within a guarded entry point.
    ///
    /// # Safety
    /// `at` must have the bytes, aligned for every type.
    pub unsafe fn initialize(at: *mut c_void, table: Table<'_>, snapshot: Snapshot<'_>) {
        // SAFETY: by contract; the table is open, the snapshot valid.
        unsafe {
            pg_sys::table_parallelscan_initialize(table.as_ptr(), at.cast(), snapshot.as_ptr());
        }
    }

    /// One that was made.
    ///
    /// # Safety
    /// `at` must be where it was made, and be there as long as the handle is used.
    pub unsafe fn at(at: *mut c_void) -> ParallelScan {
        // SAFETY: by contract: what was made is not at null.
        ParallelScan(unsafe { NonNull::new_unchecked(at.cast()) })
    }

    /// For PostgreSQL's functions.
    pub fn as_ptr(self) -> pg_sys::ParallelTableScanDesc {
        self.0.as_ptr()
    }

    /// Gives out all pages once more. Within a guarded entry point.
    ///
    /// # Safety
    /// It must be a scan of the table, which nobody is reading.
    pub unsafe fn begin_again(self, table: Table<'_>) {
        // SAFETY: by contract; an open table has an access method.
        unsafe {
            let again = (*(*table.as_ptr()).rd_tableam).parallelscan_reinitialize;
            let again = again.expect("BUG: no parallelscan_reinitialize");
            guarded(|| again(table.as_ptr(), self.as_ptr()));
        }
    }
}
