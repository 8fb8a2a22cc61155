//! The write-ahead log.

use pgrx::pg_sys;

/// Bytes that this process has written to the log, full pages too.
pub fn bytes_written() -> u64 {
    // SAFETY: a variable of this process, which no other thread writes.
    unsafe { pg_sys::pgWalUsage.wal_bytes }
}
