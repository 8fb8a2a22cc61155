//! Indexes whose keys are known to be unique while they are built: those that compact builds again, to make them small. Nothing is looked
//! for in the rows of chunks then, which would cost as much as the table has.

use std::cell::Cell;

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        KNOWN.set(false);
    }
}

/// Builds a valid index again.
pub fn while_built_again(build: impl FnOnce()) {
    let _reset = Reset;
    KNOWN.set(true);
    build();
}

/// Are the keys of the index that is being built known to be unique?
pub fn are_unique() -> bool {
    KNOWN.get()
}
