//! SQL from within, by SPI: for work that is a statement anyway.

use super::error::{self, Code};
use pgrx::pg_sys;
use std::ffi::CString;

/// An argument: its type and its value, which is not null.
pub type Argument = (pg_sys::Oid, pg_sys::Datum);

/// Runs a statement as of now and gives the first column of its first row, which must be passed by value; None for NULL or no row.
pub fn value(query: &str, arguments: &[Argument]) -> Option<pg_sys::Datum> {
    // SAFETY: connected while the plan and its result are used; the result is no pointer.
    unsafe {
        connected(|| {
            let plan = prepare(query, arguments);
            let values = &mut values_of(arguments);
            let done =
                pg_sys::SPI_execute_plan(plan, values.as_mut_ptr(), core::ptr::null(), false, 1);
            check(done, query);
            if pg_sys::SPI_processed == 0 {
                return None;
            }
            let rows = pg_sys::SPI_tuptable;
            let mut null = false;
            let found = pg_sys::SPI_getbinval(*(*rows).vals, (*rows).tupdesc, 1, &mut null);
            (!null).then_some(found)
        })
    }
}

/// Runs a statement that sees what `snapshot` shows and what this transaction has done; how many rows it processed.
///
/// # Safety
/// `snapshot` must be active or registered.
pub unsafe fn execute(query: &str, arguments: &[Argument], snapshot: pg_sys::Snapshot) -> i64 {
    // SAFETY: by contract.
    unsafe {
        connected(|| {
            let plan = prepare(query, arguments);
            let values = &mut values_of(arguments);
            let done = pg_sys::SPI_execute_snapshot(
                plan,
                values.as_mut_ptr(),
                core::ptr::null(),
                snapshot,
                core::ptr::null_mut(),
                false,
                true,
                0,
            );
            check(done, query);
            pg_sys::SPI_processed as i64
        })
    }
}

/// Runs a utility statement, with the rights of the current user.
pub fn utility(query: &str) {
    // SAFETY: connected.
    unsafe {
        connected(|| {
            let text = text(query);
            check(pg_sys::SPI_execute(text.as_ptr(), false, 0), query)
        })
    }
}

unsafe fn connected<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: an error ends the connection with its (sub)transaction.
    unsafe {
        check(pg_sys::SPI_connect(), "connect");
        let result = body();
        pg_sys::SPI_finish();
        result
    }
}

unsafe fn prepare(query: &str, arguments: &[Argument]) -> pg_sys::SPIPlanPtr {
    let mut types: Vec<_> = arguments.iter().map(|argument| argument.0).collect();
    let query_text = text(query);
    // SAFETY: connected; one type for each argument.
    let plan =
        unsafe { pg_sys::SPI_prepare(query_text.as_ptr(), types.len() as i32, types.as_mut_ptr()) };
    assert!(!plan.is_null(), "BUG: cannot prepare {query}");
    plan
}

fn values_of(arguments: &[Argument]) -> Vec<pg_sys::Datum> {
    arguments.iter().map(|argument| argument.1).collect()
}

fn text(query: &str) -> CString {
    CString::new(query).unwrap_or_else(|_| {
        error::raise(
            Code::ERRCODE_SYNTAX_ERROR,
            "a statement has a zero byte",
            "",
            "",
        )
    })
}

fn check(result: i32, query: &str) {
    assert!(result >= 0, "BUG: SPI gave {result} for {query}");
}
