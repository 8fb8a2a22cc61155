//! The planner and the executor: what they are told about our tables, and nodes of our own. May import `functions` and what is
//! below.

pub mod aggregate;
pub mod batch_eligibility;
pub mod chunk_delete;
pub mod conflict_filter;
pub mod gapfill;
pub mod hooks;
pub mod kept_plans;
pub mod planner;
pub mod projection;
pub mod ranges;
pub mod scan;
pub mod upper_paths;
pub mod utility;
