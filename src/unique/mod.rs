//! PRIMARY KEY and UNIQUE over compressed rows (docs/design/0009): how a key is found in chunks, for one row or for the rows of a
//! batch. The index stays PostgreSQL's btree, with entries of tail rows only. The callbacks are in `am::unique`. README.md says why this is exact.
//! May import `series_index` and what is below.

pub mod announced;
pub mod batch;
pub mod bypass;
pub mod find;
pub mod frontier;
pub mod kept_key;
pub mod key_cache;
pub mod known;
pub mod names;
pub mod series_entry;
pub mod series_key;
pub mod side;
pub mod stability_check;
pub mod tail;
pub mod unsettled;
pub mod wait;
pub mod written_row;
