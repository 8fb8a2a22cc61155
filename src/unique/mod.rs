//! PRIMARY KEY and UNIQUE over compressed rows (docs/design/0009): how a key is found in chunks, for one row or for the rows of a
//! batch. The index stays PostgreSQL's btree, with entries of tail rows only. The callbacks are in `am::unique`.
//! May import `series_index` and what is below.

pub mod announced;
pub mod batch;
pub mod directory;
pub mod find;
pub mod quiet;
pub mod resting;
pub mod side;
pub mod tail;
pub mod wait;
pub mod wanted;
