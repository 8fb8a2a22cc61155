//! Slots of one's own, which no node has: who makes one holds it, and it goes with the holder.

use super::descriptor::Descriptor;
use super::executor;
use super::relation::Table;
use super::row_slot::RowSlot;
use pgrx::pg_sys;

/// A slot, freed on drop. Where an error unwinds it goes with its memory context, and what it has pinned with the resource owner.
pub struct OwnSlot(RowSlot);

impl OwnSlot {
    /// For rows of a table, in the current memory context.
    ///
    /// # Safety
    /// The table must be open, and the memory context live, as long as the slot.
    pub unsafe fn of_table(table: Table<'_>) -> OwnSlot {
        let none = core::ptr::null_mut();
        // SAFETY: the table is open; nobody else is to hold the slot.
        OwnSlot(unsafe { RowSlot::from_ptr(pg_sys::table_slot_create(table.as_ptr(), none)) })
    }

    /// For copies of rows, in the current memory context.
    ///
    /// # Safety
    /// The columns and the memory context must live as long as the slot.
    pub unsafe fn for_copies(columns: Descriptor<'_>) -> OwnSlot {
        // SAFETY: the caller sees to what the slot refers to.
        unsafe { OwnSlot::single(columns, &raw const pg_sys::TTSOpsMinimalTuple) }
    }

    /// A virtual one, which shows whatever its columns are set to, in the current memory context. They are all to be set first.
    ///
    /// # Safety
    /// As `for_copies`.
    pub unsafe fn for_values(columns: Descriptor<'_>) -> OwnSlot {
        // SAFETY: as above; a new slot is empty.
        unsafe {
            let made = OwnSlot::single(columns, &raw const pg_sys::TTSOpsVirtual);
            executor::store_virtual(made.get().as_ptr());
            made
        }
    }

    /// # Safety
    /// As `for_copies`; `kind` must be one of the server's.
    unsafe fn single(columns: Descriptor<'_>, kind: *const pg_sys::TupleTableSlotOps) -> OwnSlot {
        // SAFETY: a new slot of these columns, which live as long.
        let made = unsafe { pg_sys::MakeSingleTupleTableSlot(columns.as_ptr(), kind) };
        // SAFETY: valid until it is dropped.
        OwnSlot(unsafe { RowSlot::from_ptr(made) })
    }

    /// The slot, to be used no longer than this lives.
    #[inline]
    pub fn get(&self) -> RowSlot {
        self.0
    }
}

impl Drop for OwnSlot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by one of the constructors, and dropped once.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.0.as_ptr()) }
        }
    }
}
