//! What went wrong, as a PostgreSQL server says it.

use std::error::Error;

/// The SQLSTATE of an error of the server; None where it is no such error.
pub fn sqlstate<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
    let server = error.downcast_ref::<postgres::Error>()?;
    server.code().map(|state| state.code())
}

/// Serialization failures and deadlocks, which any client must be ready for: its transaction is to be rolled back and tried anew.
pub fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    sqlstate(error).is_some_and(|state| ["40001", "40P01"].contains(&state))
}

/// What a client meets whose server dies: the connection breaks, and the server may still say why (class 57P).
pub fn is_end_of_server(error: &(dyn Error + 'static)) -> bool {
    match sqlstate(error) {
        Some(state) => state.starts_with("57P"),
        // In the middle of a COPY it is the stream that breaks.
        None => error.is::<postgres::Error>() || error.is::<std::io::Error>(),
    }
}

/// An error with what a PostgreSQL server said about it: `severity: message`, SQLSTATE, detail.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let Some(server) = error
        .downcast_ref::<postgres::Error>()
        .and_then(|e| e.as_db_error())
    else {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        return text;
    };
    let detail = server
        .detail()
        .map(|d| format!(" ({d})"))
        .unwrap_or_default();
    format!(
        "{}: {} [{}]{detail}",
        server.severity(),
        server.message(),
        server.code().code()
    )
}
