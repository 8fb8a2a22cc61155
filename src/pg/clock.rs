//! The server's clock.

use pgrx::pg_sys;

/// Microseconds since 2000.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Waits so many microseconds, or until a signal comes.
pub fn pause(us: i64) {
    // SAFETY: waits.
    unsafe { pg_sys::pg_usleep(us) }
}

/// A time, of a time zone, and an interval later, by the clock of the session's zone.
pub fn later(time: i64, mut interval: pg_sys::Interval) -> i64 {
    // SAFETY: the function takes a timestamptz by value and an interval by reference.
    let sum = unsafe {
        pg_sys::OidFunctionCall2Coll(
            pg_sys::Oid::from(pg_sys::F_TIMESTAMPTZ_PL_INTERVAL),
            pg_sys::InvalidOid,
            pg_sys::Datum::from(time),
            pg_sys::Datum::from(core::ptr::addr_of_mut!(interval)),
        )
    };
    sum.value() as i64
}
