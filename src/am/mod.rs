//! Callbacks of the table and index access methods. They unpack, call down, and pack again. May import `verify` and what is below.

pub mod analyze;
pub mod cluster;
pub mod ddl;
pub mod estimate;
pub mod fetch;
pub mod holes;
pub mod index_build;
pub mod index_delete;
pub mod lock;
pub mod modify;
pub mod past_delete;
pub mod routine;
pub mod sample;
pub mod scan;
pub mod search;
pub mod series_index;
pub mod unique;
