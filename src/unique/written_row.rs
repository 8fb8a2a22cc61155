//! How many rows core has had this session write to tails. What is known of a row by its place holds as long as no other one has been written: the place of a
//! row that is gone, as after TRUNCATE, or a conflict of ON CONFLICT, may be that of the next.

use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// A row was written, and has its place.
pub fn count_one() {
    COUNT.set(COUNT.get() + 1);
}

/// So many were written: rows of one count have different places.
pub fn count() -> u64 {
    COUNT.get()
}
