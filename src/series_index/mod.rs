//! What a series index holds, and how a scan merges its entries and the rows of chunks. The callbacks are in `am::series_index`.
//! May import `table` and what is below.

pub mod cells;
pub mod ends;
pub mod entries;
pub mod known_series;
pub mod later;
pub mod listed;
pub mod merge;
pub mod opened;
pub mod probe;
pub mod quals;
pub mod rows;
pub mod section;
mod spans;
mod stretch;
pub mod types;
