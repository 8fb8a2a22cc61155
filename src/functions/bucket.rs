//! Bucket arithmetic on numbers alone: fixed widths, calendar months, and moving a time by an interval.
//!
//! Times are microseconds since 2000-01-01 00:00 of a clock without jumps (UTC, or some zone's local time, see `timezone`).
//! A bucket of fixed width w with origin o is `t - ((t - o) mod w)`, the remainder never negative. Buckets of months count
//! months since the month of the origin. Civil dates follow the proleptic Gregorian calendar; the conversion counts days in
//! 400-year eras of years that begin in March, so that the leap day is the last of its year.
use crate::pg::Interval;

pub const DAY_US: i64 = 86_400_000_000;
/// Monday 2000-01-03: weeks begin on Mondays.
pub const DEFAULT_ORIGIN_US: i64 = 2 * DAY_US;
/// Year 2000, January.
const DEFAULT_ORIGIN_MONTH: i64 = 2000 * 12;
/// The range of `timestamp`: 4714-11-24 BC up to, not including, 294277-01-01.
const MIN_TIMESTAMP_US: i64 = -211_813_488_000_000_000;
pub const END_TIMESTAMP_US: i64 = 9_223_371_331_200_000_000;
/// Days from 0000-03-01 to 2000-01-01.
const ERA_SHIFT_DAYS: i64 = 730_425;

/// What can be wrong with a bucket's width, or with its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BucketError {
    NotPositive,
    MonthsAndTime,
    TooWide,
    NotWholeDays,
    InfiniteOrigin,
    OutOfRange,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Width {
    /// Microseconds.
    Fixed(i64),
    Months(i64),
}

impl Width {
    #[inline(always)]
    pub fn of(interval: &Interval) -> Result<Width, BucketError> {
        if interval.month == 0 {
            // A day is 24 hours here; |day| * DAY_US stays below 2^63 / 49, so only the sum can overflow.
            match (i64::from(interval.day) * DAY_US).checked_add(interval.time) {
                Some(us) if us > 0 => Ok(Width::Fixed(us)),
                Some(_) => Err(BucketError::NotPositive),
                None => Err(BucketError::TooWide),
            }
        } else if interval.day != 0 || interval.time != 0 {
            Err(if is_infinite_interval(interval) {
                BucketError::TooWide
            } else {
                BucketError::MonthsAndTime
            })
        } else if interval.month < 0 {
            Err(BucketError::NotPositive)
        } else {
            Ok(Width::Months(interval.month.into()))
        }
    }

    /// The same for dates, where a fixed width is in whole days.
    pub fn of_days(interval: &Interval) -> Result<Width, BucketError> {
        match Width::of(interval)? {
            Width::Fixed(us) if us % DAY_US != 0 => Err(BucketError::NotWholeDays),
            width => Ok(width),
        }
    }
}

/// PostgreSQL 17 and later spell infinite intervals with all three fields at their limit.
fn is_infinite_interval(i: &Interval) -> bool {
    (i.month == i32::MAX && i.day == i32::MAX && i.time == i64::MAX)
        || (i.month == i32::MIN && i.day == i32::MIN && i.time == i64::MIN)
}

#[inline(always)]
pub fn is_infinite(us: i64) -> bool {
    us == i64::MIN || us == i64::MAX
}

#[inline(always)]
fn in_range(us: i64) -> Result<i64, BucketError> {
    if (MIN_TIMESTAMP_US..END_TIMESTAMP_US).contains(&us) {
        Ok(us)
    } else {
        Err(BucketError::OutOfRange)
    }
}

/// The start of the bucket that contains `us`; infinite times are their own bucket.
#[inline(always)]
pub fn bucket(width: Width, us: i64, origin: Option<i64>) -> Result<i64, BucketError> {
    if is_infinite(us) {
        return Ok(us);
    }
    let start = match width {
        Width::Fixed(width_us) => fixed(width_us, us, origin.unwrap_or(DEFAULT_ORIGIN_US))?,
        Width::Months(months) => {
            let origin_month = origin.map_or(DEFAULT_ORIGIN_MONTH, month_of);
            month_start(month_of(us) - (month_of(us) - origin_month).rem_euclid(months))?
        }
    };
    in_range(start)
}

