//! PRIMARY KEY and UNIQUE over compressed rows (docs/design/0009). The index stays PostgreSQL's btree, with
//! entries of tail rows only. In the process that uses it, its access method's functions for inserting and
//! for scanning with a dirty snapshot are replaced by ours, which look into the chunks as well.

pub mod announced;
pub mod arm;
pub mod batch;
pub mod build;
pub mod catalog;
pub mod directory;
pub mod find;
pub mod insert;
pub mod ordinary;
pub mod quiet;
pub mod resting;
pub mod scan;
pub mod side;
pub mod sift;
pub mod tail;
pub mod wait;
pub mod wanted;
