//! Grouping over one varve table, a partitioned one, or a join that chooses its series: a path that emits partial states of groups, below core's own final step. The planner's hook
//! for groupings offers it beside core's paths (docs/design/0017).

mod buckets;
pub mod checks;
pub mod cost;
pub mod join;
mod ordered;
pub mod parallel;
mod partitions;
mod path;
mod target;

pub use path::offer;
