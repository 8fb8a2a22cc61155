//! Vector kernels over decoded blocks: filters into bitmaps, aggregates, buckets of a sorted time column.
//! Results follow PostgreSQL's rules for the types (NaN equals NaN and is above all numbers).
//!
//! Hot loops are written so that the compiler vectorises them, and compiled for AVX-512, AVX2 and the
//! baseline; the processor picks at run time (crate `multiversion`; `tests/dispatch.rs` compares).

pub mod aggregate;
pub mod bitmap;
pub mod bucket;
pub mod filter;
pub mod narrow;

pub use bitmap::Bitmap;
pub use narrow::Narrow;
