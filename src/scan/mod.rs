//! What a snapshot sees of a table, for readers that are no callbacks. May import `ingest`, since it has batches written first, and
//! what is below.

pub mod headers;
pub mod in_range;
