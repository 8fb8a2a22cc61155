//! The keys of rows in the order of a unique index, and of the rows' TIDs where keys are equal. A sort of rows and not of index
//! entries, since those have a greatest size: what is looked for are keys that should not be there.

use crate::catalog::layout;
use crate::chunk::slot;
use crate::pg::constraint;
use crate::pg::descriptor::Descriptor;
use crate::pg::relation::{Index, Table};
use crate::pg::tid::{self, Tid};
use pgrx::pg_sys;

/// Number of the support function that compares, of access/nbtree.h.
const BTORDER_PROC: u16 = 1;

pub struct KeySort<'a> {
    index: Index<'a>,
    /// The table's columns that make the key, from 1.
    columns: Vec<u16>,
    nulls_are_equal: bool,
    sort: *mut pg_sys::Tuplesortstate,
    /// Key and TID of a row on its way into the sort.
    entering: *mut pg_sys::TupleTableSlot,
    /// The row that has come out last, and the one before it.
    last: *mut pg_sys::TupleTableSlot,
    before: *mut pg_sys::TupleTableSlot,
}

impl<'a> KeySort<'a> {
    /// Begins a sort within `maintenance_work_mem`, in the current memory context. It has to be ended by `end`.
    ///
    /// # Safety
    /// `index` must be a key of columns of `table`; both stay open until then.
    pub unsafe fn begin(table: Table<'_>, index: Index<'a>) -> KeySort<'a> {
        // SAFETY: by contract; core copies the arrays.
        unsafe {
            let columns = layout::index_columns(index);
            let descriptor = describe(table.descriptor(), &columns);
            let keys = 0..columns.len();
            let mut numbers: Vec<i16> = (1..=columns.len() as i16 + 1).collect();
            let mut less: Vec<_> = keys.clone().map(|at| less_than(index, at)).collect();
            less.push(pg_sys::Oid::from(pg_sys::TIDLessOperator));
            let mut collations: Vec<_> = keys.map(|at| index.collation(at)).collect();
            collations.push(pg_sys::InvalidOid);
            let mut nulls_first = vec![false; numbers.len()];
            let sort = pg_sys::tuplesort_begin_heap(
                descriptor,
                numbers.len() as i32,
                numbers.as_mut_ptr(),
                less.as_mut_ptr(),
                collations.as_mut_ptr(),
                nulls_first.as_mut_ptr(),
                pg_sys::maintenance_work_mem,
                core::ptr::null_mut(),
                0,
            );
            let minimal = || {
                pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple)
            };
            let entering =
                pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsVirtual);
            pg_sys::ExecStoreVirtualTuple(entering);
            KeySort {
                index,
                columns,
                nulls_are_equal: layout::treats_nulls_as_equal(index),
                sort,
                entering,
                last: minimal(),
                before: minimal(),
            }
        }
    }

    /// Takes the row in a slot of the table, unless a null in its key makes it equal to none.
    ///
    /// # Safety
    /// The slot must not be empty.
    pub unsafe fn put(&mut self, row: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by contract; the slot's arrays have a place for each key column and the TID.
        unsafe {
            let (values, nulls) = ((*self.entering).tts_values, (*self.entering).tts_isnull);
            for (at, &column) in self.columns.iter().enumerate() {
                let null = &mut *nulls.add(at);
                *values.add(at) = slot::attribute(row, column as i16, null);
                if *null && !self.nulls_are_equal {
                    return;
                }
            }
            let at = self.columns.len();
            *values.add(at) = pg_sys::Datum::from(&raw mut (*row).tts_tid);
            *nulls.add(at) = false;
            pg_sys::tuplesort_puttupleslot(self.sort, self.entering);
        }
    }

    /// After this comes nothing more in.
    pub fn perform(&mut self) {
        // SAFETY: the sort is live until `end`.
        unsafe { pg_sys::tuplesort_performsort(self.sort) }
    }

    /// Goes on to the next row whose key the one before it has as well: both, and the key if the user may see it.
    pub fn next_equal(&mut self) -> Option<(Tid, Tid, Option<String>)> {
        // SAFETY: the slots hold copies of their own.
        unsafe {
            loop {
                core::mem::swap(&mut self.last, &mut self.before);
                let alone = core::ptr::null_mut();
                if !pg_sys::tuplesort_gettupleslot(self.sort, true, true, self.last, alone) {
                    return None;
                }
                slot::deform_all(self.last);
                let first = (*self.before).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0;
                if !first && (0..self.columns.len()).all(|at| self.is_equal(at)) {
                    let count = self.columns.len();
                    let values = core::slice::from_raw_parts((*self.last).tts_values, count);
                    let nulls = core::slice::from_raw_parts((*self.last).tts_isnull, count);
                    let key = constraint::describe_key(self.index, values, nulls);
                    return Some((self.tid(self.before), self.tid(self.last), key));
                }
            }
        }
    }

    /// Have the last two rows the same value in a key column, from 0?
    unsafe fn is_equal(&self, at: usize) -> bool {
        // SAFETY: both slots are deformed; the index has a function for each key column.
        unsafe {
            let null = |row: *mut pg_sys::TupleTableSlot| *(*row).tts_isnull.add(at);
            if null(self.before) || null(self.last) {
                return null(self.before) && null(self.last);
            }
            let order = pg_sys::FunctionCall2Coll(
                pg_sys::index_getprocinfo(self.index.as_ptr(), at as i16 + 1, BTORDER_PROC),
                self.index.collation(at),
                *(*self.before).tts_values.add(at),
                *(*self.last).tts_values.add(at),
            );
            order.value() as i32 == 0
        }
    }

    unsafe fn tid(&self, row: *mut pg_sys::TupleTableSlot) -> Tid {
        // SAFETY: the slot is deformed; its last column is the TID.
        unsafe { tid::read((*(*row).tts_values.add(self.columns.len())).cast_mut_ptr()) }
    }

    pub fn end(self) {
        // SAFETY: begun by `begin`, and ended once.
        unsafe {
            pg_sys::tuplesort_end(self.sort);
            for slot in [self.entering, self.last, self.before] {
                pg_sys::ExecDropSingleTupleTableSlot(slot);
            }
        }
    }
}

/// Some columns of a table, from 1, and a TID.
fn describe(table: Descriptor<'_>, columns: &[u16]) -> pg_sys::TupleDesc {
    // SAFETY: the columns are those of the key; types are of the table, since an index may store others.
    unsafe {
        let descriptor = pg_sys::CreateTemplateTupleDesc(columns.len() as i32 + 1);
        for (number, &column) in (1..).zip(columns) {
            pg_sys::TupleDescCopyEntry(descriptor, number, table.as_ptr(), column as i16);
        }
        let last = columns.len() as i16 + 1;
        pg_sys::TupleDescInitEntry(descriptor, last, c"ctid".as_ptr(), pg_sys::TIDOID, -1, 0);
        descriptor
    }
}

/// The operator that a key column of an index, from 0, is ordered by.
fn less_than(index: Index<'_>, at: usize) -> pg_sys::Oid {
    // SAFETY: the index is open; the arrays have an entry for each key column.
    unsafe {
        let (family, input) = (index.operator_family(at), index.input_type(at));
        pg_sys::get_opfamily_member(family, input, input, pg_sys::BTLessStrategyNumber as i16)
    }
}
