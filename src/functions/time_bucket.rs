//! `time_bucket`: the start of the bucket that a time or an integer falls into.
//!
//! Without a time zone, `timestamptz` is bucketed by the clock of UTC, offsets included, so the result does not depend on the
//! session's time zone and the function is IMMUTABLE. The common forms allocate nothing and call nothing.
use super::bucket::{self, bucket, bucket_date, date_in_range, shift, BucketError, Width, DAY_US};
use super::errors::{invalid, raise, Code};
use super::timezone::Zone;
use crate::pg::fcinfo::{
    arg, arg_opt, guarded, interval_arg, null, sql_function, text_bytes, Fcinfo,
};
use crate::pg::fcinfo::{is_one_of, Function};
use crate::pg::memory;
use crate::pg::{Datum, Interval, Oid};

/// Raises the error that users see.
#[cold]
pub fn raise_bucket_error(error: BucketError) -> ! {
    match error {
        BucketError::NotPositive => invalid(
            "bucket width must be greater than zero",
            "Give a width such as '5 minutes'.",
        ),
        BucketError::TooWide => invalid(
            "bucket width is too large",
            "The limit is the range of a 64-bit number of microseconds.",
        ),
        BucketError::InfiniteOrigin => invalid(
            "origin and offset must be finite",
            "Leave the argument out for the default.",
        ),
        BucketError::MonthsAndTime => raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "bucket width mixes months with days or time",
            "Months differ in length, so such buckets have no common origin.",
            "Use months and years alone, or days and time alone.",
        ),
        BucketError::NotWholeDays => raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "bucket width of a date must be a whole number of days or months",
            "",
            "Cast the date to timestamp for shorter buckets.",
        ),
        BucketError::OutOfRange => raise(
            Code::ERRCODE_DATETIME_FIELD_OVERFLOW,
            "bucket lies outside the range of its type",
            "",
            "Use a smaller width or another origin.",
        ),
    }
}

#[inline(always)]
fn time_result(result: Result<i64, BucketError>) -> Datum {
    match result {
        Ok(us) => Datum::from(us),
        Err(error) => guarded(|| raise_bucket_error(error)),
    }
}

/// A finite origin; the bucket functions take any other for granted.
#[inline(always)]
fn finite(us: i64) -> Result<i64, BucketError> {
    if bucket::is_infinite(us) {
        Err(BucketError::InfiniteOrigin)
    } else {
        Ok(us)
    }
}

sql_function! {
    /// `time_bucket(interval, timestamptz | timestamp)`
    fn varve_time_bucket(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let (width, us) = unsafe { (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i64) };
        time_result(Width::of(width).and_then(|width| bucket(width, us, None)))
    }
}

sql_function! {
    /// `time_bucket(interval, timestamptz | timestamp, origin timestamptz | timestamp)`
    fn varve_time_bucket_origin(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let (width, us, origin) =
            unsafe { (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i64, arg(fcinfo, 2).value() as i64) };
        time_result(Width::of(width).and_then(|width| bucket(width, us, Some(finite(origin)?))))
    }
}

sql_function! {
    /// `time_bucket(interval, timestamptz | timestamp, "offset" interval)`
    fn varve_time_bucket_offset(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let (width, us, offset) =
            unsafe { (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i64, interval_arg(fcinfo, 2)) };
        time_result(Width::of(width).and_then(|width| {
            if bucket::is_infinite(us) {
                return Ok(us);
            }
            shift(bucket(width, shift(us, offset, true)?, None)?, offset, false)
        }))
    }
}

sql_function! {
    /// `time_bucket(interval, date [, origin date])`
    fn varve_time_bucket_date(fcinfo) {
        // SAFETY: declared STRICT with these argument types; the origin is there if nargs says so.
        unsafe {
            let origin = (fcinfo.arguments() > 2).then(|| arg(fcinfo, 2).value() as i32);
            date(fcinfo, origin)
        }
    }
}

/// The bucket of a date.
///
/// # Safety
/// `fcinfo` is a call with a width and a date, neither NULL.
pub unsafe fn date(fcinfo: Fcinfo, origin: Option<i32>) -> Datum {
    // SAFETY: the caller's promise.
    let (width, days) = unsafe { (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i32) };
    date_result(Width::of_days(width).and_then(|width| match origin {
        Some(i32::MIN | i32::MAX) => Err(BucketError::InfiniteOrigin),
        _ => bucket_date(width, days, origin),
    }))
}

sql_function! {
    /// `time_bucket(interval, date, "offset" interval)`
    fn varve_time_bucket_date_offset(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let (width, days, offset) =
            unsafe { (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i32, interval_arg(fcinfo, 2)) };
        date_result(Width::of_days(width).and_then(|width| {
            if days == i32::MIN || days == i32::MAX {
                return Ok(days);
            }
            let midnight = i64::from(days).checked_mul(DAY_US).ok_or(BucketError::OutOfRange)?;
            let start = shift(bucket(width, shift(midnight, offset, true)?, None)?, offset, false)?;
            date_in_range(start.div_euclid(DAY_US))
        }))
    }
}

#[inline(always)]
fn date_result(result: Result<i32, BucketError>) -> Datum {
    match result {
        Ok(days) => Datum::from(days),
        Err(error) => guarded(|| raise_bucket_error(error)),
    }
}

sql_function! {
    /// `time_bucket(interval, timestamptz, timezone text, origin timestamptz, "offset" interval)`; origin and offset may be NULL.
    fn varve_time_bucket_zone(fcinfo) {
        // SAFETY: declared with these argument types; NULLs are looked for before use.
        unsafe {
            if (0..3).any(|n| arg_opt(fcinfo, n).is_none()) {
                return null(fcinfo);
            }
            let origin = arg_opt(fcinfo, 3).map(|origin| origin.value() as i64);
            let offset = arg_opt(fcinfo, 4).map(|_| interval_arg(fcinfo, 4));
            bucket_in_cached_zone(fcinfo, origin, offset)
        }
    }
}

