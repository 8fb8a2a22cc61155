//! Event triggers, and the series index that a key brings. May import everything but `worker`.

pub mod auto_index;
pub mod create_index;
pub mod dropped;
pub mod object_access;
pub mod obstacles;
