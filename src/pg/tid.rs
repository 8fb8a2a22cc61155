//! Conversions between our TIDs and core's item pointers.

use pgrx::pg_sys;
pub use varve_columns::tuple::tid::{Tid, INVALID_BLOCK, MAX_OFFSET, PENDING};

#[inline]
pub fn from_pg(tid: &pg_sys::ItemPointerData) -> Tid {
    Tid {
        block: (u32::from(tid.ip_blkid.bi_hi) << 16) | u32::from(tid.ip_blkid.bi_lo),
        offset: tid.ip_posid,
    }
}

/// # Safety
/// `tid` must point to a valid item pointer.
pub unsafe fn read(tid: pg_sys::ItemPointer) -> Tid {
    // SAFETY: by contract.
    from_pg(unsafe { &*tid })
}

pub fn to_pg(tid: Tid) -> pg_sys::ItemPointerData {
    pg_sys::ItemPointerData {
        ip_blkid: pg_sys::BlockIdData {
            bi_hi: (tid.block >> 16) as u16,
            bi_lo: (tid.block & 0xffff) as u16,
        },
        ip_posid: tid.offset,
    }
}
