//! Rollups: aggregates by bucket of time that are stored, and yet equal to their query at any moment (docs/design/0016).
//!
//! `define` makes a rollup of a query that `query` has looked through; `live` answers the questions of its view; `refresh` stores
//! what is settled, in steps (`step`); `partitions` is told of DDL, and `ddl` has it checked. What writers do is in `crate::rollup`. Declared in `src/schema/60-rollups.sql`.

mod ddl;
mod define;
mod live;
pub mod partitions;
mod query;
pub mod refresh;
pub mod restored;
mod step;
