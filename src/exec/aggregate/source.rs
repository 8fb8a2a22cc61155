//! Where the node reads: chunks and rows of the tail, by a sequential scan of the table.

use super::evaluate::guarded;
use crate::am::scan::{self, Part};
use crate::table::open::OpenChunk;
use pgrx::pg_sys;

/// A running scan.
pub struct Source {
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
}

impl Source {
    /// # Safety
    /// `table` must be open, `snapshot` registered, `slot` one for its rows. Inside a guarded entry point.
    pub unsafe fn begin(
        table: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> Source {
        use pg_sys::ScanOptions::*;
        let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
        let (keys, parallel) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: by contract.
        let scan =
            unsafe { guarded(|| scan::scan_begin(table, snapshot, 0, keys, parallel, flags)) };
        Source { scan, slot }
    }

    /// The next row of the tail, which the slot shows, or chunk.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn next(&mut self) -> Option<Option<OpenChunk>> {
        // SAFETY: by contract.
        unsafe {
            match scan::next_part(self.scan, self.slot)? {
                Part::Row => Some(None),
                Part::Chunk(open) => Some(Some(open)),
            }
        }
    }

    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn end(self) {
        // SAFETY: by contract.
        unsafe {
            crate::pg::executor::clear_tuple(self.slot);
            guarded(|| scan::scan_end(self.scan));
        }
    }
}
