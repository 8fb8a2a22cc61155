//! Errors with SQLSTATE, detail and hint. Texts are lower case without a final period; details and
//! hints are sentences.

use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
pub use pgrx::PgSqlErrorCode as Code;
use pgrx::{prelude::*, PgLogLevel, PgTryBuilder};
use std::panic::AssertUnwindSafe;

/// Lets no error have a Rust backtrace as its DETAIL, whatever the server's environment says. To be called before any is raised.
pub fn without_backtraces() {
    const ASKED: &str = "RUST_LIB_BACKTRACE";
    let asked = std::env::var_os(ASKED);
    // SAFETY: called while the library is loaded, by the only thread.
    unsafe { std::env::set_var(ASKED, "0") };
    // The standard library looks at its environment once, and this copy of it is ours alone.
    drop(std::backtrace::Backtrace::capture());
    // SAFETY: as above.
    unsafe {
        match asked {
            Some(value) => std::env::set_var(ASKED, value),
            None => std::env::remove_var(ASKED),
        }
    }
}

/// Raises an ERROR; does not return. `detail` and `hint` are left out where empty.
pub fn raise(code: Code, message: impl Into<String>, detail: &str, hint: &str) -> ! {
    let mut report = ErrorReport::new(code, message.into(), "varve");
    if !detail.is_empty() {
        report = report.set_detail(detail.to_string());
    }
    if !hint.is_empty() {
        report = report.set_hint(hint.to_string());
    }
    report.report(PgLogLevel::ERROR);
    unreachable!("BUG: an ERROR report returned")
}

/// Emits a NOTICE.
pub fn notice(message: impl Into<String>, hint: &str) {
    let mut report = ErrorReport::new(Code::ERRCODE_SUCCESSFUL_COMPLETION, message.into(), "varve");
    if !hint.is_empty() {
        report = report.set_hint(hint.to_string());
    }
    report.report(PgLogLevel::NOTICE);
}

/// Emits a WARNING.
pub fn warning(code: Code, message: impl Into<String>) {
    ErrorReport::new(code, message.into(), "varve").report(PgLogLevel::WARNING);
}

/// Emits a WARNING with a detail and a hint.
pub fn warning_with(code: Code, message: impl Into<String>, detail: &str, hint: &str) {
    ErrorReport::new(code, message.into(), "varve")
        .set_detail(detail.to_string())
        .set_hint(hint.to_string())
        .report(PgLogLevel::WARNING);
}

/// Raises XX001 for bytes that cannot be what was written.
pub fn raise_corrupt(table: &str, what: impl Into<String>) -> ! {
    raise(
        Code::ERRCODE_DATA_CORRUPTED,
        format!("corrupt chunk in table \"{table}\": {}", what.into()),
        "",
        "Run varve.verify on the table to see everything that is damaged; other chunks stay readable.",
    )
}

/// Runs `body`. Where it raises an error of the code `code`, that is caught: its message is returned, and the transaction must be rolled back then.
pub fn caught<R>(code: Code, body: impl FnOnce() -> R) -> Result<R, String> {
    PgTryBuilder::new(AssertUnwindSafe(move || Ok(body())))
        .catch_when(code, |error| {
            let (CaughtError::PostgresError(report)
            | CaughtError::ErrorReport(report)
            | CaughtError::RustPanic {
                ereport: report, ..
            }) = error;
            Err(report.message().to_string())
        })
        .execute()
}

/// `check_interrupts` for what is called very often, such as the comparisons of a sort: once in 65,536 calls.
#[derive(Default)]
pub struct RareCheck(core::cell::Cell<u16>);

impl RareCheck {
    #[inline]
    pub fn check_interrupts(&self) {
        let count = self.0.get().wrapping_add(1);
        self.0.set(count);
        if count == 0 {
            check_interrupts();
        }
    }
}

/// Answers cancel requests and statement timeouts; to be called in every loop that can be long.
#[inline]
pub fn check_interrupts() {
    pg_sys::check_for_interrupts!();
    super::departure::check();
}
