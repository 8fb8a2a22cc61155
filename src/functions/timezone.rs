//! Buckets on a zone's local clock, and back to instants.
//!
//! The boundaries of the buckets are local times L = origin + k * width, and the bucket of t starts at the boundary at or
//! before the local time of t. Which instant is that boundary, on a day when the clock is changed?
//!
//! * A boundary that the clock was put forward over stands where it would have been without the change.
//! * A boundary that the clock shows twice: for widths below a day it is the latest one ≤ t, so that the repeated hour gets
//!   hours of its own; for days, weeks and months the first one, so that a local date is one bucket.
//!
//! A bucket never starts after t, and a bucket's start is its own bucket.
use super::bucket::{self, BucketError, Width, DAY_US};
use super::errors::invalid;
use crate::pg::time_zone::TimeZone;

const SECOND_US: i64 = 1_000_000;
/// Seconds from the Unix epoch to 2000-01-01.
const EPOCH_SHIFT_S: i64 = 946_684_800;
/// No zone's clock is further than this from UTC, and no change of a clock is larger (PostgreSQL accepts up to 167 hours).
const MAX_OFFSET_US: i64 = 7 * DAY_US;

/// A stretch of time in which the clock is not changed.
#[derive(Clone, Copy)]
struct Regime {
    /// Known to hold from here; it may have begun earlier.
    from: i64,
    until: i64,
    /// Local minus UTC.
    offset: i64,
}

/// A time zone, with the stretch of time that was looked at last and the bucket that was computed last.
pub struct Zone {
    tz: TimeZone,
    regime: Regime,
    last: Option<Last>,
}

struct Last {
    width: Width,
    origin: Option<i64>,
    /// Local times.
    boundary: i64,
    next_boundary: i64,
    start: i64,
}

impl Zone {
    /// A zone by name, abbreviation or offset, as in `AT TIME ZONE`.
    pub fn find(name: &[u8]) -> Zone {
        let unknown = || -> ! {
            let hint = if name.first().is_some_and(u8::is_ascii_digit) {
                "Should it be a time? Give it its type, timestamptz '…', or the name of its argument."
            } else {
                "pg_timezone_names lists the zones that this server knows."
            };
            invalid(
                format!(
                    "time zone \"{}\" not recognized",
                    String::from_utf8_lossy(name)
                ),
                hint,
            )
        };
        let tz = TimeZone::find(name).unwrap_or_else(|| unknown());
        Zone {
            tz,
            regime: Regime {
                from: 0,
                until: 0,
                offset: 0,
            },
            last: None,
        }
    }

    fn regime_at(&mut self, us: i64) -> Regime {
        if self.regime.from <= us && us < self.regime.until {
            return self.regime;
        }
        let (offset, changed) = self.tz.offset_at(us.div_euclid(SECOND_US) + EPOCH_SHIFT_S);
        let until = changed.map_or(i64::MAX, |at| {
            (at - EPOCH_SHIFT_S).saturating_mul(SECOND_US)
        });
        let offset = offset * SECOND_US;
        let mut from = us.div_euclid(SECOND_US).saturating_mul(SECOND_US);
        if self.regime.until == until && self.regime.offset == offset {
            from = from.min(self.regime.from);
        }
        let regime = Regime {
            from,
            until,
            offset,
        };
        self.regime = regime;
        regime
    }

    pub fn local_time(&mut self, us: i64) -> i64 {
        us + self.regime_at(us).offset
    }

    /// The first instant at which the local clock shows `local` or, if it is put forward over it, would have shown it.
    fn first_instant(&mut self, local: i64) -> i64 {
        let mut regime = self.regime_at(local - MAX_OFFSET_US);
        loop {
            let instant = local - regime.offset;
            if instant < regime.until {
                return instant;
            }
            let next = self.regime_at(regime.until);
            if local - next.offset < regime.until {
                return instant;
            }
            regime = next;
        }
    }

    /// The last change of the clock in (after, upto], with the offset before it.
    fn last_change(&mut self, after: i64, upto: i64) -> Option<(i64, i64)> {
        let mut found = None;
        let mut regime = self.regime_at(after);
        while regime.until <= upto {
            let next = self.regime_at(regime.until);
            if next.offset != regime.offset {
                found = Some((regime.until, regime.offset));
            }
            regime = next;
        }
        found
    }

    /// The start of the bucket that contains `us`. `origin` is a local time.
    pub fn bucket(
        &mut self,
        width: Width,
        us: i64,
        origin: Option<i64>,
    ) -> Result<i64, BucketError> {
        if bucket::is_infinite(us) {
            return Ok(us);
        }
        match width {
            Width::Fixed(w) if w < DAY_US => self.bucket_of_clock(width, us, origin),
            _ => self.bucket_of_calendar(width, us, origin),
        }
    }

    fn bucket_of_clock(
        &mut self,
        width: Width,
        us: i64,
        origin: Option<i64>,
    ) -> Result<i64, BucketError> {
        let local = self.local_time(us);
        let boundary = bucket::bucket(width, local, origin)?;
        let start = us - (local - boundary);
        match self.last_change(start, us) {
            None => Ok(start),
            Some((change, before)) if boundary < change + before => Ok(boundary - before),
            // The clock was put forward over the boundary.
            Some((_, before)) => Ok(bucket::bucket(width, us + before, origin)? - before),
        }
    }

    fn bucket_of_calendar(
        &mut self,
        width: Width,
        us: i64,
        origin: Option<i64>,
    ) -> Result<i64, BucketError> {
        let local = self.local_time(us);
        if let Some(last) = &self.last {
            let same = last.width == width && last.origin == origin;
            if same && last.boundary <= local && local < last.next_boundary && last.start <= us {
                return Ok(last.start);
            }
        }
        let mut boundary = bucket::bucket(width, local, origin)?;
        let mut start = self.first_instant(boundary);
        if start > us {
            boundary = bucket::bucket(width, boundary - 1, origin)?;
            start = self.first_instant(boundary);
        } else if let Ok(next_boundary) = bucket::next(width, boundary) {
            self.last = Some(Last {
                width,
                origin,
                boundary,
                next_boundary,
                start,
            });
        }
        Ok(start)
    }

    /// The start of the bucket after the one that starts at `start`.
    pub fn next(
        &mut self,
        width: Width,
        start: i64,
        origin: Option<i64>,
    ) -> Result<i64, BucketError> {
        let step = match width {
            Width::Fixed(us) => us,
            Width::Months(months) => months * 28 * DAY_US,
        };
        let mut probe = start;
        loop {
            probe = probe.checked_add(step).ok_or(BucketError::OutOfRange)?;
            let mut next = self.bucket(width, probe, origin)?;
            if next <= start {
                continue;
            }
            // The probe may have jumped over a short bucket.
            loop {
                let before = self.bucket(width, next - 1, origin)?;
                if before <= start {
                    return Ok(next);
                }
                next = before;
            }
        }
    }
}
