//! VACUUM of a series index: nbtree's, with header entries shown to core by the TIDs of their headers.

use crate::chunk::index_entries;
use crate::pg::nbtree;
use crate::pg::tid::{self, Tid};
use pgrx::pg_sys;
use pgrx::prelude::*;

struct Question {
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut core::ffi::c_void,
    /// The header that was asked about last, and the answer: a long series has many entries of a chunk side by side.
    last: Option<(Tid, bool)>,
}

/// Is the tuple that an entry names dead?
#[pg_guard]
unsafe extern "C-unwind" fn is_dead(
    item: pg_sys::ItemPointer,
    state: *mut core::ffi::c_void,
) -> bool {
    // SAFETY: nbtree hands back the state given by `bulk_delete`.
    unsafe {
        let question = &mut *state.cast::<Question>();
        let callback = question.callback.expect("BUG: no callback");
        let entry = tid::read(item);
        let header = index_entries::header_of_entry(entry);
        if let (Some(header), Some((last, answer))) = (header, question.last) {
            if header == last {
                return answer;
            }
        }
        let mut at = tid::to_pg(header.unwrap_or(entry));
        let answer = pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&mut at, question.state));
        question.last = header.map(|header| (header, answer));
        answer
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn bulk_delete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut core::ffi::c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    let mut question = Question {
        callback,
        state,
        last: None,
    };
    // SAFETY: called by core; the question outlives the call.
    unsafe { nbtree::bulk_delete(info, stats, Some(is_dead), (&raw mut question).cast()) }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn cleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: called by core.
    unsafe { nbtree::vacuum_cleanup(info, stats) }
}
