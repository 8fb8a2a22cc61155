//! The node in several processes, which share the chunks of the table, below a Gather.

use super::checks::inner_parameters_of;
use super::join::Input;
use crate::pg::custom_scan::CustomPath;
use crate::pg::expression::Expression;
use crate::pg::path::Path;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::planner_settings::parallel_leader_participation;

/// How many workers the node may have, beside the leader; `grouped` stands for the groups.
pub fn workers(
    planner: Planner<'_>,
    source: &Input<'_>,
    grouped: PlannedTable<'_>,
    conditions: &[Expression<'_>],
) -> i32 {
    // The other side of a join runs in each process.
    match grouped.may_be_parallel() && source.join.is_none() {
        true => workers_of(planner, source.table, conditions),
        false => 0,
    }
}

/// How many workers may share the chunks of a table.
pub fn workers_of(
    planner: Planner<'_>,
    table: PlannedTable<'_>,
    conditions: &[Expression<'_>],
) -> i32 {
    let is_safe = planner.may_be_parallel() && table.may_be_parallel();
    // The places that the leader has found are good for one set of parameters.
    if !is_safe || !inner_parameters_of(conditions).is_empty() {
        return 0;
    }
    table.workers()
}

/// Makes the node's path that of one of several processes, as many as `workers` has said.
pub fn share(path: CustomPath<'_>, workers: i32) {
    let (path, processes) = of_several(path, workers);
    let emitting = path.total_cost() - path.startup_cost();
    let startup = path.startup_cost() / processes;
    path.set_costs(startup, startup + emitting);
}

/// Makes a path that finishes groups that of one of several processes, each of which has some of the groups; this costs so much more in all.
pub fn share_groups(path: CustomPath<'_>, workers: i32, more: f64) {
    let (path, processes) = of_several(path, workers);
    path.set_rows((path.rows() / processes).max(1.0).round());
    let startup = (path.startup_cost() + more) / processes;
    path.set_costs(startup, (path.total_cost() + more) / processes);
}

/// Makes a path that hands on rows that of one of several processes, which share them.
pub fn share_rows(path: CustomPath<'_>, workers: i32) {
    let (path, processes) = of_several(path, workers);
    path.set_rows((path.rows() / processes).max(1.0).round());
    let startup = path.startup_cost();
    let run = path.total_cost() - startup;
    path.set_costs(startup, startup + run / processes);
}

/// Makes a path that of several processes; how many of them work, as core reckons: the leader has the less time to help the more workers it
/// waits on.
fn of_several(path: CustomPath<'_>, workers: i32) -> (Path<'_>, f64) {
    let path = path.path();
    path.share(workers);
    let leader = (1.0 - 0.3 * f64::from(workers)).max(0.0);
    let helps = parallel_leader_participation();
    (path, f64::from(workers) + if helps { leader } else { 0.0 })
}

/// Processes of a path, the leader among them.
pub fn processes(path: Path<'_>) -> f64 {
    f64::from(path.workers()) + 1.0
}
