//! Calls of heap's own table access method.

use pgrx::pg_sys;

/// Do options of an insert say that only new pages are to be filled?
pub fn fills_new_pages(options: i32) -> bool {
    options & pg_sys::HEAP_INSERT_SKIP_FSM as i32 != 0
}

/// Calls heapam's own callback of a name; its errors become panics, so that what lives in our frames is
/// dropped.
macro_rules! heap_callback {
    ($name:ident, $($arg:expr),* $(,)?) => {{
        let callback = (*$crate::pg::bare::GetHeapamTableAmRoutine())
            .$name
            .expect("BUG: heap lacks a callback");
        pg_sys::ffi::pg_guard_ffi_boundary(|| callback($($arg),*))
    }};
}
pub(crate) use heap_callback;
