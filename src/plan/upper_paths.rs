//! What is offered above scans and joins: groupings, and the sources of INSERT and DELETE.

use super::{aggregate, chunk_delete, conflict_filter};
use crate::pg::planner::Planner;
use crate::pg::upper_paths::{self, ChangePath, Grouping, UpperPaths};

struct Offers;

pub fn init() {
    upper_paths::install::<Offers>();
}

impl UpperPaths for Offers {
    fn grouping(grouping: Grouping<'_>) {
        aggregate::offer(grouping);
    }

    fn change<'a>(planner: Planner<'a>, path: ChangePath<'a>) {
        conflict_filter::offer(planner, path);
        chunk_delete::offer(planner, path);
    }
}
