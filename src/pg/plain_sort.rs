//! A sort of rows outside any plan.

use super::descriptor::Descriptor;
use super::row_slot::RowSlot;
use pgrx::pg_sys::{self, Oid};

/// What a column is sorted by; nulls come last.
pub struct Order {
    /// Less, or greater.
    pub operator: Oid,
    pub collation: Oid,
}

/// Rows that are sorted by all their columns, in their order. The sort goes with its memory context, or by `end`.
pub struct PlainSort(*mut pg_sys::Tuplesortstate);

impl PlainSort {
    /// Begins a sort within `maintenance_work_mem`, in the current memory context.
    ///
    /// # Safety
    /// There must be an order for each column, with an operator of its type; columns and memory context must live as long as the sort.
    pub unsafe fn begin(columns: Descriptor<'_>, orders: &[Order]) -> PlainSort {
        assert!(
            orders.len() == columns.len(),
            "BUG: a sort that has not an order for each column"
        );
        let mut numbers: Vec<i16> = (1..=orders.len() as i16).collect();
        let mut operators: Vec<Oid> = orders.iter().map(|order| order.operator).collect();
        let mut collations: Vec<Oid> = orders.iter().map(|order| order.collation).collect();
        let mut nulls_first = vec![false; orders.len()];
        // SAFETY: the arrays, which are copied, have an entry for each column; the caller sees to the operators.
        PlainSort(unsafe {
            pg_sys::tuplesort_begin_heap(
                columns.as_ptr(),
                orders.len() as i32,
                numbers.as_mut_ptr(),
                operators.as_mut_ptr(),
                collations.as_mut_ptr(),
                nulls_first.as_mut_ptr(),
                pg_sys::maintenance_work_mem,
                core::ptr::null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            )
        })
    }

    /// Adds a row.
    ///
    /// # Safety
    /// The slot must show one with the columns that are sorted.
    pub unsafe fn put(&mut self, row: RowSlot) {
        // SAFETY: the sort has begun; core raises an error where it has been performed.
        unsafe { pg_sys::tuplesort_puttupleslot(self.0, row.as_ptr()) }
    }

    /// All rows are there.
    pub fn perform(&mut self) {
        // SAFETY: the sort has begun; core raises an error where it has been performed.
        unsafe { pg_sys::tuplesort_performsort(self.0) }
    }

    /// Has a slot show a copy of the next row in order; false, and an empty slot, where there is none.
    ///
    /// # Safety
    /// The slot must be one for copies of rows with the columns that are sorted.
    pub unsafe fn next_into(&mut self, slot: RowSlot) -> bool {
        let (forward, copy, no_key) = (true, true, core::ptr::null_mut());
        // SAFETY: the sort has begun; core raises an error where it has not been performed.
        unsafe { pg_sys::tuplesort_gettupleslot(self.0, forward, copy, slot.as_ptr(), no_key) }
    }

    /// Lets go of all.
    pub fn end(self) {
        // SAFETY: the sort has begun, and ends once.
        unsafe { pg_sys::tuplesort_end(self.0) }
    }
}
