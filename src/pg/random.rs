//! Random numbers from the operating system.

use pgrx::pg_sys;

pub fn number() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: fills exactly the eight bytes.
    let strong = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    assert!(strong, "BUG: no random numbers from the operating system");
    u64::from_le_bytes(bytes)
}
