//! The series index, access method `varve_series`: nbtree's code and pages, with an entry per tail row and
//! per series of a keyed chunk (`table::series`). A scan merges both into rows in index order.

pub mod build;
mod cost;
pub mod ddl;
pub mod entries;
mod handler;
mod merge;
pub mod probe;
pub mod quals;
pub mod rows;
mod scan;
pub mod section;
mod types;
mod vacuum;
mod validate;

pub use build::is_series_index;
pub use section::all_null;
