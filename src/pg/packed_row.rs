//! Rows as a queue of a parallel query takes them: minimal tuples, of columns that are passed by value. Core makes one; each row then puts its values into that, where core
//! would ask for memory, and give it back, for every row.

use super::bare;
use super::custom_scan::NodeState;
use super::descriptor::Descriptor;
use super::memory;
use super::row_slot::RowSlot;
use super::stored_value::alignment;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum};

/// A minimal tuple that is filled again for each row, and the slot that shows it. Both go with the statement.
pub struct PackedRow {
    slot: RowSlot,
    tuple: NonNull<pg_sys::MinimalTupleData>,
    places: Box<[Place]>,
}

/// Are all columns passed by value?
pub fn is_plain(columns: Descriptor<'_>) -> bool {
    columns.attributes().iter().all(|column| column.attbyval)
}

/// Where a value is, in bytes behind the header, and how long it is.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    length: usize,
}

impl PackedRow {
    /// For rows like those of a virtual slot; None where these have columns that are not passed by value. Within a guarded entry point.
    pub fn of(node: NodeState, like: RowSlot) -> Option<PackedRow> {
        let columns = like.descriptor();
        if !is_plain(columns) {
            return None;
        }
        let mut end = 0usize;
        let place = |column: &pg_sys::FormData_pg_attribute| {
            let length = column.attlen as usize;
            let at = end.next_multiple_of(alignment(column.attalign));
            end = at + length;
            Place { at, length }
        };
        let places = columns.attributes().iter().map(place).collect();
        let mut zeros = vec![Datum::from(0usize); columns.len()];
        let mut nulls = vec![false; columns.len()];
        // SAFETY: the statement runs; as many values as there are columns, all passed by value.
        let (tuple, made) = unsafe {
            let (values, nulls) = (zeros.as_mut_ptr(), nulls.as_mut_ptr());
            let tuple = memory::within(node.query_memory(), || {
                pg_sys::heap_form_minimal_tuple(columns.as_ptr(), values, nulls)
            });
            let tuple = NonNull::new(tuple).expect("BUG: no tuple was made");
            (tuple, tuple.as_ref().t_len as usize - header_of(tuple))
        };
        assert_eq!(made, end, "BUG: values are elsewhere");
        Some(PackedRow {
            slot: node.minimal_slot(columns),
            tuple,
            places,
        })
    }

    /// The row that the virtual slot shows, until the next one is packed; None where a value is null. Within a guarded entry point.
    ///
    /// # Safety
    /// It must be the slot that this is like, and show a row.
    #[inline]
    pub unsafe fn pack(&self, row: RowSlot) -> Option<RowSlot> {
        // SAFETY: by contract: a virtual slot has all values of its row. The tuple has the places, and goes with the statement.
        unsafe {
            let (values, nulls) = row.attributes(self.places.len());
            if nulls.contains(&true) {
                return None;
            }
            let data = self.tuple.cast::<u8>().as_ptr().add(header_of(self.tuple));
            for (place, value) in self.places.iter().zip(values) {
                let (to, bits) = (data.add(place.at), value.value() as u64);
                match place.length {
                    1 => to.write(bits as u8),
                    2 => to.cast::<u16>().write(bits as u16),
                    4 => to.cast::<u32>().write(bits as u32),
                    _ => to.cast::<u64>().write(bits),
                }
            }
            bare::ExecStoreMinimalTuple(self.tuple.as_ptr(), self.slot.as_ptr(), false);
            Some(self.slot)
        }
    }
}

/// Bytes in front of the values.
///
/// # Safety
/// It must be a tuple that core has made.
#[inline]
unsafe fn header_of(tuple: NonNull<pg_sys::MinimalTupleData>) -> usize {
    // SAFETY: by contract.
    usize::from(unsafe { tuple.as_ref().t_hoff }) - MINIMAL_TUPLE_OFFSET
}

/// What `t_hoff` counts besides: the header of a heap's tuple is so much longer.
const MINIMAL_TUPLE_OFFSET: usize = core::mem::offset_of!(pg_sys::HeapTupleHeaderData, t_infomask2)
    - core::mem::offset_of!(pg_sys::MinimalTupleData, t_infomask2);
