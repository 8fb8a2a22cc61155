//! The node's path, and core's final grouping above it, where the node does not finish groups itself. The plan carries what the executor needs in the
//! node's own row: the columns that go up, then the conditions, which are kept. So references to the table in them are adjusted as in any
//! other plan; parameters are listed apart, where the planner looks for them.

use super::buckets::Buckets;
use super::checks::{self, inner_parameters_of};
use super::cost::{self, InRanges};
use super::join::Input;
use super::ordered;
use super::parallel;
use super::partitions;
use super::target::Target;
use crate::exec::aggregate::{is_bucket, rises_with, Aggregation};
use crate::guc;
use crate::pg::core_paths::Strategy;
use crate::pg::custom_scan::{Chosen, CustomPath, CustomPlanner, NewPlan, Private};
use crate::pg::expression::Expression;
use crate::pg::path::Path;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::upper_paths::Grouping;

/// Adds the node's paths to those of a grouping, if it can do it. Within a guarded entry point.
pub fn offer(grouping: Grouping<'_>) {
    let (planner, input) = (grouping.planner, grouping.input);
    // In two steps, as parallel ones are.
    let can_split = grouping.can_be_split() && planner.groups_plainly();
    if !guc::enable_aggregate() || !can_split {
        return;
    }
    partitions::offer(grouping);
    for source in Input::of(planner, input) {
        let Some(conditions) = checks::conditions_of(planner, source.table) else {
            continue;
        };
        let Some(target) = Target::of(grouping, source.table.number()) else {
            continue;
        };
        let groups = number_of_groups(planner, input, &source, &target);
        Offer {
            grouping,
            partial: grouping.partial(input, target.target, groups),
            source,
            target,
            conditions,
            groups,
        }
        .add();
    }
}

/// A grouping that the node can do.
struct Offer<'a> {
    grouping: Grouping<'a>,
    /// What stands for partial groups.
    partial: PlannedTable<'a>,
    source: Input<'a>,
    target: Target<'a>,
    conditions: Vec<Expression<'a>>,
    groups: f64,
}

impl<'a> Offer<'a> {
    /// Adds the paths.
    fn add(self) {
        let (grouping, planner, groups) = (self.grouping, self.grouping.planner, self.groups);
        let (source, target, conditions) = (&self.source, &self.target, &self.conditions[..]);
        let by_index = cost::by_index(planner, grouping.input, source);
        let costs = cost::of_node(
            &by_index,
            grouping.input,
            source,
            target,
            conditions,
            groups,
        );
        let make = || {
            let made = node_path(planner, self.partial, source, target, conditions, groups);
            made.path().set_costs(costs.0, costs.1);
            made
        };
        let path = make();
        let fits = ordered::fits(target, groups);
        let can_be_finished = !grouping.has_conditions() && target.can_be_finished();
        let keys = (grouping.can_be_sorted() && fits).then(|| ordered::keys_of(planner, target));
        let keys = keys.flatten().filter(|keys| !keys.is_empty());
        if let Some(keys) = &keys {
            ordered::sort(planner, path, keys);
        }
        if fits && can_be_finished {
            finish(path, target, grouping.output);
            // SAFETY: it makes what the query wants of each group, and is used no more.
            unsafe { grouping.output.add_path(path.path()) };
        } else if keys.is_some() {
            // Nothing is faster above it than what needs no table of groups.
            final_path(grouping, path.path(), groups, Strategy::Sorted);
        } else {
            add_final_paths(grouping, path.path(), groups);
        }
        if let Some(order) = ordered::order_of(planner, source, target, groups) {
            let path = make();
            order.apply(planner, path);
            final_path(grouping, path.path(), groups, Strategy::Sorted);
        }
        let workers = parallel::workers(planner, source, grouping.output, conditions);
        if workers > 0 {
            let path = make();
            parallel::share(path, workers);
            let path = path.path();
            let processes = parallel::processes(path);
            let rows = cost::rows_of_processes(&by_index, target, groups, processes);
            add_final_paths(grouping, planner.gather(path, rows), groups);
            let in_ranges = || cost::in_ranges(planner, &by_index, source, target, processes);
            let fits = |ranges: &InRanges| ordered::fits(target, groups / ranges.count);
            let ranges = can_be_finished.then(in_ranges).flatten();
            if let Some(ranges) = ranges.filter(fits) {
                let path = make();
                finish(path, target, grouping.output);
                path.set_private(RANGES, Private::Integers(vec![ranges.count as i32]));
                parallel::share_groups(path, workers, ranges.cost);
                // SAFETY: it makes what the query wants of each group, and is used no more.
                unsafe {
                    grouping
                        .output
                        .add_path(planner.gather(path.path(), groups))
                };
            }
            if let Some(keys) = &keys {
                let path = make();
                ordered::sort(planner, path, keys);
                parallel::share(path, workers);
                let merged = planner.gather_in_order(path.path(), rows);
                final_path(grouping, merged, groups, Strategy::Sorted);
            }
        }
    }
}

