//! What a table does, in our own words: batches go in, rows change, tails are sealed and chunks merged.

pub mod batch;
pub mod changes;
pub mod chunks;
pub mod follow;
pub mod locks;
pub mod rows;
pub mod series;
