//! Chunks as tuples of a heap relation: what kinds of tuples there are, how a chunk is written, found, read and shown in a slot.
//! Nothing here knows of statements, or of changes that are not written. May import `catalog` and what is below.

pub mod chunk_cache;
pub mod datum;
pub mod dead_header;
mod decoded_notes;
pub mod density;
pub mod encode;
pub mod glance;
pub mod index_entries;
pub mod inspect;
pub mod job_states;
pub mod kept_block;
pub mod left_room;
pub mod low_page;
pub mod next_header;
mod note_cache;
pub mod notes;
pub mod place;
pub mod raw;
pub mod read;
pub mod reader;
pub mod row_set;
mod series_numbers;
pub mod series_runs;
mod session_cache;
pub mod slot;
pub mod told;
pub mod tuple_kind;
pub mod vectors;
pub mod write;
pub mod written_headers;
