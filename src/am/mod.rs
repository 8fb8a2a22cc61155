//! Wiring to PostgreSQL: table and index access method callbacks, slots and hooks. Callbacks unpack,
//! call down to `table` and `storage`, and pack again.

pub mod analyze;
pub mod approval;
pub mod cluster;
pub mod companion;
pub mod ddl;
pub mod estimate;
pub mod fetch;
pub mod hooks;
pub mod index_build;
pub mod keys;
pub mod modify;
pub mod planner;
pub mod projection;
pub mod routine;
pub mod sample;
pub mod scan;
pub mod search;
pub mod series_index;
pub mod slot;
pub mod utility;
