//! The series index, access method `varve_series`: nbtree's code and pages, with an entry per tail row and
//! per series of a keyed chunk (`chunk::index_entries`). A scan merges both into rows in index order.

pub mod build;
pub mod contents;
pub mod cost;
pub mod handler;
pub mod scan;
pub mod vacuum;
mod validate;

pub use crate::series_index::section::all_null;
pub use build::is_series_index;
