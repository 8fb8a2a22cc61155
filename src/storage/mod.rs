//! Storage tuples in a heap relation: writing, reading and deleting a chunk; nothing here knows of
//! statements, only of relations, TIDs and bytes.

pub mod access_method;
pub mod datum;
pub mod density;
pub mod index_options;
pub mod job_states;
pub mod kind;
pub mod layout;
pub mod marks;
pub mod place;
pub mod raw;
pub mod read;
pub mod reader;
pub mod registry;
pub mod write;
