//! Raising errors that users see; all of these must run inside a guarded entry point (see `sql_function!`).
pub use crate::pg::error::{raise, Code};

/// An argument that has a fitting type but not a fitting value.
#[cold]
pub fn invalid(message: impl Into<String>, hint: &str) -> ! {
    raise(Code::ERRCODE_INVALID_PARAMETER_VALUE, message, "", hint)
}
