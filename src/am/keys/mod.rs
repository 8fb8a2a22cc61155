//! PRIMARY KEY and UNIQUE over compressed rows (docs/design/0009). The index stays PostgreSQL's btree, with
//! entries of tail rows only. In the process that uses it, its access method's functions for inserting and
//! for scanning with a dirty snapshot are replaced by ours, which look into the chunks as well.

mod arm;
mod batch;
pub mod build;
mod catalog;
mod directory;
mod find;
mod insert;
mod quiet;
mod scan;
mod side;
mod sift;
mod tail;
mod wait;
mod wanted;

pub use arm::arm;
pub use batch::{takes_batches, Batch, Entered};
pub use catalog::announces_changes;

/// Called once, when the library is loaded.
pub fn init() {
    catalog::init();
    sift::init();
}

/// A transaction or a part of it has ended.
pub fn forget() {
    scan::forget();
    directory::forget();
}
