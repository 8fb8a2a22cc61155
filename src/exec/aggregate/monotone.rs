//! Group expressions that never fall where time rises: `time_bucket`, `date_trunc`, `date_bin`, and arithmetic such as
//! `floor(extract(epoch from t) / 60) * 60`. Along rising times each of their values is one run, so that they are computed at
//! the ends of runs only.

use super::lanes::{class_of, Class};
use crate::functions;
use crate::pg::expression::{Expression, Expressions};
use crate::pg::expression_kinds::Kind;
use crate::pg::functions as core_functions;
use crate::pg::time_zone::TimeZone;
use crate::pg::{types, Oid};

/// The column, from 1, along which an expression never falls; None where that is not known.
pub fn rises_with(expression: Expression<'_>) -> Option<i16> {
    match expression.kind() {
        Kind::Column(column) => (class_of(column.typ()) == Class::Int).then_some(column.number()),
        Kind::Relabel(relabel) => rises_with(relabel.argument()),
        Kind::Call(call) => of_call(call.function(), call.arguments()),
        Kind::Operator(operator) => of_operator(operator.function(), operator.arguments()),
        _ => None,
    }
}

/// Is it an expression, and no column, that never falls along a column?
pub fn is_bucket(expression: Expression<'_>) -> bool {
    !matches!(expression.kind(), Kind::Column(_)) && rises_with(expression).is_some()
}

/// The distance of neighbouring values of an expression, of times as its column is: that of `time_bucket` by an interval
/// without months, on a clock without changes.
pub fn width_of(expression: Expression<'_>) -> Option<i64> {
    let Kind::Call(call) = expression.kind() else {
        return None;
    };
    let [width, time] = call.arguments().array()?;
    let (Kind::Constant(width), Kind::Column(time)) = (width.kind(), time.kind()) else {
        return None;
    };
    let is_time = [types::TIMESTAMPOID, types::TIMESTAMPTZOID].contains(&time.typ());
    if !is_time || call.typ() != time.typ() {
        return None;
    }
    let interval = width.interval()?;
    if !functions::is_monotone_bucket(call.function()) {
        return None;
    }
    let days = i64::from(interval.day).checked_mul(DAY_US)?;
    let us = days.checked_add(interval.time)?;
    (interval.month == 0 && us > 0).then_some(us)
}

const DAY_US: i64 = 86_400_000_000;

fn of_call(function: Oid, arguments: Expressions<'_>) -> Option<i16> {
    use core_functions::*;
    let fixed = |at: usize| !arguments.get(at).is_some_and(Expression::has_columns);
    let time = |at: usize| rises_with(arguments.get(at)?);
    if arguments.len() >= 2 && functions::is_monotone_bucket(function) {
        let mut others = arguments.iter().enumerate().filter(|&(at, _)| at != 1);
        let keeps_order = |(at, argument): (usize, Expression<'_>)| {
            !argument.has_columns() && (at < 2 || moves_evenly(argument))
        };
        return others.all(keeps_order).then(|| time(1))?;
    }
    match function.to_u32() {
        F_DATE_TRUNC_TEXT_TIMESTAMP => fixed(0).then(|| time(1))?,
        F_DATE_TRUNC_TEXT_TIMESTAMPTZ => (fixed(0) && zone_is_fixed()).then(|| time(1))?,
        F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP | F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ => {
            (fixed(0) && fixed(2)).then(|| time(1))?
        }
        F_EXTRACT_TEXT_TIMESTAMP
        | F_EXTRACT_TEXT_TIMESTAMPTZ
        | F_EXTRACT_TEXT_DATE
        | F_DATE_PART_TEXT_TIMESTAMPTZ
        | F_DATE_PART_TEXT_TIMESTAMP => is_epoch(arguments.get(0)?).then(|| time(1))?,
        F_DATE_TIMESTAMPTZ => zone_is_fixed().then(|| time(0))?,
        F_INT8_NUMERIC
        | F_INT4_NUMERIC
        | F_FLOAT8_NUMERIC
        | F_NUMERIC_INT8
        | F_NUMERIC_INT4
        | F_INT8_INT4
        | F_INT8_INT2
        | F_INT4_INT2
        | F_INT8_FLOAT8
        | F_INT4_FLOAT8
        | F_FLOAT8_INT8
        | F_FLOAT8_INT4
        | F_DATE_TIMESTAMP
        | F_TIMESTAMP_DATE
        | F_TO_TIMESTAMP_FLOAT8
        | F_FLOOR_NUMERIC
        | F_FLOOR_FLOAT8
        | F_CEIL_NUMERIC
        | F_CEIL_FLOAT8
        | F_TRUNC_NUMERIC
        | F_TRUNC_FLOAT8
        | F_ROUND_NUMERIC
        | F_ROUND_FLOAT8 => time(0),
        _ => None,
    }
}

fn of_operator(function: Oid, arguments: Expressions<'_>) -> Option<i16> {
    use core_functions::*;
    let [left, right] = arguments.array()?;
    match function.to_u32() {
        F_INT4DIV | F_INT8DIV | F_INT84DIV | F_FLOAT8DIV | F_NUMERIC_DIV => {
            is_positive(right).then(|| rises_with(left))?
        }
        F_INT4MUL | F_INT8MUL | F_INT84MUL | F_INT48MUL | F_FLOAT8MUL | F_NUMERIC_MUL => {
            match (is_positive(left), is_positive(right)) {
                (_, true) => rises_with(left),
                (true, _) => rises_with(right),
                _ => None,
            }
        }
        F_INT4PL | F_INT8PL | F_INT84PL | F_NUMERIC_ADD | F_INT4MI | F_INT8MI | F_INT84MI
        | F_NUMERIC_SUB => (!right.has_columns()).then(|| rises_with(left))?,
        _ => None,
    }
}

/// Does moving times by an offset of buckets leave them in their order? Months do not: the last days of a longer one all become the last day of a
/// shorter one, each with its own time of day.
fn moves_evenly(argument: Expression<'_>) -> bool {
    if argument.typ() != types::INTERVALOID {
        return true;
    }
    match argument.kind() {
        Kind::Constant(offset) => offset.interval().is_none_or(|offset| offset.month == 0),
        _ => false,
    }
}

/// Is the session's time zone one without jumps?
fn zone_is_fixed() -> bool {
    TimeZone::of_session().is_some_and(TimeZone::is_fixed)
}

/// Is a field of `extract` the seconds since 1970?
pub fn is_epoch(field: Expression<'_>) -> bool {
    let is_its_name = |text: &[u8]| text.eq_ignore_ascii_case(b"epoch");
    match field.kind() {
        Kind::Constant(field) => field.with_text(is_its_name).unwrap_or(false),
        _ => false,
    }
}

/// Is it a positive number that is known by now?
fn is_positive(expression: Expression<'_>) -> bool {
    number_of(expression).is_some_and(|number| number > 0.0)
}

/// A finite number that is known by now.
pub fn number_of(expression: Expression<'_>) -> Option<f64> {
    match expression.kind() {
        Kind::Constant(constant) => constant.number(),
        _ => None,
    }
}
