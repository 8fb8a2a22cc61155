//! Column chunks, codecs and vector kernels of varve. No Postgres and no pgrx in here: rows come in
//! as typed columns and go out as bytes, and the other way round.
//!
//! * `area`: what later versions add to headers.
//! * `column`: values of one column in memory, with validity.
//! * `chunk`: a chunk's header and payload: builder and checked view (bytes: `FORMAT.md`).
//! * `codec`: one block of one column to bytes and back.
//! * `tuple`: the storage tuples in which a chunk lives: header, pieces, delete map, TIDs.
//! * `vector`: filters and aggregates over decoded or packed blocks.

pub mod area;
pub mod chunk;
pub mod codec;
pub mod column;
pub mod error;
pub mod summary;
pub mod tuple;
pub mod vector;
pub mod wire;

pub use error::Corrupt;
