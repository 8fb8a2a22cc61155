//! Bytes of storage tuples: the heap tuples of zero attributes in which a chunk lives. A chunk has one
//! *header* tuple and any number of *piece* tuples; a piece carries a slice of a longer byte string
//! (column payload, or header sections that do not fit the header tuple). *Notes* say which rows are gone. Layouts: `FORMAT.md`.

pub mod delete_map;
pub mod header;
pub mod note;
pub mod runs;
pub mod statics;
pub mod tid;

pub use header::{FormatError, Header, Piece, Section, StorageTuple, PIECE_BYTES};
