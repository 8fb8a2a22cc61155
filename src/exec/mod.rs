//! Plan nodes of ours.

pub mod aggregate;
