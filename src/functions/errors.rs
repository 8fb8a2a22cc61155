//! Raising errors that users see: SQLSTATE, lower-case message, and a hint that says what to do.
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Raises an error; never returns. Must run inside a guarded entry point (see `sql_function!`).
#[cold]
#[track_caller]
pub fn raise(code: PgSqlErrorCode, message: impl Into<String>, detail: &str, hint: &str) -> ! {
    let mut report = ErrorReport::new(code, message.into(), "varve");
    if !detail.is_empty() {
        report = report.set_detail(detail);
    }
    if !hint.is_empty() {
        report = report.set_hint(hint);
    }
    report.report(PgLogLevel::ERROR);
    unreachable!("BUG: an error report returned")
}

/// An argument that has a fitting type but not a fitting value.
#[cold]
#[track_caller]
pub fn invalid(message: impl Into<String>, hint: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        message,
        "",
        hint,
    )
}
