//! Group expressions that never fall where time rises: `time_bucket`, `date_trunc`, `date_bin`, and arithmetic such as
//! `floor(extract(epoch from t) / 60) * 60`. Along rising times each of their values is one run, so that they are computed at
//! the ends of runs only.

use super::lanes::{class_of, Class};
use crate::functions;
use crate::pg::node::{cast, items};
use pgrx::pg_sys::{self, Node, NodeTag, Oid};

/// The column, from 1, along which an expression never falls; None where that is not known.
///
/// # Safety
/// `expression` must be an expression of a plan.
pub unsafe fn rises_with(expression: *mut Node) -> Option<i16> {
    // SAFETY: by contract; a node's tag says what it is.
    unsafe {
        if let Some(var) = cast::<pg_sys::Var>(expression, NodeTag::T_Var) {
            return (class_of((*var).vartype) == Class::Int).then_some((*var).varattno);
        }
        if let Some(relabel) = cast::<pg_sys::RelabelType>(expression, NodeTag::T_RelabelType) {
            return rises_with((*relabel).arg.cast());
        }
        if let Some(call) = cast::<pg_sys::FuncExpr>(expression, NodeTag::T_FuncExpr) {
            let arguments: Vec<*mut Node> = items((*call).args).collect();
            return of_call((*call).funcid, &arguments);
        }
        if let Some(operator) = cast::<pg_sys::OpExpr>(expression, NodeTag::T_OpExpr) {
            let arguments: Vec<*mut Node> = items((*operator).args).collect();
            return of_operator(pg_sys::get_opcode((*operator).opno), &arguments);
        }
        None
    }
}

/// Is it an expression, and no column, that never falls along a column?
///
/// # Safety
/// As `rises_with`.
pub unsafe fn is_bucket(expression: *mut Node) -> bool {
    // SAFETY: by contract.
    unsafe {
        cast::<pg_sys::Var>(expression, NodeTag::T_Var).is_none()
            && rises_with(expression).is_some()
    }
}

/// The distance of neighbouring values of an expression, of times as its column is: that of `time_bucket` by an interval
/// without months, on a clock without changes.
///
/// # Safety
/// As `rises_with`.
pub unsafe fn width_of(expression: *mut Node) -> Option<i64> {
    // SAFETY: by contract; a constant of that type is an interval.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(expression, NodeTag::T_FuncExpr)?;
        let arguments: Vec<*mut Node> = items((*call).args).collect();
        let [width, time] = arguments[..] else {
            return None;
        };
        let (width, time) = (
            cast::<pg_sys::Const>(width, NodeTag::T_Const)?,
            cast::<pg_sys::Var>(time, NodeTag::T_Var)?,
        );
        let is_time = [pg_sys::TIMESTAMPOID, pg_sys::TIMESTAMPTZOID].contains(&(*time).vartype);
        let fits = is_time
            && (*call).funcresulttype == (*time).vartype
            && (*width).consttype == pg_sys::INTERVALOID
            && !(*width).constisnull
            && functions::is_monotone_bucket((*call).funcid);
        if !fits {
            return None;
        }
        let interval: *const pg_sys::Interval = (*width).constvalue.cast_mut_ptr();
        let days = i64::from((*interval).day).checked_mul(DAY_US)?;
        let us = days.checked_add((*interval).time)?;
        ((*interval).month == 0 && us > 0).then_some(us)
    }
}

const DAY_US: i64 = 86_400_000_000;

unsafe fn of_call(function: Oid, arguments: &[*mut Node]) -> Option<i16> {
    // SAFETY: the caller's contract.
    unsafe {
        let fixed = |at: usize| !pg_sys::contain_var_clause(arguments[at]);
        let time = |at: usize| rises_with(arguments[at]);
        if arguments.len() >= 2 && functions::is_monotone_bucket(function) {
            let mut others = (0..arguments.len()).filter(|&at| at != 1);
            let keeps_order = |at: usize| fixed(at) && (at < 2 || moves_evenly(arguments[at]));
            return others.all(keeps_order).then(|| time(1))?;
        }
        match function.to_u32() {
            pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMP => fixed(0).then(|| time(1))?,
            pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ => {
                (fixed(0) && zone_is_fixed()).then(|| time(1))?
            }
            pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP
            | pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ => {
                (fixed(0) && fixed(2)).then(|| time(1))?
            }
            pg_sys::F_EXTRACT_TEXT_TIMESTAMP
            | pg_sys::F_EXTRACT_TEXT_TIMESTAMPTZ
            | pg_sys::F_EXTRACT_TEXT_DATE
            | pg_sys::F_DATE_PART_TEXT_TIMESTAMPTZ
            | pg_sys::F_DATE_PART_TEXT_TIMESTAMP => is_epoch(arguments[0]).then(|| time(1))?,
            pg_sys::F_DATE_TIMESTAMPTZ => zone_is_fixed().then(|| time(0))?,
            pg_sys::F_INT8_NUMERIC
            | pg_sys::F_INT4_NUMERIC
            | pg_sys::F_FLOAT8_NUMERIC
            | pg_sys::F_NUMERIC_INT8
            | pg_sys::F_NUMERIC_INT4
            | pg_sys::F_INT8_INT4
            | pg_sys::F_INT8_INT2
            | pg_sys::F_INT4_INT2
            | pg_sys::F_INT8_FLOAT8
            | pg_sys::F_INT4_FLOAT8
            | pg_sys::F_FLOAT8_INT8
            | pg_sys::F_FLOAT8_INT4
            | pg_sys::F_DATE_TIMESTAMP
            | pg_sys::F_TIMESTAMP_DATE
            | pg_sys::F_TO_TIMESTAMP_FLOAT8
            | pg_sys::F_FLOOR_NUMERIC
            | pg_sys::F_FLOOR_FLOAT8
            | pg_sys::F_CEIL_NUMERIC
            | pg_sys::F_CEIL_FLOAT8
            | pg_sys::F_TRUNC_NUMERIC
            | pg_sys::F_TRUNC_FLOAT8
            | pg_sys::F_ROUND_NUMERIC
            | pg_sys::F_ROUND_FLOAT8 => time(0),
            _ => None,
        }
    }
}

