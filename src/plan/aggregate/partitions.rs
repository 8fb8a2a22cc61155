//! A grouping over a partitioned table: the node reads each partition that is a varve table, core's first step each other one, an Append
//! puts their groups together, and core's final step finishes them. The Append stands for the table itself, so that partitions which
//! parameters rule out are left out when the query starts, as in any other plan.

use super::checks;
use super::cost;
use super::join::Input;
use super::parallel;
use super::path::{add_final_paths, node_path, number_of_groups};
use super::target::Target;
use crate::pg::core_paths::{Parts as AppendParts, Strategy};
use crate::pg::path::Path;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner_settings::enable_parallel_append;
use crate::pg::upper_paths::Grouping;

/// Paths of partitions: for one process, and for several.
#[derive(Default)]
struct Parts<'a> {
    whole: Vec<Path<'a>>,
    /// Paths of which each process takes a part, and those that one process takes.
    shared: Vec<Path<'a>>,
    single: Vec<Path<'a>>,
    workers: i32,
    /// Groups of all partitions.
    groups: f64,
    /// Does the node read one of them, and can several processes take part?
    any_node: bool,
    is_safe: bool,
}

/// Adds paths to a grouping of a partitioned table, if the node reads one of its partitions. Within a guarded entry point.
pub fn offer(grouping: Grouping<'_>) {
    let (planner, input) = (grouping.planner, grouping.input);
    let is_table = input.is_named() && input.is_of_catalog() && !input.is_lateral();
    if !is_table || !input.has_partitions() {
        return;
    }
    let Some(target) = Target::of(grouping, input.number()) else {
        return;
    };
    let mut parts = Parts {
        is_safe: true,
        ..Parts::default()
    };
    if add(grouping, input, &target, &mut parts).is_none() || !parts.any_node {
        return;
    }
    let source = Input {
        table: input,
        join: None,
    };
    let groups = number_of_groups(planner, input, &source, &target).min(parts.groups);
    // Core's Append, which stands for the partitioned table.
    let whole = AppendParts {
        whole: &parts.whole,
        shared: &[],
    };
    let append = planner.append(input, target.target, whole, 0);
    add_final_paths(grouping, append, groups);
    let single = enable_parallel_append() || parts.single.is_empty();
    if parts.is_safe && parts.workers > 0 && single {
        let shared = AppendParts {
            whole: &parts.single,
            shared: &parts.shared,
        };
        let append = planner.append(input, target.target, shared, parts.workers);
        let rows = append.rows() * parallel::processes(append);
        add_final_paths(grouping, planner.gather(append, rows), groups);
    }
}

/// Adds the partitions of a table, and theirs; None where one of them can have no path.
fn add<'a>(
    grouping: Grouping<'a>,
    parent: PlannedTable<'a>,
    target: &Target<'a>,
    parts: &mut Parts<'a>,
) -> Option<()> {
    for child in parent.live_partitions() {
        // As the partition computes it.
        let own = target.target.of_partition(grouping.planner, child);
        let own = Target::from_columns(own, target.groups.len());
        match child.has_partitions() {
            true => add(grouping, child, &own, parts)?,
            false => add_leaf(grouping, child, &own, parts)?,
        }
    }
    Some(())
}

fn add_leaf<'a>(
    grouping: Grouping<'a>,
    child: PlannedTable<'a>,
    target: &Target<'a>,
    parts: &mut Parts<'a>,
) -> Option<()> {
    let planner = grouping.planner;
    let source = Input {
        table: child,
        join: None,
    };
    let groups = number_of_groups(planner, child, &source, target);
    parts.groups += groups;
    let conditions = checks::table_of(planner, child);
    let conditions = conditions.and_then(|_| checks::conditions_of(planner, child));
    let Some(conditions) = &conditions else {
        return add_foreign(grouping, child, target, groups, parts);
    };
    parts.any_node = true;
    let by_index = cost::by_index(planner, child, &source);
    let (startup, total) = cost::of_node(&by_index, child, &source, target, conditions, groups);
    let make = || {
        let made = node_path(planner, child, &source, target, conditions, groups);
        made.path().set_costs(startup, total);
        made
    };
    let whole = make().path();
    let is_safe = child.may_be_parallel() && grouping.output.may_be_parallel();
    whole.set_parallel_safe(is_safe);
    parts.whole.push(whole);
    parts.is_safe &= is_safe;
    match parallel::workers(planner, &source, grouping.output, conditions) {
        0 => parts.single.push(whole),
        workers => {
            parts.workers = parts.workers.max(workers);
            let path = make();
            parallel::share(path, workers);
            parts.shared.push(path.path());
        }
    }
    Some(())
}

/// Core's first step of a partition that is no table of the node's.
fn add_foreign<'a>(
    grouping: Grouping<'a>,
    child: PlannedTable<'a>,
    target: &Target<'a>,
    groups: f64,
    parts: &mut Parts<'a>,
) -> Option<()> {
    let strategy = match target.groups.is_empty() {
        true => Strategy::Plain,
        false if !grouping.can_be_hashed() => return None,
        false => Strategy::Hashed,
    };
    let (planner, target) = (grouping.planner, target.target);
    let first_step = |input| planner.first_step(child, input, target, strategy, groups);
    let cheapest = child.cheapest_path()?;
    if cheapest.is_parameterized() {
        return None;
    }
    let whole = first_step(cheapest);
    parts.whole.push(whole);
    let shared = child.partial_paths().next();
    match shared.filter(|_| grouping.output.may_be_parallel()) {
        Some(input) => {
            let path = first_step(input);
            parts.workers = parts.workers.max(path.workers());
            parts.shared.push(path);
        }
        None => {
            parts.is_safe &= whole.is_parallel_safe();
            parts.single.push(whole);
        }
    }
    Some(())
}
