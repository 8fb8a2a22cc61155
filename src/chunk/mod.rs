//! Chunks as tuples of a heap relation: what kinds of tuples there are, how a chunk is written, found, read and shown in a slot.
//! Nothing here knows of statements, or of changes that are not written. May import `catalog` and what is below.

pub mod chunks;
pub mod datum;
pub mod density;
pub mod inspect;
pub mod job_states;
pub mod kind;
pub mod place;
pub mod raw;
pub mod read;
pub mod reader;
pub mod registry;
pub mod rows;
pub mod series;
pub mod slot;
pub mod write;
