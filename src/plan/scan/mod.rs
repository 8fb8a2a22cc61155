//! Scans of varve tables by columns: `VarveScan`, whose rows core's nodes take. It is offered beside core's scans, for queries that look at
//! many rows of chunks: groupings that `VarveAggregate` cannot fold, windows, joins and filters.

mod cost;
mod path;
mod reason;

pub use path::init;
