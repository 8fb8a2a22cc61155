//! The server's clock.

use pgrx::pg_sys::{self, Datum, Interval, InvalidOid, Oid};

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
pub fn later(time: i64, interval: Interval) -> i64 {
    // SAFETY: the function takes a timestamptz and an interval.
    unsafe { moved(time, interval, pg_sys::F_TIMESTAMPTZ_PL_INTERVAL) }
}

/// A time, of a time zone, and an interval earlier, by the clock of the session's zone.
pub fn earlier(time: i64, interval: Interval) -> i64 {
    // SAFETY: the function takes a timestamptz and an interval.
    unsafe { moved(time, interval, pg_sys::F_TIMESTAMPTZ_MI_INTERVAL) }
}

/// The same of a time without a zone.
pub fn earlier_here(time: i64, interval: Interval) -> i64 {
    // SAFETY: the function takes a timestamp and an interval.
    unsafe { moved(time, interval, pg_sys::F_TIMESTAMP_MI_INTERVAL) }
}

/// What the clock of the session's zone shows at a time: a time without a zone.
pub fn here(time: i64) -> i64 {
    let function = Oid::from(pg_sys::F_TIMESTAMP_TIMESTAMPTZ);
    // SAFETY: the function takes a timestamptz by value.
    let shown = unsafe { pg_sys::OidFunctionCall1Coll(function, InvalidOid, Datum::from(time)) };
    shown.value() as i64
}

/// # Safety
/// The function must take a time of eight bytes and an interval, and return such a time.
unsafe fn moved(time: i64, mut interval: Interval, function: u32) -> i64 {
    let interval = Datum::from(core::ptr::addr_of_mut!(interval));
    let (function, time) = (Oid::from(function), Datum::from(time));
    // SAFETY: a time is passed by value and an interval by reference.
    let moved = unsafe { pg_sys::OidFunctionCall2Coll(function, InvalidOid, time, interval) };
    moved.value() as i64
}
