//! Time zones that the server knows.

use core::ptr::NonNull;
use pgrx::pg_sys;
use std::ffi::CString;

/// A zone; they live as long as the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeZone(NonNull<pg_sys::pg_tz>);

impl TimeZone {
    /// A zone by abbreviation, offset or name, as AT TIME ZONE finds it. Within a guarded entry point.
    pub fn find(name: &[u8]) -> Option<TimeZone> {
        let name = CString::new(name).ok()?;
        let mut lower: Vec<u8> = name.as_bytes().to_ascii_lowercase();
        lower.push(0);
        let (mut offset, mut tz) = (0, std::ptr::null_mut());
        // SAFETY: NUL-terminated strings and pointers to locals.
        let found = unsafe {
            #[cfg(feature = "pg15")]
            let kind =
                pg_sys::DecodeTimezoneAbbrev(0, lower.as_mut_ptr().cast(), &mut offset, &mut tz);
            #[cfg(feature = "pg17")]
            let kind = {
                let (mut kind, mut extra) = (0, pg_sys::DateTimeErrorExtra::default());
                let token = lower.as_mut_ptr().cast();
                pg_sys::DecodeTimezoneAbbrev(0, token, &mut kind, &mut offset, &mut tz, &mut extra);
                kind
            };
            match kind as u32 {
                // An abbreviation's offset counts eastward, pg_tzset_offset's westward, as in POSIX.
                pg_sys::TZ | pg_sys::DTZ => pg_sys::pg_tzset_offset(-i64::from(offset)),
                pg_sys::DYNTZ => tz,
                _ => pg_sys::pg_tzset(name.as_ptr()),
            }
        };
        NonNull::new(found).map(TimeZone)
    }

    /// That of the session.
    pub fn of_session() -> Option<TimeZone> {
        // SAFETY: a setting of the server's.
        NonNull::new(unsafe { pg_sys::session_timezone }).map(TimeZone)
    }

    /// For PostgreSQL's functions.
    pub fn as_ptr(self) -> *mut pg_sys::pg_tz {
        self.0.as_ptr()
    }

    /// Is its clock never changed?
    pub fn is_fixed(self) -> bool {
        let mut offset = 0;
        // SAFETY: the zone is valid, the pointer is to a local.
        unsafe { pg_sys::pg_get_timezone_offset(self.as_ptr(), &mut offset) }
    }

    /// How many seconds the clock is ahead of UTC at a time, in seconds from the Unix epoch, and when it is next changed.
    pub fn offset_at(self, at: i64) -> (i64, Option<i64>) {
        let (mut before_off, mut before_dst, mut after_off, mut after_dst) = (0, 0, 0, 0);
        let mut boundary: pg_sys::pg_time_t = 0;
        // SAFETY: all pointers are to locals, the zone is valid.
        let found = unsafe {
            pg_sys::pg_next_dst_boundary(
                &at,
                &mut before_off,
                &mut before_dst,
                &mut boundary,
                &mut after_off,
                &mut after_dst,
                self.as_ptr(),
            )
        };
        (before_off, (found > 0).then_some(boundary))
    }
}
