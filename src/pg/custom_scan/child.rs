//! The node below one of ours.

use crate::pg::executor;
use crate::pg::row_slot::RowSlot;
use core::ptr::NonNull;
use pgrx::pg_sys::PlanState;

/// A node that has begun, and not ended.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Child(NonNull<PlanState>);

impl Child {
    /// # Safety
    /// `child` must have begun, and not end as long as the handle is used.
    #[inline]
    pub(super) unsafe fn from_ptr(child: *mut PlanState) -> Child {
        debug_assert!(!child.is_null());
        // SAFETY: by contract: what has begun is not null.
        Child(unsafe { NonNull::new_unchecked(child) })
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut PlanState {
        self.0.as_ptr()
    }

    /// Its next row, which the slot shows until the next one is asked for. Within a guarded entry point.
    pub fn next_row(self) -> Option<RowSlot> {
        // SAFETY: the node has begun; a slot that is not empty is valid.
        unsafe {
            let slot = executor::next_row(self.as_ptr());
            (!executor::is_empty(slot)).then(|| RowSlot::from_ptr(slot))
        }
    }
}
