//! `time_bucket_gapfill`, `locf` and `interpolate`: rows for the buckets that have none.
//!
//! Executed by itself, `time_bucket_gapfill` is `time_bucket`. When a query groups by it, a planner hook (`plan`) puts a node of
//! ours (`node`, `rows`) above the grouping, which sorts by the other group columns and the bucket and inserts the missing buckets of
//! each group. Aggregates of an inserted row are NULL; `locf` and `interpolate` mark the columns that the node fills (`fill`).
//! The first and the last bucket come from arguments (`dates`) or from the query's WHERE (`bounds`); `buckets` counts them off.
mod bounds;
pub mod buckets;
mod dates;
mod fill;
mod node;
mod plan;
mod rows;

use crate::pg::fcinfo::{arg, guarded, sql_function};
use crate::pg::support;

sql_function! {
    /// The planner support function of `time_bucket` and its kin. That the planner calls it while it simplifies expressions
    /// loads the library, and with it the planner hooks, in time for the same query.
    fn varve_time_bucket_support(fcinfo) {
        // SAFETY: declared STRICT, with a node as its argument.
        guarded(|| unsafe { support::answer(arg(fcinfo, 0), |call| dates::simplify(call)) })
    }
}

/// Installs the hook that keeps conditions of queries above from moving below the filling.
pub fn init_fence() {
    plan::init_fence();
}

/// Installs the planner hook.
pub fn init() {
    plan::init();
    node::init();
}
