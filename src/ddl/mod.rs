//! Event triggers, and the series index that a key brings. May import everything but `worker`.

pub mod companion;
pub mod create_index;