/// The bucket of a time by a zone's clock.
///
/// # Safety
/// `fcinfo` is a call with a width, a time and a zone's name, none of them NULL.
pub unsafe fn bucket_in_cached_zone(
    fcinfo: Fcinfo,
    origin: Option<i64>,
    offset: Option<&Interval>,
) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let (width, us) = (interval_arg(fcinfo, 0), arg(fcinfo, 1).value() as i64);
        guarded(|| {
            let zone = cached_zone(fcinfo, arg(fcinfo, 2));
            time_result(in_zone(zone, width, us, origin, offset))
        })
    }
}

fn in_zone(
    zone: &mut Zone,
    width: &Interval,
    us: i64,
    origin: Option<i64>,
    offset: Option<&Interval>,
) -> Result<i64, BucketError> {
    let width = Width::of(width)?;
    let origin = match origin {
        Some(origin) => Some(zone.local_time(finite(origin)?)),
        None => None,
    };
    if bucket::is_infinite(us) {
        return Ok(us);
    }
    match offset {
        None => zone.bucket(width, us, origin),
        Some(offset) => shift(
            zone.bucket(width, shift(us, offset, true)?, origin)?,
            offset,
            false,
        ),
    }
}

/// A zone and the name it was found by, kept from call to call.
struct CachedZone {
    zone: Zone,
    name_len: usize,
    /// Allocated beside this, in the function's context.
    name: *mut u8,
}

/// The zone that `name` names: that of the previous call of this expression, if it has the same name.
///
/// # Safety
/// `fcinfo` is the current call's, `name` a non-null text; must run inside a guarded entry point.
unsafe fn cached_zone<'a>(fcinfo: Fcinfo, name: Datum) -> &'a mut Zone {
    // SAFETY: the caller's promise. fn_extra is ours alone, and what it points to lives in fn_mcxt, as long as flinfo.
    unsafe {
        let name = text_bytes(name);
        let kept = fcinfo.kept().cast::<CachedZone>();
        if !kept.is_null() {
            let cached = &mut *kept;
            if std::slice::from_raw_parts(cached.name, cached.name_len) == name {
                return &mut cached.zone;
            }
            memory::free(cached.name);
            memory::free(kept);
            fcinfo.keep(std::ptr::null_mut());
        }
        let zone = Zone::find(name);
        let copy = fcinfo.memory().alloc(name.len().max(1));
        std::ptr::copy_nonoverlapping(name.as_ptr(), copy, name.len());
        let cached = fcinfo.memory().place(CachedZone {
            zone,
            name_len: name.len(),
            name: copy,
        });
        fcinfo.keep(cached.cast());
        &mut (*cached).zone
    }
}

/// The bucket of an integer, with the range of its type.
#[inline(always)]
pub fn integer(width: i64, value: i64, offset: i64, min: i64) -> Datum {
    let start = if width <= 0 {
        Err(BucketError::NotPositive)
    } else {
        bucket::fixed(width, value, offset)
    };
    match start {
        Ok(start) if start >= min => Datum::from(start),
        Ok(_) | Err(BucketError::OutOfRange) => guarded(|| {
            raise(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "bucket lies outside the range of its type",
                "",
                "Cast to a larger integer type.",
            )
        }),
        Err(error) => guarded(|| raise_bucket_error(error)),
    }
}

/// The optional third argument of the integer forms.
///
/// # Safety
/// `fcinfo` is the current call's, of a strict function.
#[inline(always)]
unsafe fn offset_arg(fcinfo: Fcinfo) -> Datum {
    // SAFETY: nargs tells whether the argument is there.
    unsafe {
        if fcinfo.arguments() > 2 {
            arg(fcinfo, 2)
        } else {
            Datum::from(0usize)
        }
    }
}

sql_function! {
    /// `time_bucket(smallint, smallint [, "offset" smallint])`
    fn varve_time_bucket_int2(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let [width, value, offset] =
            unsafe { [arg(fcinfo, 0), arg(fcinfo, 1), offset_arg(fcinfo)] }.map(|d| i64::from(d.value() as i16));
        integer(width, value, offset, i16::MIN.into())
    }
}

sql_function! {
    /// `time_bucket(integer, integer [, "offset" integer])`
    fn varve_time_bucket_int4(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let [width, value, offset] =
            unsafe { [arg(fcinfo, 0), arg(fcinfo, 1), offset_arg(fcinfo)] }.map(|d| i64::from(d.value() as i32));
        integer(width, value, offset, i32::MIN.into())
    }
}

sql_function! {
    /// `time_bucket(bigint, bigint [, "offset" bigint])`
    fn varve_time_bucket_int8(fcinfo) {
        // SAFETY: declared STRICT with these argument types.
        let [width, value, offset] =
            unsafe { [arg(fcinfo, 0), arg(fcinfo, 1), offset_arg(fcinfo)] }.map(|d| d.value() as i64);
        integer(width, value, offset, i64::MIN)
    }
}

/// Is this one of the functions above? Within a guarded entry point.
pub fn is_time_bucket(function: Oid) -> bool {
    let known: [Function; 9] = [
        varve_time_bucket,
        varve_time_bucket_origin,
        varve_time_bucket_offset,
        varve_time_bucket_zone,
        varve_time_bucket_date,
        varve_time_bucket_date_offset,
        varve_time_bucket_int2,
        varve_time_bucket_int4,
        varve_time_bucket_int8,
    ];
    is_one_of(function, &known)
}
