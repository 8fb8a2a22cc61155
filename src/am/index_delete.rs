//! Which entries nbtree may delete before VACUUM does. It asks the table about entries that scans have found dead, and names them by
//! their TIDs: those of headers are shown to heap without the bit that marks them, as in `series_index::vacuum`.

use crate::chunk::index_entries::{entry_of_header, header_of_entry};
use crate::pg::heap::heap_callback;
use crate::pg::relation::Table;
use crate::pg::tid;
use pgrx::pg_sys;
use pgrx::prelude::*;

#[pg_guard]
pub unsafe extern "C-unwind" fn index_delete_tuples(
    table: pg_sys::Relation,
    state: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with as many entries as it says. Heap sorts them, may leave some out, and keeps their numbers.
    unsafe {
        let mut headers = Vec::new();
        for entry in entries(state) {
            if let Some(header) = header_of_entry(tid::from_pg(&entry.tid)) {
                entry.tid = tid::to_pg(header);
                headers.push(entry.id);
            }
        }
        let horizon = heap_callback!(index_delete_tuples, table.as_ptr(), state);
        if !headers.is_empty() {
            headers.sort_unstable();
            for entry in entries(state) {
                if headers.binary_search(&entry.id).is_ok() {
                    entry.tid = tid::to_pg(entry_of_header(tid::from_pg(&entry.tid)));
                }
            }
        }
        horizon
    }
}

/// The entries that nbtree asks about.
///
/// # Safety
/// `state` must be what core has called `index_delete_tuples` with. The slice may not outlive that call, nor be used once `entries` is called
/// again.
unsafe fn entries<'a>(state: *mut pg_sys::TM_IndexDeleteOp) -> &'a mut [pg_sys::TM_IndexDelete] {
    // SAFETY: the caller's contract; the slice is not kept.
    unsafe { core::slice::from_raw_parts_mut((*state).deltids, (*state).ndeltids as usize) }
}
