//! Times of any type that a time column can have, as 64-bit integers of the type's own unit: microseconds, days, or whatever an
//! integer column counts. The ends of a type's range stand for the ends of time.

use crate::pg::types;
use crate::pg::{Datum, Oid};

/// The type of a time column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeType {
    Timestamp,
    Date,
    Int2,
    Int4,
    Int8,
}

impl TimeType {
    /// The kind of a type, or of the type that a domain is over.
    pub fn of(oid: Oid) -> Option<Self> {
        match types::base(oid) {
            types::TIMESTAMPTZOID | types::TIMESTAMPOID => Some(Self::Timestamp),
            types::DATEOID => Some(Self::Date),
            types::INT2OID => Some(Self::Int2),
            types::INT4OID => Some(Self::Int4),
            types::INT8OID => Some(Self::Int8),
            _ => None,
        }
    }

    /// The first and last finite value.
    fn bounds(self) -> (i64, i64) {
        match self {
            Self::Timestamp => (-211_813_488_000_000_000, 9_223_371_331_199_999_999),
            Self::Date => (-2_451_545, 2_145_031_948),
            Self::Int2 => (i16::MIN.into(), i16::MAX.into()),
            Self::Int4 => (i32::MIN.into(), i32::MAX.into()),
            Self::Int8 => (i64::MIN, i64::MAX),
        }
    }

    /// The first value that is not infinite.
    pub fn first(self) -> i64 {
        self.bounds().0
    }

    pub fn read(self, datum: Datum) -> i64 {
        let time = match self {
            Self::Timestamp | Self::Int8 => datum.value() as i64,
            Self::Date | Self::Int4 => (datum.value() as i32).into(),
            Self::Int2 => (datum.value() as i16).into(),
        };
        let (first, last) = self.bounds();
        if time < first {
            i64::MIN
        } else if time > last {
            i64::MAX
        } else {
            time
        }
    }

    /// The value of a time; what lies outside the type's range is its lowest or highest value, infinite where it has such.
    pub fn write(self, time: i64) -> Datum {
        let (first, last) = self.bounds();
        let time = match self {
            Self::Date if time < first => i32::MIN.into(),
            Self::Date if time > last => i32::MAX.into(),
            Self::Timestamp if time < first => i64::MIN,
            Self::Timestamp if time > last => i64::MAX,
            _ => time.clamp(first, last),
        };
        match self {
            Self::Timestamp | Self::Int8 => Datum::from(time),
            Self::Date | Self::Int4 => Datum::from(time as i32),
            Self::Int2 => Datum::from(time as i16),
        }
    }
}
