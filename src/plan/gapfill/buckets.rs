//! The buckets of a range, one after the other, for every type of time.
//!
//! Times are 64-bit numbers: integers, days or microseconds.
use crate::functions::bucket::{self, BucketError, Width, DAY_US};
use crate::functions::timezone::Zone;
use crate::pg::{types, Datum, Oid};

/// The type of a bucket.
#[derive(Clone, Copy, PartialEq)]
pub enum TimeType {
    Int2,
    Int4,
    Int8,
    Date,
    Timestamp,
}

impl TimeType {
    pub fn of(typ: Oid) -> Option<TimeType> {
        Some(match typ {
            types::INT2OID => TimeType::Int2,
            types::INT4OID => TimeType::Int4,
            types::INT8OID => TimeType::Int8,
            types::DATEOID => TimeType::Date,
            types::TIMESTAMPOID | types::TIMESTAMPTZOID => TimeType::Timestamp,
            _ => return None,
        })
    }

    pub fn number(self, datum: Datum) -> i64 {
        match self {
            TimeType::Int2 => (datum.value() as i16).into(),
            TimeType::Int4 | TimeType::Date => (datum.value() as i32).into(),
            TimeType::Int8 | TimeType::Timestamp => datum.value() as i64,
        }
    }

    pub fn datum(self, number: i64) -> Datum {
        match self {
            TimeType::Int2 => Datum::from(number as i16),
            TimeType::Int4 | TimeType::Date => Datum::from(number as i32),
            TimeType::Int8 | TimeType::Timestamp => Datum::from(number),
        }
    }

    /// The least and the greatest number of an integer type that is shorter than what is computed with.
    pub fn ends(self) -> Option<(i64, i64)> {
        match self {
            TimeType::Int2 => Some((i16::MIN.into(), i16::MAX.into())),
            TimeType::Int4 => Some((i32::MIN.into(), i32::MAX.into())),
            TimeType::Int8 | TimeType::Date | TimeType::Timestamp => None,
        }
    }

    pub fn is_infinite(self, number: i64) -> bool {
        match self {
            TimeType::Date => number == i64::from(i32::MIN) || number == i64::from(i32::MAX),
            TimeType::Timestamp => bucket::is_infinite(number),
            _ => false,
        }
    }
}

pub enum Buckets {
    Integer(i64),
    Date(Width),
    Clock(Width),
    Zone(Box<Zone>, Width),
}

impl Buckets {
    /// The start of the bucket that contains `time`.
    pub fn containing(&mut self, time: i64) -> Result<i64, BucketError> {
        match self {
            Buckets::Integer(width) => bucket::fixed(*width, time, 0),
            Buckets::Date(width) => {
                let days = i32::try_from(time).map_err(|_| BucketError::OutOfRange)?;
                bucket::bucket_date(*width, days, None).map(i64::from)
            }
            Buckets::Clock(width) => bucket::bucket(*width, time, None),
            Buckets::Zone(zone, width) => zone.bucket(*width, time, None),
        }
    }

    /// The start of the bucket after the one that starts at `start`; None when no such time exists.
    pub fn after(&mut self, start: i64) -> Option<i64> {
        match self {
            Buckets::Integer(width) => start.checked_add(*width),
            Buckets::Date(Width::Fixed(us)) => start.checked_add(*us / DAY_US),
            Buckets::Date(width) => bucket::next(*width, start.checked_mul(DAY_US)?)
                .ok()
                .map(|us| us / DAY_US),
            Buckets::Clock(width) => bucket::next(*width, start).ok(),
            Buckets::Zone(zone, width) => zone.next(*width, start, None).ok(),
        }
    }
}
