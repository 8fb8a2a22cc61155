//! The node in several processes, which share the chunks of the table, below a Gather.

use super::join::Input;
use crate::pg::expression::Expression;
use crate::pg::expression_kinds::Kind;
use pgrx::pg_sys::{self, Node};

/// How many workers the node may have, beside the leader.
///
/// # Safety
/// Called by the planner's hook; `grouped` is its output.
pub unsafe fn workers(
    root: *mut pg_sys::PlannerInfo,
    source: &Input,
    grouped: *mut pg_sys::RelOptInfo,
    conditions: &[*mut Node],
) -> i32 {
    // SAFETY: by contract.
    unsafe {
        // The other side of a join runs in each process.
        match (*grouped).consider_parallel && source.join.is_none() {
            true => workers_of(root, source.table, conditions),
            false => 0,
        }
    }
}

/// How many workers may share the chunks of a table.
///
/// # Safety
/// As `workers`.
pub unsafe fn workers_of(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    conditions: &[*mut Node],
) -> i32 {
    // SAFETY: by contract.
    unsafe {
        let is_safe = (*(*root).glob).parallelModeOK && (*table).consider_parallel;
        // The places that the leader has found are good for one set of parameters.
        if !is_safe || has_parameters(conditions) {
            return 0;
        }
        let most = pg_sys::max_parallel_workers_per_gather;
        pg_sys::compute_parallel_worker(table, f64::from((*table).pages), -1.0, most)
    }
}

/// Do conditions have parameters that another part of the plan sets?
unsafe fn has_parameters(conditions: &[*mut Node]) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        super::checks::parameters_of(Expression::from_ptrs(conditions))
            .into_iter()
            .any(|parameter| match parameter.kind() {
                Kind::Parameter(parameter) => !parameter.is_external(),
                _ => false,
            })
    }
}

/// Makes the node's path that of one of several processes.
///
/// # Safety
/// As `workers`, which has said how many; the path is nobody else's.
pub unsafe fn share(path: *mut pg_sys::CustomPath, workers: i32) {
    // SAFETY: by contract.
    unsafe {
        let (path, processes) = of_several(path, workers);
        let emitting = (*path).total_cost - (*path).startup_cost;
        (*path).startup_cost /= processes;
        (*path).total_cost = (*path).startup_cost + emitting;
    }
}

/// Makes a path that hands on rows that of one of several processes, which share them.
///
/// # Safety
/// As `share`.
pub unsafe fn share_rows(path: *mut pg_sys::CustomPath, workers: i32) {
    // SAFETY: by contract.
    unsafe {
        let (path, processes) = of_several(path, workers);
        (*path).rows = ((*path).rows / processes).max(1.0).round();
        let run = (*path).total_cost - (*path).startup_cost;
        (*path).total_cost = (*path).startup_cost + run / processes;
    }
}

/// Makes a path that of several processes; how many of them work, as core reckons: the leader has the less time to help the more workers it
/// waits on.
unsafe fn of_several(path: *mut pg_sys::CustomPath, workers: i32) -> (*mut pg_sys::Path, f64) {
    // SAFETY: the callers' contract; a setting of core's.
    unsafe {
        let path = &raw mut (*path).path;
        (*path).parallel_aware = true;
        (*path).parallel_safe = true;
        (*path).parallel_workers = workers;
        let leader = (1.0 - 0.3 * f64::from(workers)).max(0.0);
        let helps = pg_sys::parallel_leader_participation;
        (path, f64::from(workers) + if helps { leader } else { 0.0 })
    }
}

/// Processes of a path, the leader among them.
///
/// # Safety
/// `path` must be one.
pub unsafe fn processes(path: *mut pg_sys::Path) -> f64 {
    // SAFETY: by contract.
    unsafe { f64::from((*path).parallel_workers) + 1.0 }
}

/// Core's Gather above a path of several processes, from which so many rows go up.
///
/// # Safety
/// As `workers`; the path is nobody else's.
pub unsafe fn gather(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::Path,
    mut rows: f64,
) -> *mut pg_sys::Path {
    // SAFETY: by contract.
    unsafe {
        let (rel, target) = ((*path).parent, (*path).pathtarget);
        let outer = core::ptr::null_mut();
        pg_sys::create_gather_path(root, rel, path, target, outer, &mut rows).cast()
    }
}
