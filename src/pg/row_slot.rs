//! Slots that a node puts rows into, or takes rows from.

use super::descriptor::Descriptor;
use super::executor;
use super::slot::Slot;
use super::tid::{self, Tid};
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum, Oid};

/// A slot of the executor's, which shows a row or none. It lives as long as the statement runs, and so does whoever keeps it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowSlot(NonNull<pg_sys::TupleTableSlot>);

impl RowSlot {
    /// A slot that PostgreSQL hands out.
    ///
    /// # Safety
    /// `slot` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(slot: *mut pg_sys::TupleTableSlot) -> RowSlot {
        debug_assert!(!slot.is_null());
        // SAFETY: by contract: what is valid is not null.
        RowSlot(unsafe { NonNull::new_unchecked(slot) })
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::TupleTableSlot {
        self.0.as_ptr()
    }

    /// How many columns its rows have.
    #[inline]
    pub fn columns(self) -> usize {
        // SAFETY: a valid slot has a descriptor.
        unsafe { (*(*self.as_ptr()).tts_tupleDescriptor).natts as usize }
    }

    /// The columns of its rows.
    #[inline]
    pub fn descriptor<'a>(self) -> Descriptor<'a> {
        // SAFETY: a valid slot has one, which lasts as long.
        unsafe { Descriptor::from_ptr((*self.as_ptr()).tts_tupleDescriptor) }
    }

    /// The first attributes of the row that it shows, and which of them are null. Within a guarded entry point.
    ///
    /// # Safety
    /// It must show a row of so many, as long as the slices are used.
    #[inline]
    pub unsafe fn attributes<'a>(self, count: usize) -> (&'a [Datum], &'a [bool]) {
        // SAFETY: by contract.
        unsafe { executor::attributes(self.as_ptr(), count) }
    }

    /// An attribute of the row that it shows, from 1. Within a guarded entry point.
    ///
    /// # Safety
    /// It must show a row of so many; the value is there as long as the row.
    #[inline]
    pub unsafe fn attribute(self, number: i16) -> Option<Datum> {
        // SAFETY: the slot shows a row with the attribute, which the caller sees to.
        unsafe { Slot::from_ptr(self.as_ptr()).attribute(number) }
    }

    /// Does it show no row?
    #[inline]
    pub fn is_empty(self) -> bool {
        // SAFETY: the slot is valid.
        unsafe { executor::is_empty(self.as_ptr()) }
    }

    /// It shows a tuple on a page then, which it keeps pinned as long. Within a guarded entry point.
    ///
    /// # Safety
    /// The slot must take such tuples, and the tuple have its columns; it must be on the page in `buffer`, which is pinned.
    pub unsafe fn show_tuple(self, tuple: &mut pg_sys::HeapTupleData, buffer: pg_sys::Buffer) {
        // SAFETY: the caller sees to the tuple's page; the record of where it is is copied.
        unsafe { pg_sys::ExecStoreBufferHeapTuple(tuple, self.as_ptr(), buffer) };
    }

    /// Where the row is that it shows, as a value of type `tid`, which is there as long as the slot shows the row.
    #[inline]
    pub fn tid_value(self) -> Datum {
        // SAFETY: the slot is valid.
        Datum::from(unsafe { &raw mut (*self.as_ptr()).tts_tid })
    }

    /// It shows nothing then. Within a guarded entry point.
    pub fn clear(self) {
        // SAFETY: the slot is valid.
        unsafe { executor::clear_tuple(self.as_ptr()) }
    }

    /// The same of a virtual slot, which is nothing but marks.
    ///
    /// # Safety
    /// The slot must be virtual.
    #[inline]
    pub unsafe fn clear_virtual(self) {
        // SAFETY: by contract.
        unsafe { executor::clear_virtual(self.as_ptr()) }
    }

    /// Sets a column, from 0, of a virtual slot.
    ///
    /// # Safety
    /// The slot must be virtual and have the column; the value must be of its type, and live as long as the slot shows it.
    #[inline]
    pub unsafe fn set(self, at: usize, (value, isnull): (Datum, bool)) {
        let slot = self.as_ptr();
        // SAFETY: by contract.
        unsafe {
            *(*slot).tts_values.add(at) = value;
            *(*slot).tts_isnull.add(at) = isnull;
        }
    }

    /// The values that were set are the row that the slot shows.
    ///
    /// # Safety
    /// The slot must be virtual and cleared, and all its columns set, or such as nobody looks at.
    #[inline]
    pub unsafe fn show(self) {
        // SAFETY: by contract.
        unsafe { executor::store_virtual(self.as_ptr()) }
    }

    /// It shows a row of nulls then. Within a guarded entry point.
    pub fn show_nulls(self) {
        // SAFETY: the slot is valid.
        unsafe { pg_sys::ExecStoreAllNullTuple(self.as_ptr()) };
    }

    /// Where the row is that it shows.
    #[inline]
    pub fn tid(self) -> Tid {
        // SAFETY: the slot is valid.
        tid::from_pg(unsafe { &(*self.as_ptr()).tts_tid })
    }

    /// Says that the row is at this place, of a slot that was cleared: whoever asks where a scan is asks the slot.
    #[inline]
    pub fn be_at(self, tid: Tid) {
        // SAFETY: the slot is valid.
        unsafe {
            (*self.as_ptr()).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
            (*self.as_ptr()).tts_tid = tid::to_pg(tid);
        }
    }

    /// Its rows are a table's.
    pub fn be_of(self, table: Oid) {
        // SAFETY: the slot is valid.
        unsafe { (*self.as_ptr()).tts_tableOid = table }
    }
}
