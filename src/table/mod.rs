//! What a table does, in our own words: batches go in, rows change, tails are sealed and chunks merged.

pub mod batch;
pub mod changes;
pub mod chunks;
pub mod compact;
pub mod crosscheck;
pub mod deferred;
pub mod equals;
pub mod follow;
pub mod handover;
pub mod inspect;
pub mod locks;
pub mod merge;
pub mod moves;
pub mod open;
pub mod plan;
pub mod prints;
pub mod relocate;
pub mod rewrite;
pub mod rows;
pub mod seal;
pub mod series;
pub mod source;
pub mod stream;
pub mod survey;
pub mod torture;
pub mod verify;
