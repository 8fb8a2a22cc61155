//! Which tables are ours: those whose relcache entry points to the one routine that this process has made.

use crate::pg::relation::{Routine, Table};
use std::cell::OnceCell;

thread_local! {
    static ROUTINE: OnceCell<Routine> = const { OnceCell::new() };
}

/// The routine of our tables, built at the first call. It lives as long as the backend.
pub fn routine(build: fn() -> Routine) -> usize {
    ROUTINE.with(|cell| cell.get_or_init(build).address())
}

/// Is this table one of ours?
#[inline]
pub fn is_varve(table: Table<'_>) -> bool {
    ROUTINE.with(|cell| cell.get().is_some_and(|routine| routine.is_of(table)))
}