/// How many groups a table, or a join, has; `target` is one of the table's. Within a guarded entry point.
pub fn number_of_groups<'a>(
    planner: Planner<'a>,
    input: PlannedTable<'a>,
    source: &Input<'a>,
    target: &Target<'a>,
) -> f64 {
    if target.groups.is_empty() {
        return 1.0;
    }
    let rows = input.rows();
    let estimate = planner.combinations(&target.groups, rows);
    if let Some(buckets) = Buckets::of(planner, source.table, &target.groups) {
        let others = match buckets.others.is_empty() {
            true => 1.0,
            false => planner.combinations(&buckets.others, rows),
        };
        return estimate.min(buckets.count * others).max(1.0);
    }
    // Of a width that is not known, or without bounds: nobody groups by what is as fine as time.
    let time = checks::time_column(planner, source.table).map(|(column, _)| column);
    let is_bucket =
        |&group: &Expression<'_>| time.is_some() && is_bucket(group) && rises_with(group) == time;
    match target.groups.iter().any(is_bucket) {
        true => estimate.min((rows / LEAST_BUCKET).max(1.0)),
        false => estimate,
    }
}

/// Rows that are in one bucket of time of a series, at least.
const LEAST_BUCKET: f64 = 10.0;

/// The node's path, of the relation `parent`. The conditions and the target are the source's. It has no costs yet.
pub fn node_path<'a>(
    planner: Planner<'a>,
    parent: PlannedTable<'a>,
    source: &Input<'a>,
    target: &Target<'a>,
    conditions: &[Expression<'a>],
    groups: f64,
) -> CustomPath<'a> {
    let mut numbers = vec![
        source.table.number() as i32,
        target.groups.len() as i32,
        target.aggregates.len() as i32,
    ];
    let join = source.join.as_ref();
    if let Some(join) = join {
        numbers.extend([i32::from(join.column), i32::from(join.is_semi)]);
        numbers.push(join.value.typ().to_u32() as i32);
    }
    let path = planner.custom_path::<Aggregating>(
        parent,
        target.target,
        &[
            Private::Integers(numbers),
            Private::expressions(conditions.iter().copied()),
            Private::expressions(join.map(|join| join.value.expression())),
            // `ordered` says which orders these are.
            Private::Nothing,
            Private::Nothing,
            // Of a path that finishes groups, its columns, and how many ranges of keys processes share.
            Private::Nothing,
            Private::Nothing,
        ],
    );
    if let Some(join) = join {
        path.set_source(join.path);
    }
    path.path().set_rows(groups);
    path
}

/// Makes the node's path one that gives the query what it wants of each group. The path is nobody else's.
fn finish<'a>(path: CustomPath<'a>, target: &Target<'a>, grouped: PlannedTable<'a>) {
    let aggregates = target.whole.iter();
    let aggregates = aggregates.map(|aggregate| aggregate.expression());
    let columns = target.groups.iter().copied().chain(aggregates);
    path.set_private(WHOLE, Private::expressions(columns));
    let (path, output) = (path.path(), grouped.target());
    path.set_target(output);
    let cost = output.cost();
    let startup = path.startup_cost() + cost.startup;
    let total = path.total_cost() + (cost.startup + path.rows() * cost.per_row);
    path.set_costs(startup, total);
}

/// Core's final step above a path that emits partial groups, hashed and sorted.
pub fn add_final_paths<'a>(grouping: Grouping<'a>, path: Path<'a>, groups: f64) {
    let planner = grouping.planner;
    if !planner.has_group_columns() {
        return final_path(grouping, path, groups, Strategy::Plain);
    }
    if grouping.can_be_hashed() {
        final_path(grouping, path, groups, Strategy::Hashed);
    }
    if grouping.can_be_sorted() {
        let sorted = planner.sorted(path.table(), path, planner.group_order());
        final_path(grouping, sorted, groups, Strategy::Sorted);
    }
}

/// Core's final step above a path.
fn final_path<'a>(grouping: Grouping<'a>, input: Path<'a>, groups: f64, strategy: Strategy) {
    let path = grouping.final_step(input, strategy, groups);
    // SAFETY: it makes what the query wants of each group, and is used no more.
    unsafe { grouping.output.add_path(path) };
}

/// The columns of a path that finishes groups, among what it leaves for its plan.
const WHOLE: usize = 5;
/// Into how many ranges of keys processes divide the table.
const RANGES: usize = 6;

/// Paths of the node.
struct Aggregating;

impl CustomPlanner for Aggregating {
    type Node = Aggregation;

    fn plan<'a>(chosen: Chosen<'a>) -> NewPlan<'a> {
        let Ok([numbers, conditions, value, slices, keys, whole, ranges]) =
            <[Private<'_>; RANGES + 1]>::try_from(chosen.private())
        else {
            panic!("BUG: a path that leaves something else for its plan");
        };
        let mut numbers = numbers.into_integers();
        if let Some(source) = chosen.source() {
            let value = value.into_expressions().into_iter().next();
            let value = value.expect("BUG: a join without a value");
            let place = source.place_of(value);
            let place = place.expect("BUG: a join's other side lacks its value");
            numbers.push(i32::from(place));
        }
        let mut columns = whole.into_expressions();
        let is_whole = !columns.is_empty();
        if !is_whole {
            columns.extend(chosen.targets());
        }
        let kept = conditions.into_expressions();
        let all = [&columns[..], &kept].concat();
        // Groups, aggregates, and what there is of a join.
        numbers.insert(3, i32::from(is_whole));
        NewPlan {
            table: numbers[0] as u32,
            expressions: inner_parameters_of(&all).into_iter().map(Some).collect(),
            columns,
            kept,
            private: vec![
                Private::Integers(numbers.split_off(1)),
                slices,
                keys,
                ranges,
            ],
        }
    }
}
