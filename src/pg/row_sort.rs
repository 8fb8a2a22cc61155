//! Core's sort of rows.

use super::custom_scan::NodeState;
use super::memory;
use super::row_slot::RowSlot;
use pgrx::pg_sys::{self, InvalidOid, Oid};

/// A column that rows are sorted by.
pub struct SortColumn {
    /// From 1.
    pub number: i16,
    /// Less, or greater.
    pub operator: Oid,
    pub has_nulls_first: bool,
}

/// Rows that are sorted. It goes with the statement, or by `end`.
pub struct RowSort {
    sort: *mut pg_sys::Tuplesortstate,
    /// For rows that come from it.
    slot: RowSlot,
}

impl RowSort {
    /// A slot for what comes from a sort of rows like those of `row`, as long as the statement runs. Within a guarded entry point.
    pub fn slot(node: NodeState, row: RowSlot) -> RowSlot {
        node.minimal_slot(row.descriptor())
    }

    /// Of rows like those of `slot`, which is one of `RowSort::slot`. Within a guarded entry point.
    ///
    /// # Safety
    /// The rows must have the columns, and the operators be of their types.
    pub unsafe fn begin(node: NodeState, slot: RowSlot, columns: &[SortColumn]) -> RowSort {
        let mut numbers: Vec<i16> = columns.iter().map(|column| column.number).collect();
        let mut operators: Vec<Oid> = columns.iter().map(|column| column.operator).collect();
        let mut collations = vec![InvalidOid; columns.len()];
        let mut nulls: Vec<bool> = columns
            .iter()
            .map(|column| column.has_nulls_first)
            .collect();
        // SAFETY: by contract; the arrays, which are copied, have an entry for each column.
        let sort = unsafe {
            memory::within(node.query_memory(), || {
                pg_sys::tuplesort_begin_heap(
                    (*slot.as_ptr()).tts_tupleDescriptor,
                    columns.len() as i32,
                    numbers.as_mut_ptr(),
                    operators.as_mut_ptr(),
                    collations.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                    pg_sys::work_mem,
                    core::ptr::null_mut(),
                    pg_sys::TUPLESORT_NONE as i32,
                )
            })
        };
        RowSort { sort, slot }
    }

    /// Adds a row. Within a guarded entry point.
    ///
    /// # Safety
    /// `row` must show one like those that it sorts; before `finish`.
    pub unsafe fn put(&mut self, row: RowSlot) {
        // SAFETY: by contract; the sort has not ended.
        unsafe { pg_sys::tuplesort_puttupleslot(self.sort, row.as_ptr()) }
    }

    /// All rows are there. Within a guarded entry point.
    ///
    /// # Safety
    /// To be called once.
    pub unsafe fn finish(&mut self) {
        // SAFETY: by contract; the sort has not ended.
        unsafe { pg_sys::tuplesort_performsort(self.sort) }
    }

    /// The next row in order, if there is one, which the slot shows until it is asked for the next. Within a guarded entry point.
    ///
    /// # Safety
    /// After `finish`.
    pub unsafe fn next(&mut self) -> Option<RowSlot> {
        let no_key = core::ptr::null_mut();
        let slot = self.slot.as_ptr();
        // SAFETY: by contract; the sort has not ended.
        let is_there =
            unsafe { pg_sys::tuplesort_gettupleslot(self.sort, true, false, slot, no_key) };
        is_there.then_some(self.slot)
    }

    /// Lets go of all. Within a guarded entry point.
    pub fn end(self) {
        self.slot.clear();
        // SAFETY: the sort has begun, and ends once.
        unsafe { pg_sys::tuplesort_end(self.sort) }
    }
}
