//! The server's clock.

use pgrx::pg_sys;

/// Microseconds since 2000.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}