/// `us - ((us - origin) mod width)`. Serves integers too.
#[inline(always)]
pub fn fixed(width: i64, us: i64, origin: i64) -> Result<i64, BucketError> {
    if let Some(since) = us.checked_sub(origin) {
        if let Some(start) = us.checked_sub(since.rem_euclid(width)) {
            return Ok(start);
        }
    }
    let us = i128::from(us);
    i64::try_from(us - (us - i128::from(origin)).rem_euclid(width.into()))
        .map_err(|_| BucketError::OutOfRange)
}

/// The bucket of a date, both in days since 2000-01-01.
pub fn bucket_date(width: Width, days: i32, origin: Option<i32>) -> Result<i32, BucketError> {
    if days == i32::MIN || days == i32::MAX {
        return Ok(days);
    }
    let start = match width {
        Width::Fixed(us) => fixed(
            us / DAY_US,
            days.into(),
            origin.map_or(DEFAULT_ORIGIN_US / DAY_US, i64::from),
        )?,
        Width::Months(months) => {
            let month = month_of_day(days.into());
            let origin_month = origin.map_or(DEFAULT_ORIGIN_MONTH, |o| month_of_day(o.into()));
            days_from_civil(month - (month - origin_month).rem_euclid(months), 1)
        }
    };
    date_in_range(start)
}

/// The range of `date`: 4714-11-24 BC up to 5874897-12-31.
pub fn date_in_range(days: i64) -> Result<i32, BucketError> {
    match i32::try_from(days) {
        Ok(days) if (-2_451_545..2_145_031_949).contains(&days) => Ok(days),
        _ => Err(BucketError::OutOfRange),
    }
}

/// The start of the bucket after the one that starts at `start`, on a clock without jumps.
pub fn next(width: Width, start: i64) -> Result<i64, BucketError> {
    match width {
        Width::Fixed(us) => start.checked_add(us).ok_or(BucketError::OutOfRange),
        Width::Months(months) => month_start(month_of(start) + months),
    }
}

/// `us + interval` (or `-`) on a clock without jumps: months first (the day clamped to the month's end), then days, then time.
pub fn shift(us: i64, interval: &Interval, negate: bool) -> Result<i64, BucketError> {
    let sign = if negate { -1 } else { 1 };
    let (mut days, time) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    if interval.month != 0 {
        let (month, day) = civil_from_days(days);
        let month = month + sign * i64::from(interval.month);
        let last = days_from_civil(month + 1, 1) - days_from_civil(month, 1);
        days = days_from_civil(month, day.min(last));
    }
    days += sign * i64::from(interval.day);
    let moved = i128::from(days) * i128::from(DAY_US)
        + i128::from(time)
        + i128::from(sign) * i128::from(interval.time);
    in_range(i64::try_from(moved).map_err(|_| BucketError::OutOfRange)?)
}

/// Months since January of year 0.
pub fn month_of(us: i64) -> i64 {
    month_of_day(us.div_euclid(DAY_US))
}

fn month_of_day(days: i64) -> i64 {
    civil_from_days(days).0
}

/// The first instant of a month.
pub fn month_start(month: i64) -> Result<i64, BucketError> {
    days_from_civil(month, 1)
        .checked_mul(DAY_US)
        .ok_or(BucketError::OutOfRange)
}

/// Days since 2000-01-01 to (months since January of year 0, day of the month).
fn civil_from_days(days: i64) -> (i64, i64) {
    let days = days + ERA_SHIFT_DAYS;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * march_month + 2) / 5 + 1;
    // March is month 2 of its year when January is month 0.
    ((era * 400 + year) * 12 + march_month + 2, day)
}

/// The inverse of `civil_from_days`.
fn days_from_civil(month: i64, day: i64) -> i64 {
    let from_march = month - 2;
    let (year, march_month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
    let (era, in_era_year) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * march_month + 2) / 5 + day - 1;
    let in_era = in_era_year * 365 + in_era_year / 4 - in_era_year / 100 + in_year;
    era * 146_097 + in_era - ERA_SHIFT_DAYS
}
