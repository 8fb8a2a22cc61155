//! Functions of the server's own, by their OIDs, and what is known of any.

use pgrx::pg_sys::{self, Oid};

pub use pgrx::pg_sys::{
    F_BOOLAND_STATEFUNC, F_BOOLOR_STATEFUNC, F_CEIL_FLOAT8, F_CEIL_NUMERIC,
    F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ, F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP,
    F_DATE_LARGER, F_DATE_PART_TEXT_TIMESTAMP, F_DATE_PART_TEXT_TIMESTAMPTZ, F_DATE_SMALLER,
    F_DATE_TIMESTAMP, F_DATE_TIMESTAMPTZ, F_DATE_TRUNC_TEXT_TIMESTAMP,
    F_DATE_TRUNC_TEXT_TIMESTAMPTZ, F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT, F_EXTRACT_TEXT_DATE,
    F_EXTRACT_TEXT_TIMESTAMP, F_EXTRACT_TEXT_TIMESTAMPTZ, F_FLOAT4LARGER, F_FLOAT4PL,
    F_FLOAT4SMALLER, F_FLOAT4_ACCUM, F_FLOAT8DIV, F_FLOAT8LARGER, F_FLOAT8MI, F_FLOAT8MUL,
    F_FLOAT8PL, F_FLOAT8SMALLER, F_FLOAT8_ACCUM, F_FLOAT8_AVG, F_FLOAT8_INT4, F_FLOAT8_INT8,
    F_FLOAT8_NUMERIC, F_FLOAT8_STDDEV_POP, F_FLOAT8_STDDEV_SAMP, F_FLOAT8_VAR_POP,
    F_FLOAT8_VAR_SAMP, F_FLOOR_FLOAT8, F_FLOOR_NUMERIC, F_INT2LARGER, F_INT2SMALLER,
    F_INT2_AVG_ACCUM, F_INT2_SUM, F_INT48MUL, F_INT4DIV, F_INT4LARGER, F_INT4MI, F_INT4MUL,
    F_INT4PL, F_INT4SMALLER, F_INT4_AVG_ACCUM, F_INT4_FLOAT8, F_INT4_INT2, F_INT4_NUMERIC,
    F_INT4_SUM, F_INT84DIV, F_INT84MI, F_INT84MUL, F_INT84PL, F_INT8DIV, F_INT8INC, F_INT8INC_ANY,
    F_INT8LARGER, F_INT8MI, F_INT8MUL, F_INT8PL, F_INT8SMALLER, F_INT8_AVG, F_INT8_AVG_ACCUM,
    F_INT8_AVG_COMBINE, F_INT8_AVG_SERIALIZE, F_INT8_FLOAT8, F_INT8_INT2, F_INT8_INT4,
    F_INT8_NUMERIC, F_NUMERIC_ADD, F_NUMERIC_DIV, F_NUMERIC_INT4, F_NUMERIC_INT8, F_NUMERIC_MUL,
    F_NUMERIC_POLY_AVG, F_NUMERIC_POLY_SUM, F_NUMERIC_SUB, F_ROUND_FLOAT8, F_ROUND_NUMERIC,
    F_TIMESTAMPTZ_DATE, F_TIMESTAMPTZ_LARGER, F_TIMESTAMPTZ_PL_INTERVAL, F_TIMESTAMPTZ_SMALLER,
    F_TIMESTAMPTZ_TIMESTAMP, F_TIMESTAMP_DATE, F_TIMESTAMP_LARGER, F_TIMESTAMP_PL_INTERVAL,
    F_TIMESTAMP_SMALLER, F_TIMESTAMP_TIMESTAMPTZ, F_TIMEZONE_TEXT_TIMESTAMP,
    F_TIMEZONE_TEXT_TIMESTAMPTZ, F_TO_TIMESTAMP_FLOAT8, F_TRUNC_FLOAT8, F_TRUNC_NUMERIC,
};

/// Has a function other results at other times, or effects? Raises an error where there is none of that OID.
pub fn is_volatile(function: Oid) -> bool {
    // SAFETY: a syscache look-up.
    let volatility = unsafe { pg_sys::func_volatile(function) };
    volatility as u8 == pg_sys::PROVOLATILE_VOLATILE
}

/// Has a function the same result whenever its arguments are the same? Raises an error where there is none of that OID.
pub fn is_immutable(function: Oid) -> bool {
    // SAFETY: a syscache look-up.
    let volatility = unsafe { pg_sys::func_volatile(function) };
    volatility as u8 == pg_sys::PROVOLATILE_IMMUTABLE
}

/// Is it one of the server's own?
pub fn is_of_server(function: Oid) -> bool {
    function.to_u32() < pg_sys::FirstNormalObjectId
}

/// In pg_language, by its catalog's file.
const INTERNAL_LANGUAGE: u32 = 12;
const C_LANGUAGE: u32 = 13;
const SQL_LANGUAGE: u32 = 14;

/// May the planner put its body or its result into a plan, as a session's settings and tables have made it at that moment? Functions in SQL are read
/// then. Those that are immutable are called then; those in other languages than C are often so by name only.
pub fn may_be_planned_away(function: Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
    // SAFETY: a syscache look-up; the row is released when it was read.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, function.into());
        if row.is_null() {
            return false;
        }
        let form: *const pg_sys::FormData_pg_proc = pg_sys::GETSTRUCT(row).cast();
        let is_immutable = (*form).provolatile as u8 == pg_sys::PROVOLATILE_IMMUTABLE;
        let may_be = match (*form).prolang.to_u32() {
            SQL_LANGUAGE => true,
            INTERNAL_LANGUAGE | C_LANGUAGE => false,
            _ => is_immutable,
        };
        pg_sys::ReleaseSysCache(row);
        may_be
    }
}
