//! The values of filled columns: the last one carried forward, or a line between two neighbours.
use crate::functions::errors::{raise, Code};
use crate::pg::{composite, types, Datum, Oid};

/// The kinds of numbers that can be interpolated.
#[derive(Clone, Copy)]
pub enum NumberType {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
}

/// A number, exact while it is an integer.
#[derive(Clone, Copy)]
pub enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    fn as_f64(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

impl NumberType {
    pub fn of(typ: Oid) -> Option<NumberType> {
        Some(match typ {
            types::INT2OID => NumberType::Int2,
            types::INT4OID => NumberType::Int4,
            types::INT8OID => NumberType::Int8,
            types::FLOAT4OID => NumberType::Float4,
            types::FLOAT8OID => NumberType::Float8,
            _ => return None,
        })
    }

    pub fn number(self, datum: Datum) -> Number {
        match self {
            NumberType::Int2 => Number::Integer((datum.value() as i16).into()),
            NumberType::Int4 => Number::Integer((datum.value() as i32).into()),
            NumberType::Int8 => Number::Integer(datum.value() as i64),
            NumberType::Float4 => Number::Float(f32::from_bits(datum.value() as u32).into()),
            NumberType::Float8 => Number::Float(f64::from_bits(datum.value() as u64)),
        }
    }

    /// The value at `x` on the line from `before` to `after`; integers round half away from zero.
    pub fn between(self, x: i64, before: Point, after: Point) -> Datum {
        match (self, before.y, after.y) {
            (NumberType::Float4 | NumberType::Float8, ..) => self.float(line(x, before, after)),
            (_, Number::Integer(a), Number::Integer(b)) => {
                self.integer(integer_line(x, (before.x, a), (after.x, b)))
            }
            _ => self.integer(line(x, before, after).round() as i64),
        }
    }

    fn float(self, value: f64) -> Datum {
        match self {
            NumberType::Float4 => Datum::from((value as f32).to_bits()),
            _ => Datum::from(value.to_bits()),
        }
    }

    /// Between two values of the type, or between values that a user gave: those may not fit.
    fn integer(self, value: i64) -> Datum {
        let fits = match self {
            NumberType::Int2 => i16::try_from(value).is_ok(),
            NumberType::Int4 => i32::try_from(value).is_ok(),
            _ => true,
        };
        if !fits {
            raise(
                Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "interpolated value lies outside the range of its type",
                "",
                "",
            );
        }
        match self {
            NumberType::Int2 => Datum::from(value as i16),
            NumberType::Int4 => Datum::from(value as i32),
            _ => Datum::from(value),
        }
    }
}

/// A value at a time.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: i64,
    pub y: Number,
}

fn line(x: i64, before: Point, after: Point) -> f64 {
    let (a, b) = (before.y.as_f64(), after.y.as_f64());
    let part = (x as f64 - before.x as f64) / (after.x as f64 - before.x as f64);
    a + (b - a) * part
}

fn integer_line(x: i64, (x0, a): (i64, i64), (x1, b): (i64, i64)) -> i64 {
    let [x, x0, x1, a, b] = [x, x0, x1, a, b].map(i128::from);
    let span = x1 - x0;
    if span == 0 {
        return a as i64;
    }
    let weighted = a * (x1 - x) + b * (x - x0);
    let half = span.abs() / 2;
    let rounded = if (weighted < 0) == (span < 0) {
        weighted.abs() + half
    } else {
        -(weighted.abs() + half)
    };
    (rounded / span.abs()) as i64
}

/// The (time, value) that a user gave for the neighbour outside the range; None where either is NULL.
///
/// # Safety
/// `record` is a non-null record; must run inside a guarded entry point.
pub unsafe fn neighbour(
    record: Datum,
    time_type: Oid,
    time: impl Fn(Datum) -> i64,
) -> Option<Point> {
    // SAFETY: the caller's promise.
    let fields = unsafe { composite::fields(record) };
    let value_type = match fields[..] {
        [(time, _), (value, _)] if time == time_type => value_conversion(value),
        _ => None,
    };
    let Some(to_number) = value_type else {
        raise(
            Code::ERRCODE_DATATYPE_MISMATCH,
            "a neighbour of interpolate must be a record of a time and a number",
            "The time must have the type of the bucket.",
            "Write ROW(time, value) with casts where the literals do not have these types.",
        )
    };
    Some(Point {
        x: time(fields[0].1?),
        y: to_number(fields[1].1?),
    })
}

fn value_conversion(typ: Oid) -> Option<impl Fn(Datum) -> Number> {
    let number_type = NumberType::of(typ);
    if number_type.is_none() && typ != types::NUMERICOID {
        return None;
    }
    Some(move |datum| match number_type {
        Some(number_type) => number_type.number(datum),
        // SAFETY: a numeric.
        None => Number::Float(unsafe { types::numeric_to_float(datum) }),
    })
}
