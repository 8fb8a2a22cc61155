//! Nodes of our own in plans. A node implements `CustomScan`, and one of `Guarded`, `Above` and `Passing`, which say how it comes to its rows;
//! if several processes may run it, `Parallel` too. What PostgreSQL calls, and the tables that name it, are here.
//!
//! `path` are paths of ours and the plans that are made of them, `methods` has the tables and what all nodes have in common, `above` nodes that hand on rows of another one, `passing` those that the errors
//! of a user's expressions pass through, `parallel` what the processes of a query do together. `state` is the node to its own functions,
//! `plan` its plan, `child` the node below it, `explain` what EXPLAIN shows.

mod above;
mod child;
mod explain;
mod methods;
mod parallel;
mod passing;
mod path;
mod plan;
mod state;

pub use above::Above;
pub use child::Child;
pub use explain::Explain;
pub use methods::{register, CustomScan, Guarded, Methods};
pub use parallel::{is_worker, Parallel};
pub use passing::{Advance, Passing};
pub use path::{Chosen, CustomPath, CustomPlanner, NewPlan, Private};
pub use plan::CustomPlan;
pub use state::{Beginning, NodeState, Projection};

use pgrx::pg_sys;

/// Flags of a custom path whose node projects.
const SUPPORTS_PROJECTION: u32 = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
