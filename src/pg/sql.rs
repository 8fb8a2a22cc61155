//! Statements of our own, through SPI.

use super::snapshot::Snapshot;
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// A parameter: its type, and its value, NULL where there is none.
pub type Parameter = (pg_sys::Oid, Option<pg_sys::Datum>);

/// Runs a statement that changes rows; returns how many it has changed.
///
/// # Safety
/// Inside a transaction with an active snapshot; values must be of their types.
pub unsafe fn execute(statement: &str, parameters: &[Parameter]) -> u64 {
    // SAFETY: by contract.
    unsafe { connected(statement, parameters, false, || pg_sys::SPI_processed) }
}

/// Runs a query; returns its rows as texts.
///
/// # Safety
/// As `execute`.
pub unsafe fn query(statement: &str, parameters: &[Parameter]) -> Vec<Vec<Option<String>>> {
    // SAFETY: by contract; SPI's table lives until it is disconnected.
    unsafe {
        connected(statement, parameters, true, || {
            let table = pg_sys::SPI_tuptable;
            let descriptor = (*table).tupdesc;
            (0..pg_sys::SPI_processed as usize)
                .map(|row| {
                    let tuple = *(*table).vals.add(row);
                    (1..=(*descriptor).natts)
                        .map(|column| {
                            let text = pg_sys::SPI_getvalue(tuple, descriptor, column);
                            (!text.is_null())
                                .then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
                        })
                        .collect()
                })
                .collect()
        })
    }
}

/// Runs a query; returns the first column of its first row, which must be passed by value; None for NULL and for no row.
///
/// # Safety
/// As `execute`.
pub unsafe fn value(statement: &str, parameters: &[Parameter]) -> Option<pg_sys::Datum> {
    // SAFETY: by contract; SPI's table lives until it is disconnected.
    unsafe {
        connected(statement, parameters, true, || {
            if pg_sys::SPI_processed == 0 {
                return None;
            }
            let table = pg_sys::SPI_tuptable;
            let mut null = false;
            let found = pg_sys::SPI_getbinval(*(*table).vals, (*table).tupdesc, 1, &mut null);
            (!null).then_some(found)
        })
    }
}

/// Runs a statement that sees what `snapshot` shows, and what this transaction has done; returns how many rows it has changed.
///
/// # Safety
/// As `execute`; `snapshot` must be active or registered.
pub unsafe fn execute_in(statement: &str, parameters: &[Parameter], snapshot: Snapshot<'_>) -> u64 {
    let (text, mut types, mut values, nulls) = passed(statement, parameters);
    let count = types.len() as i32;
    // SAFETY: by contract; an error cleans SPI up with the transaction.
    unsafe {
        pg_sys::SPI_connect();
        let plan = pg_sys::SPI_prepare(text.as_ptr(), count, types.as_mut_ptr());
        assert!(!plan.is_null(), "BUG: SPI cannot prepare {statement}");
        let (none, values) = (core::ptr::null_mut(), values.as_mut_ptr());
        let code = pg_sys::SPI_execute_snapshot(
            plan,
            values,
            nulls.as_ptr(),
            snapshot.as_ptr(),
            none,
            false,
            true,
            0,
        );
        assert!(code >= 0, "BUG: SPI answers {code} to {statement}");
        let result = pg_sys::SPI_processed;
        pg_sys::SPI_finish();
        result
    }
}

type Passed = (
    CString,
    Vec<pg_sys::Oid>,
    Vec<pg_sys::Datum>,
    Vec<core::ffi::c_char>,
);

/// A statement and its parameters as SPI takes them.
fn passed(statement: &str, parameters: &[Parameter]) -> Passed {
    let text = CString::new(statement).expect("BUG: a statement with a zero byte");
    let types = parameters.iter().map(|one| one.0).collect();
    let values = parameters
        .iter()
        .map(|one| one.1.unwrap_or(pg_sys::Datum::from(0usize)))
        .collect();
    let nulls = parameters
        .iter()
        .map(|one| if one.1.is_none() { b'n' } else { b' ' } as core::ffi::c_char)
        .collect();
    (text, types, values, nulls)
}

/// Runs a statement; returns what `result` makes of it before SPI forgets it.
///
/// # Safety
/// As `execute`; `result` must take copies of what it finds in SPI's table.
unsafe fn connected<R>(
    statement: &str,
    parameters: &[Parameter],
    reads: bool,
    result: impl FnOnce() -> R,
) -> R {
    let (text, mut types, mut values, nulls) = passed(statement, parameters);
    // SAFETY: the caller's contract; an error cleans SPI up with the transaction.
    unsafe {
        pg_sys::SPI_connect();
        let code = pg_sys::SPI_execute_with_args(
            text.as_ptr(),
            parameters.len() as i32,
            types.as_mut_ptr(),
            values.as_mut_ptr(),
            nulls.as_ptr(),
            reads,
            0,
        );
        assert!(code >= 0, "BUG: SPI answers {code} to {statement}");
        let result = result();
        pg_sys::SPI_finish();
        result
    }
}

/// A name as SQL writes it.
pub fn identifier(name: &str) -> String {
    let name = CString::new(name).expect("BUG: a name with a zero byte");
    // SAFETY: the result is palloc'd, or the argument.
    unsafe {
        let quoted = pg_sys::quote_identifier(name.as_ptr());
        CStr::from_ptr(quoted).to_string_lossy().into_owned()
    }
}
