//! Rows that the executor hands over.

use super::executor;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum};

/// A slot that shows a row.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    slot: NonNull<pg_sys::TupleTableSlot>,
    filled: PhantomData<&'a pg_sys::TupleTableSlot>,
}

impl<'a> Slot<'a> {
    /// A slot that PostgreSQL hands out.
    ///
    /// # Safety
    /// `slot` must show a row, and the same one, as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(slot: *mut pg_sys::TupleTableSlot) -> Slot<'a> {
        debug_assert!(!slot.is_null());
        Slot {
            // SAFETY: by contract: what shows a row is not null.
            slot: unsafe { NonNull::new_unchecked(slot) },
            filled: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::TupleTableSlot {
        self.slot.as_ptr()
    }

    /// All attributes of the row, and which of them are null. Within a guarded entry point.
    #[inline]
    pub fn attributes(self) -> (&'a [Datum], &'a [bool]) {
        // SAFETY: the slot shows a row, and has a descriptor.
        unsafe {
            let count = (*(*self.as_ptr()).tts_tupleDescriptor).natts as usize;
            executor::attributes(self.as_ptr(), count)
        }
    }

    /// The first attributes of the row, and which of them are null. Within a guarded entry point.
    ///
    /// # Safety
    /// There must be as many attributes.
    #[inline]
    pub unsafe fn first_attributes(self, count: usize) -> (&'a [Datum], &'a [bool]) {
        // SAFETY: by contract; the slot shows a row.
        unsafe { executor::attributes(self.as_ptr(), count) }
    }

    /// An attribute of the row, from 1. Within a guarded entry point.
    ///
    /// # Safety
    /// There must be as many attributes.
    #[inline]
    pub unsafe fn attribute(self, number: i16) -> Option<Datum> {
        let slot = self.as_ptr();
        // SAFETY: by contract.
        unsafe {
            if (*slot).tts_nvalid < number {
                pg_sys::slot_getsomeattrs_int(slot, i32::from(number));
            }
            let at = number as usize - 1;
            (!*(*slot).tts_isnull.add(at)).then(|| *(*slot).tts_values.add(at))
        }
    }
}
