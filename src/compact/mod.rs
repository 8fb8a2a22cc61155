//! Making large chunks of small ones and of the tail: survey, plan, seal, merge, relocate; and rewrites of whole tables.
//! May import `ingest` and what is below.

mod cut;
pub mod expire;
pub mod filter;
pub mod full_windows;
mod header_delete;
mod little;
mod long_key;
pub mod merge;
pub mod obstacle;
mod own_header;
mod parts;
pub mod plan;
pub mod progress;
pub mod reindex;
pub mod relocate;
mod remembered;
pub mod rewrite;
mod round_rows;
pub mod seal;
pub mod seen;
mod series_map;
pub mod source;
pub mod stages;
pub mod survey;
pub mod torture;
pub mod windows;