unsafe fn of_operator(function: Oid, arguments: &[*mut Node]) -> Option<i16> {
    let [left, right] = arguments[..] else {
        return None;
    };
    // SAFETY: the caller's contract.
    unsafe {
        match function.to_u32() {
            pg_sys::F_INT4DIV
            | pg_sys::F_INT8DIV
            | pg_sys::F_INT84DIV
            | pg_sys::F_FLOAT8DIV
            | pg_sys::F_NUMERIC_DIV => is_positive(right).then(|| rises_with(left))?,
            pg_sys::F_INT4MUL
            | pg_sys::F_INT8MUL
            | pg_sys::F_INT84MUL
            | pg_sys::F_INT48MUL
            | pg_sys::F_FLOAT8MUL
            | pg_sys::F_NUMERIC_MUL => match (is_positive(left), is_positive(right)) {
                (_, true) => rises_with(left),
                (true, _) => rises_with(right),
                _ => None,
            },
            pg_sys::F_INT4PL
            | pg_sys::F_INT8PL
            | pg_sys::F_INT84PL
            | pg_sys::F_NUMERIC_ADD
            | pg_sys::F_INT4MI
            | pg_sys::F_INT8MI
            | pg_sys::F_INT84MI
            | pg_sys::F_NUMERIC_SUB => {
                (!pg_sys::contain_var_clause(right)).then(|| rises_with(left))?
            }
            _ => None,
        }
    }
}

/// Does moving times by an offset of buckets leave them in their order? Months do not: the last days of a longer one all become the last day of a
/// shorter one, each with its own time of day.
unsafe fn moves_evenly(argument: *mut Node) -> bool {
    // SAFETY: the caller's contract; a constant of that type is an interval.
    unsafe {
        if pg_sys::exprType(argument) != pg_sys::INTERVALOID {
            return true;
        }
        let constant = cast::<pg_sys::Const>(argument, NodeTag::T_Const);
        constant.is_some_and(|constant| {
            let interval: *const pg_sys::Interval = (*constant).constvalue.cast_mut_ptr();
            (*constant).constisnull || (*interval).month == 0
        })
    }
}

/// Is the session's time zone one without jumps?
unsafe fn zone_is_fixed() -> bool {
    let mut offset = 0;
    // SAFETY: the session has a time zone.
    unsafe { pg_sys::pg_get_timezone_offset(pg_sys::session_timezone, &mut offset) }
}

/// Is a field of `extract` the seconds since 1970?
///
/// # Safety
/// As `rises_with`.
pub unsafe fn is_epoch(field: *mut Node) -> bool {
    // SAFETY: by contract: a text where it is a constant.
    unsafe {
        let field = cast::<pg_sys::Const>(field, NodeTag::T_Const);
        field.is_some_and(|field| {
            !(*field).constisnull
                && crate::pg::varlena::with_body((*field).constvalue, -1, |body| {
                    body.eq_ignore_ascii_case(b"epoch")
                })
        })
    }
}

/// Is it a positive number that is known by now?
unsafe fn is_positive(node: *mut Node) -> bool {
    // SAFETY: the caller's contract.
    unsafe { number_of(node) }.is_some_and(|number| number > 0.0)
}

/// A finite number that is known by now.
///
/// # Safety
/// As `rises_with`.
pub unsafe fn number_of(node: *mut Node) -> Option<f64> {
    // SAFETY: by contract.
    unsafe {
        let constant = cast::<pg_sys::Const>(node, NodeTag::T_Const)?;
        let value = (*constant).constvalue;
        if (*constant).constisnull {
            return None;
        }
        let number = match (*constant).consttype {
            pg_sys::INT2OID => f64::from(value.value() as i16),
            pg_sys::INT4OID => f64::from(value.value() as i32),
            pg_sys::INT8OID => value.value() as i64 as f64,
            pg_sys::FLOAT8OID => f64::from_bits(value.value() as u64),
            pg_sys::NUMERICOID => {
                let function = Oid::from(pg_sys::F_FLOAT8_NUMERIC);
                let none = pg_sys::InvalidOid;
                let double = pg_sys::OidFunctionCall1Coll(function, none, value);
                f64::from_bits(double.value() as u64)
            }
            _ => return None,
        };
        number.is_finite().then_some(number)
    }
}
