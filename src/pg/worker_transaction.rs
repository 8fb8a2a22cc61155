//! Transactions of a background process, which has no statement around it.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{pg_sys, PgTryBuilder};
use std::panic::AssertUnwindSafe;

/// Runs `body` in a transaction of its own, or of more than one where `body` ends that and begins another.
///
/// # Safety
/// In a background process that is connected, between transactions; `body` must leave a transaction open, and no snapshot active.
pub unsafe fn within<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: no transaction is open, and one is when `body` has run.
    unsafe {
        pg_sys::StartTransactionCommand();
        let result = body();
        pg_sys::CommitTransactionCommand();
        result
    }
}

/// Tells the server what the process has done to tables, so that it counts at once. Between transactions.
pub fn report_counts() {
    let force = true;
    // SAFETY: counters of this process.
    unsafe {
        pg_sys::pgstat_report_stat(force);
    }
}

/// An error that was caught.
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
}

/// Runs `body`; an error in it ends the transaction that it was in.
///
/// # Safety
/// In a background process, between transactions.
pub unsafe fn attempt<R>(body: impl FnOnce() -> R) -> Result<R, Failure> {
    let body = AssertUnwindSafe(body);
    PgTryBuilder::new(move || {
        let body = body;
        Ok((body.0)())
    })
    .catch_others(|error| {
        // SAFETY: the error state was flushed when it was caught.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(failure(&error))
    })
    .execute()
}

fn failure(error: &CaughtError) -> Failure {
    let report = match error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
        CaughtError::RustPanic { ereport, .. } => ereport,
    };
    Failure {
        sqlstate: sqlstate(report.sql_error_code() as i32),
        message: report.message().to_string(),
    }
}

/// Five characters of six bits each.
fn sqlstate(code: i32) -> String {
    (0..5)
        .map(|at| char::from(((code >> (6 * at)) & 0x3f) as u8 + b'0'))
        .collect()
}
