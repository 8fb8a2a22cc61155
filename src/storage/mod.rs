//! Storage tuples in a heap relation: writing, reading and deleting a chunk; nothing here knows of
//! statements, only of relations, TIDs and bytes.

pub mod catalog;
pub mod datum;
pub mod delete_map;
pub mod format;
pub mod layout;
pub mod read;
pub mod runs;
pub mod write;
