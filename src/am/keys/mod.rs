//! PRIMARY KEY and UNIQUE over compressed rows (docs/design/0009). The index stays PostgreSQL's btree, with
//! entries of tail rows only. In the process that uses it, its access method's functions for inserting and
//! for scanning with a dirty snapshot are replaced by ours, which look into the chunks as well.

mod arm;
pub mod build;
mod catalog;
mod find;
mod insert;
mod scan;

pub use arm::arm;
pub use catalog::{announces_changes, init};
pub use scan::forget;
