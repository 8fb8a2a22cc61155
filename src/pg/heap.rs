//! Calls of heap's own table access method.

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
