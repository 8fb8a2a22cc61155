//! Plan nodes of ours.

pub mod aggregate;
pub mod chunk_delete;
pub mod scan;
