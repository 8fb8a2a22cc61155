//! Counts executor runs of this process: what is looked up for one statement may be kept until the next begins.

use std::cell::Cell;

thread_local! {
    static BEGUN: Cell<u64> = const { Cell::new(0) };
}

/// An executor run begins.
pub fn begin() {
    BEGUN.set(BEGUN.get() + 1);
}

/// How many have begun.
pub fn begun() -> u64 {
    BEGUN.get()
}
