//! What hooks of PostgreSQL's call: each is installed once, and several parts of the extension may want to be called.

use core::cell::Cell;

/// No hook is wanted by more.
const MOST: usize = 4;

/// Functions that a hook of this process calls, in the order in which they were added.
pub(super) struct Callbacks<F: Copy + 'static>(Cell<[Option<F>; MOST]>);

impl<F: Copy> Callbacks<F> {
    /// As a process begins.
    pub const fn none() -> Callbacks<F> {
        Callbacks(Cell::new([None; MOST]))
    }

    /// Adds one; says whether it is the first.
    pub fn add(&self, callback: F) -> bool {
        let mut all = self.0.get();
        let free = all.iter().position(Option::is_none);
        let free = free.expect("BUG: a hook is wanted by too many");
        all[free] = Some(callback);
        self.0.set(all);
        free == 0
    }

    /// Those that have been added by now.
    pub fn all(&self) -> impl Iterator<Item = F> {
        self.0.get().into_iter().flatten()
    }
}
