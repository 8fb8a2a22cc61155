//! Callbacks of unique indexes. In the process that uses such an index, its access method's functions for inserting and for
//! scanning with a dirty snapshot are replaced by these, which look into the chunks as well.

pub mod build;
pub mod enter;
pub mod insert;
pub mod intercept;
pub mod ordinary;
pub mod scan;
