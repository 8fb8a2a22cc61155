//! Groups that go up in the order of their columns, so that core's final step needs no sort below it. Those that memory holds are put in order where
//! they are; where there are more, all of them go through a sort of core's.

use super::chunk::Work;
use super::emit::Emitter;
use super::groups::Groups;
use super::sort_key::SortKey;
use crate::pg::executor;
use pgrx::pg_sys::{self, Oid};
use std::cmp::Ordering;

/// What puts the groups of an execution in order.
pub struct Sorter {
    keys: Vec<SortKey>,
    /// Null before memory is full.
    sort: *mut pg_sys::Tuplesortstate,
    /// For rows that come from it.
    slot: *mut pg_sys::TupleTableSlot,
}

impl Sorter {
    /// None where a plan wants no order.
    pub fn new(keys: &[SortKey]) -> Option<Sorter> {
        (!keys.is_empty()).then(|| Sorter {
            keys: keys.to_vec(),
            sort: core::ptr::null_mut(),
            slot: core::ptr::null_mut(),
        })
    }

    /// The groups in order; empty where they were met in it.
    pub fn order(&self, groups: &Groups) -> Vec<u32> {
        let compare = |one: &u32, other: &u32| {
            let orders = self
                .keys
                .iter()
                .map(|key| key.compare(groups, *one, *other));
            orders.fold(Ordering::Equal, Ordering::then)
        };
        let mut all: Vec<u32> = (0..groups.count() as u32).collect();
        if all.is_sorted_by(|one, other| compare(one, other).is_le()) {
            return Vec::new();
        }
        all.sort_unstable_by(compare);
        all
    }

    /// Has memory been full?
    pub fn has_spilled(&self) -> bool {
        !self.sort.is_null()
    }

    /// Hands all groups on to core's sort.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node, of which the emitter is; the groups may be forgotten then.
    pub unsafe fn spill(
        &mut self,
        node: *mut pg_sys::CustomScanState,
        emitter: &mut Emitter,
        work: &Work,
    ) {
        // SAFETY: by contract; the sort and its slot live as long as the query's memory.
        unsafe {
            if self.sort.is_null() {
                self.begin(node, emitter.slot());
            }
            for group in 0..work.groups.count() {
                pg_sys::tuplesort_puttupleslot(self.sort, emitter.fill(work, group));
            }
        }
    }

    unsafe fn begin(
        &mut self,
        node: *mut pg_sys::CustomScanState,
        row: *mut pg_sys::TupleTableSlot,
    ) {
        let mut columns: Vec<i16> = self.keys.iter().map(|key| key.column as i16 + 1).collect();
        let mut operators: Vec<Oid> = self.keys.iter().map(|key| key.operator).collect();
        let mut collations = vec![pg_sys::InvalidOid; self.keys.len()];
        let mut nulls: Vec<bool> = self.keys.iter().map(|key| key.has_nulls_first).collect();
        // SAFETY: the caller's contract; the arrays, which are copied, have an entry for each key.
        unsafe {
            let estate = (*node).ss.ps.state;
            let descriptor = (*row).tts_tupleDescriptor;
            let old = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
            if self.slot.is_null() {
                let ops = core::ptr::addr_of!(pg_sys::TTSOpsMinimalTuple);
                self.slot = pg_sys::ExecInitExtraTupleSlot(estate, descriptor, ops);
            }
            self.sort = pg_sys::tuplesort_begin_heap(
                descriptor,
                self.keys.len() as i32,
                columns.as_mut_ptr(),
                operators.as_mut_ptr(),
                collations.as_mut_ptr(),
                nulls.as_mut_ptr(),
                pg_sys::work_mem,
                core::ptr::null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            );
            pg_sys::MemoryContextSwitchTo(old);
        }
    }

    /// All groups are there.
    ///
    /// # Safety
    /// As `spill`, which was called.
    pub unsafe fn finish(&mut self) {
        // SAFETY: by contract.
        unsafe { pg_sys::tuplesort_performsort(self.sort) }
    }

    /// The next row in order, if there is one.
    ///
    /// # Safety
    /// As `finish`, which was called.
    pub unsafe fn next(&mut self, emitter: &Emitter) -> Option<*mut pg_sys::TupleTableSlot> {
        // SAFETY: by contract.
        unsafe {
            let no_key = core::ptr::null_mut();
            if !pg_sys::tuplesort_gettupleslot(self.sort, true, false, self.slot, no_key) {
                return None;
            }
            let columns = (*(*self.slot).tts_tupleDescriptor).natts as usize;
            let (values, nulls) = executor::attributes(self.slot, columns);
            Some(emitter.show(values, nulls))
        }
    }

    /// Lets go of what was sorted.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn end(&mut self) {
        // SAFETY: by contract.
        unsafe {
            if !self.slot.is_null() {
                executor::clear_tuple(self.slot);
            }
            if !self.sort.is_null() {
                pg_sys::tuplesort_end(self.sort);
                self.sort = core::ptr::null_mut();
            }
        }
    }
}
