//! `time_bucket_gapfill`, `locf` and `interpolate` as functions, for the planner to find them in queries. Executed by itself,
//! `time_bucket_gapfill` is `time_bucket`; the other two mean nothing outside of it.

use super::errors::{raise, Code};
use super::time_bucket::{bucket_in_cached_zone, integer, varve_time_bucket};
use crate::pg::fcinfo::{self, Function};
use crate::pg::fcinfo::{arg, arg_opt, guarded, null, sql_function, Fcinfo};
use crate::pg::Oid;

/// What a call means to the planner hook.
#[derive(Clone, Copy, PartialEq)]
pub enum Marker {
    Bucket,
    Locf,
    Interpolate,
}

/// Is a function one of this module, whatever name and schema it has? Within a guarded entry point.
pub fn marker_of(function: Oid) -> Option<Marker> {
    let buckets: [Function; 6] = [
        varve_gapfill_int2,
        varve_gapfill_int4,
        varve_gapfill_int8,
        varve_gapfill_date,
        varve_gapfill_time,
        varve_gapfill_zone,
    ];
    let one_of = fcinfo::among(function)?;
    if one_of(&[varve_locf]) {
        Some(Marker::Locf)
    } else if one_of(&[varve_interpolate]) {
        Some(Marker::Interpolate)
    } else if one_of(&buckets) {
        Some(Marker::Bucket)
    } else {
        None
    }
}

/// Whether width or time is NULL.
///
/// # Safety
/// `fcinfo` is the current call's and has two arguments at least.
unsafe fn is_null(fcinfo: Fcinfo) -> bool {
    // SAFETY: the caller's promise.
    unsafe { arg_opt(fcinfo, 0).is_none() || arg_opt(fcinfo, 1).is_none() }
}

sql_function! {
    /// `time_bucket_gapfill(smallint, smallint, start, finish)`
    fn varve_gapfill_int2(fcinfo) {
        // SAFETY: declared with these argument types.
        unsafe {
            if is_null(fcinfo) {
                return null(fcinfo);
            }
            integer((arg(fcinfo, 0).value() as i16).into(), (arg(fcinfo, 1).value() as i16).into(), 0, i16::MIN.into())
        }
    }
}

sql_function! {
    /// `time_bucket_gapfill(integer, integer, start, finish)`
    fn varve_gapfill_int4(fcinfo) {
        // SAFETY: declared with these argument types.
        unsafe {
            if is_null(fcinfo) {
                return null(fcinfo);
            }
            integer((arg(fcinfo, 0).value() as i32).into(), (arg(fcinfo, 1).value() as i32).into(), 0, i32::MIN.into())
        }
    }
}

sql_function! {
    /// `time_bucket_gapfill(bigint, bigint, start, finish)`
    fn varve_gapfill_int8(fcinfo) {
        // SAFETY: declared with these argument types.
        unsafe {
            if is_null(fcinfo) {
                return null(fcinfo);
            }
            integer(arg(fcinfo, 0).value() as i64, arg(fcinfo, 1).value() as i64, 0, i64::MIN)
        }
    }
}

sql_function! {
    /// `time_bucket_gapfill(interval, date, start, finish)`
    fn varve_gapfill_date(fcinfo) {
        // SAFETY: declared with these argument types; the callee takes the first two.
        unsafe {
            if is_null(fcinfo) {
                return null(fcinfo);
            }
            super::time_bucket::date(fcinfo, None)
        }
    }
}

sql_function! {
    /// `time_bucket_gapfill(interval, timestamptz | timestamp, start, finish)`
    fn varve_gapfill_time(fcinfo) {
        // SAFETY: declared with these argument types; the callee takes the first two.
        unsafe {
            if is_null(fcinfo) {
                return null(fcinfo);
            }
            varve_time_bucket(fcinfo)
        }
    }
}

sql_function! {
    /// `time_bucket_gapfill(interval, timestamptz, timezone text, start, finish)`
    fn varve_gapfill_zone(fcinfo) {
        // SAFETY: declared with these argument types.
        unsafe {
            if is_null(fcinfo) || arg_opt(fcinfo, 2).is_none() {
                return null(fcinfo);
            }
            bucket_in_cached_zone(fcinfo, None, None)
        }
    }
}

#[cold]
fn outside_gapfill(function: &str) -> ! {
    raise(
        Code::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("{function} must stand in the select list of a query that groups by time_bucket_gapfill"),
        "It is filled in above the grouping, before window functions, and not inside an aggregate.",
        "Compute it in a subquery that groups by time_bucket_gapfill.",
    )
}

sql_function! {
    /// `locf(value, prev, treat_null_as_missing)`, where no gap-filling node has replaced it.
    fn varve_locf(_fcinfo) {
        guarded(|| outside_gapfill("locf"))
    }
}

sql_function! {
    /// `interpolate(value, prev, next)`, where no gap-filling node has replaced it.
    fn varve_interpolate(_fcinfo) {
        guarded(|| outside_gapfill("interpolate"))
    }
}
