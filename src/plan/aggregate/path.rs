//! The node's path, and core's final grouping above it, where the node does not finish groups itself. The plan carries what the executor needs in the
//! node's own row: the columns that go up, then the conditions. So references to the table in them are adjusted as in any
//! other plan; parameters are listed apart, where the planner looks for them.

use super::buckets::Buckets;
use super::checks::{self, parameters_of};
use super::cost;
use super::join::Input;
use super::ordered;
use super::parallel;
use super::partitions;
use super::target::Target;
use crate::exec::aggregate::{is_bucket, rises_with, Aggregation};
use crate::guc;
use crate::pg::custom_scan::{CustomScan, Shared, SUPPORTS_PROJECTION};
use crate::pg::expression::Expression;
use crate::pg::node::{integer_list, items, list, make};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::unbound::get_agg_clause_costs;
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;

static PATH_METHODS: Shared<pg_sys::CustomPathMethods> = Shared(pg_sys::CustomPathMethods {
    CustomName: Aggregation::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// Adds the node's paths to those of a grouping, if it can do it.
///
/// # Safety
/// Called by the planner's hook with its arguments; all nodes belong to the planner's memory context.
pub unsafe fn offer(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    grouped: *mut pg_sys::RelOptInfo,
    extra: *mut pg_sys::GroupPathExtraData,
) {
    // SAFETY: by contract.
    unsafe {
        // In two steps, as parallel ones are.
        let can_split = !extra.is_null()
            && (*extra).flags & pg_sys::GROUPING_CAN_PARTIAL_AGG as i32 != 0
            && Planner::from_ptr(root).groups_plainly();
        if !guc::enable_aggregate() || !can_split {
            return;
        }
        partitions::offer(root, input, grouped, extra);
        let having = (*extra).havingQual;
        for source in Input::of(root, input) {
            let conditions = checks::conditions_of(PlannedTable::from_ptr(source.table));
            let Some(conditions) = &conditions else {
                continue;
            };
            let conditions = Expression::as_ptrs(conditions);
            let Some(target) = Target::of(root, (*source.table).relid, grouped, having) else {
                continue;
            };
            let groups = number_of_groups(root, input, &source, &target);
            let partial = partial_rel(root, input, &target, groups);
            let by_index = cost::by_index(root, input, &source);
            let costs = cost::of_node(&by_index, input, &source, &target, conditions, groups);
            let make = || node_path(partial, &source, &target, conditions, groups, costs);
            let path = make();
            let can_sort = (*extra).flags & pg_sys::GROUPING_CAN_USE_SORT as i32 != 0;
            let fits = ordered::fits(&target, groups);
            let keys = (can_sort && fits).then(|| ordered::keys_of(root, &target));
            let keys = keys.flatten().filter(|keys| !keys.is_empty());
            if let Some(keys) = &keys {
                ordered::sort(root, path, keys);
            }
            if fits && having.is_null() && target.can_be_finished() {
                finish(path, &target, grouped);
                pg_sys::add_path(grouped, path.cast());
            } else if keys.is_some() {
                // Nothing is faster above it than what needs no table of groups.
                let strategy = pg_sys::AggStrategy::AGG_SORTED;
                final_path(root, path.cast(), grouped, extra, groups, strategy);
            } else {
                add_final_paths(root, path.cast(), grouped, extra, groups);
            }
            if let Some(order) = ordered::order_of(root, &source, &target, groups) {
                let path = make();
                order.apply(root, path);
                let input = path.cast();
                final_path(
                    root,
                    input,
                    grouped,
                    extra,
                    groups,
                    pg_sys::AggStrategy::AGG_SORTED,
                );
            }
            let workers = parallel::workers(root, &source, grouped, conditions);
            if workers > 0 {
                let path = make();
                parallel::share(path, workers);
                let processes = parallel::processes(path.cast());
                let rows = cost::rows_of_processes(&by_index, &source, &target, groups, processes);
                let gather = parallel::gather(root, path.cast(), rows);
                add_final_paths(root, gather, grouped, extra, groups);
            }
        }
    }
}

/// How many groups a table, or a join, has.
///
/// # Safety
/// As `offer`; `target` is one of the table's.
pub unsafe fn number_of_groups(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    source: &Input,
    target: &Target,
) -> f64 {
    if target.groups.is_empty() {
        return 1.0;
    }
    // SAFETY: the caller's contract.
    unsafe {
        let rows = (*input).rows;
        let estimate = estimate_groups(root, &target.groups, rows);
        let (planner, table) = (
            Planner::from_ptr(root),
            PlannedTable::from_ptr(source.table),
        );
        let columns = Expression::from_ptrs(&target.groups);
        if let Some(buckets) = Buckets::of(planner, table, columns) {
            let others = match buckets.others.is_empty() {
                true => 1.0,
                false => estimate_groups(root, Expression::as_ptrs(&buckets.others), rows),
            };
            return estimate.min(buckets.count * others).max(1.0);
        }
        // Of a width that is not known, or without bounds: nobody groups by what is as fine as time.
        let time = checks::time_column(planner, table).map(|(column, _)| column);
        let is_bucket = |&group: &*mut Node| {
            let group = Expression::from_ptr(group);
            time.is_some() && is_bucket(group) && rises_with(group) == time
        };
        match target.groups.iter().any(is_bucket) {
            true => estimate.min((rows / LEAST_BUCKET).max(1.0)),
            false => estimate,
        }
    }
}

/// Core's estimate of how many values some columns have in so many rows.
unsafe fn estimate_groups(root: *mut pg_sys::PlannerInfo, columns: &[*mut Node], rows: f64) -> f64 {
    let columns = list(columns.iter().copied());
    let (sets, details) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: the caller's contract.
    unsafe { pg_sys::estimate_num_groups(root, columns, rows, sets, details) }
}

/// Rows that are in one bucket of time of a series, at least.
const LEAST_BUCKET: f64 = 10.0;

/// The relation of the planner that stands for partial groups of `input`.
unsafe fn partial_rel(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    target: &Target,
    groups: f64,
) -> *mut pg_sys::RelOptInfo {
    // SAFETY: the caller's contract.
    unsafe {
        let kind = pg_sys::UpperRelationKind::UPPERREL_PARTIAL_GROUP_AGG;
        let partial = pg_sys::fetch_upper_rel(root, kind, (*input).relids);
        (*partial).reltarget = target.target;
        (*partial).rows = groups;
        partial
    }
}

/// The node's path, of the relation `parent`, with these startup and total costs.
///
/// # Safety
/// As `offer`; the conditions and the target are the source's.
pub unsafe fn node_path(
    parent: *mut pg_sys::RelOptInfo,
    source: &Input,
    target: &Target,
    conditions: &[*mut Node],
    groups: f64,
    (startup, total): (f64, f64),
) -> *mut pg_sys::CustomPath {
    // SAFETY: the caller's contract.
    unsafe {
        let path = make::<pg_sys::CustomPath>(NodeTag::T_CustomPath);
        (*path).path.pathtype = NodeTag::T_CustomScan;
        (*path).path.parent = parent;
        (*path).path.pathtarget = target.target;
        (*path).path.rows = groups;
        (*path).path.startup_cost = startup;
        (*path).path.total_cost = total;
        (*path).flags = SUPPORTS_PROJECTION;
        let mut numbers = vec![
            (*source.table).relid as i32,
            target.groups.len() as i32,
            target.aggregates.len() as i32,
        ];
        let mut value = core::ptr::null_mut();
        if let Some(join) = &source.join {
            numbers.extend([i32::from(join.column), i32::from(join.is_semi)]);
            numbers.push((*join.value).vartype.to_u32() as i32);
            value = join.value;
            (*path).custom_paths = list([join.path]);
        }
        let conditions = list(conditions.iter().copied());
        let none = core::ptr::null_mut();
        let numbers = integer_list(numbers);
        let value = list([value]);
        (*path).custom_private = list([numbers, conditions, value, none, none, none]);
        (*path).methods = &raw const PATH_METHODS.0;
        path
    }
}

/// Makes the node's path one that gives the query what it wants of each group.
unsafe fn finish(path: *mut pg_sys::CustomPath, target: &Target, grouped: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's contract; the path is nobody else's.
    unsafe {
        let mut private: Vec<*mut pg_sys::List> = items((*path).custom_private).collect();
        let aggregates = target.whole.iter().map(|aggregate| aggregate.cast());
        private[5] = list(target.groups.iter().copied().chain(aggregates));
        (*path).custom_private = list(private);
        let output = (*grouped).reltarget;
        let path = &raw mut (*path).path;
        (*path).pathtarget = output;
        (*path).startup_cost += (*output).cost.startup;
        (*path).total_cost += (*output).cost.startup + (*path).rows * (*output).cost.per_tuple;
    }
}

/// Core's final step, hashed and sorted.
///
/// # Safety
/// As `offer`; `path` emits partial groups.
pub unsafe fn add_final_paths(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::Path,
    grouped: *mut pg_sys::RelOptInfo,
    extra: *mut pg_sys::GroupPathExtraData,
    groups: f64,
) {
    use pg_sys::AggStrategy::*;
    // SAFETY: the caller's contract.
    unsafe {
        if (*(*root).parse).groupClause.is_null() {
            return final_path(root, path, grouped, extra, groups, AGG_PLAIN);
        }
        let can = |flag: u32| (*extra).flags & flag as i32 != 0;
        if can(pg_sys::GROUPING_CAN_USE_HASH) {
            final_path(root, path, grouped, extra, groups, AGG_HASHED);
        }
        if can(pg_sys::GROUPING_CAN_USE_SORT) {
            let sorted = sorted_by(root, path, (*root).group_pathkeys);
            final_path(root, sorted, grouped, extra, groups, AGG_SORTED);
        }
    }
}

/// A path with the rows of another one in an order. Columns that a condition makes constant are in none, and core's sort crashes without any.
unsafe fn sorted_by(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::Path,
    keys: *mut pg_sys::List,
) -> *mut pg_sys::Path {
    // SAFETY: the caller's contract.
    unsafe {
        if pg_sys::pathkeys_contained_in(keys, (*path).pathkeys) {
            return path;
        }
        pg_sys::create_sort_path(root, (*path).parent, path, keys, -1.0).cast()
    }
}

/// Core's final step above a path.
unsafe fn final_path(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::Path,
    grouped: *mut pg_sys::RelOptInfo,
    extra: *mut pg_sys::GroupPathExtraData,
    groups: f64,
    strategy: pg_sys::AggStrategy::Type,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let split = pg_sys::AggSplit::AGGSPLIT_FINAL_DESERIAL;
        let costs = costs_of(root, split);
        let final_path = pg_sys::create_agg_path(
            root,
            grouped,
            input,
            (*grouped).reltarget,
            strategy,
            split,
            group_clauses(root),
            (*extra).havingQual.cast(),
            &costs,
            groups,
        );
        pg_sys::add_path(grouped, final_path.cast());
    }
}

/// What core's transition and final functions cost in one of the two steps.
///
/// # Safety
/// As `offer`.
pub unsafe fn costs_of(
    root: *mut pg_sys::PlannerInfo,
    split: pg_sys::AggSplit::Type,
) -> pg_sys::AggClauseCosts {
    let mut costs = pg_sys::AggClauseCosts::default();
    // SAFETY: by contract.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| get_agg_clause_costs(root, split, &mut costs));
    }
    costs
}

/// The columns that core's steps tell groups apart by.
///
/// # Safety
/// As `offer`.
pub unsafe fn group_clauses(root: *mut pg_sys::PlannerInfo) -> *mut pg_sys::List {
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*(*root).parse).groupClause;
        #[cfg(feature = "pg17")]
        return (*root).processed_groupClause;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    _clauses: *mut pg_sys::List,
    plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner for a path of ours.
    unsafe {
        let private: Vec<*mut pg_sys::List> = items((*path).custom_private).collect();
        let mut numbers = crate::pg::node::integers(private[0]);
        if let Some(child) = items::<pg_sys::Plan>(plans).next() {
            numbers.push(place_of(items(private[2]).next(), child));
        }
        let conditions: Vec<*mut Node> = items(private[1]).collect();
        let mut columns: Vec<*mut Node> = items(private[5]).collect();
        let is_whole = !columns.is_empty();
        if !is_whole {
            columns = items::<pg_sys::TargetEntry>(tlist)
                .map(|entry| (*entry).expr.cast())
                .collect();
        }
        let everything: Vec<*mut Node> = columns.into_iter().chain(conditions).collect();
        let scan = make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = tlist;
        (*scan).scan.scanrelid = numbers[0] as u32;
        (*scan).flags = (*path).flags;
        let parameters = parameters_of(Expression::from_ptrs(&everything));
        (*scan).custom_exprs = list(parameters.into_iter().map(|one| one.as_ptr()));
        (*scan).custom_plans = plans;
        // Groups, aggregates, and what there is of a join.
        numbers.insert(3, i32::from(is_whole));
        let numbers = integer_list(numbers[1..].iter().copied());
        (*scan).custom_private = list([numbers, private[3], private[4]]);
        (*scan).custom_scan_tlist = list(everything.iter().enumerate().map(|(at, expression)| {
            let number = at as i16 + 1;
            pg_sys::makeTargetEntry((*expression).cast(), number, core::ptr::null_mut(), false)
        }));
        (*scan).methods = Aggregation::METHODS.scan();
        scan.cast()
    }
}

/// Which column of a child a value is, from 1.
unsafe fn place_of(value: Option<*mut pg_sys::Var>, child: *mut pg_sys::Plan) -> i32 {
    // SAFETY: the caller's contract.
    unsafe {
        let value = value.expect("BUG: a join without a value");
        items::<pg_sys::TargetEntry>((*child).targetlist)
            .find(|entry| pg_sys::equal((**entry).expr.cast(), value.cast()))
            .map_or_else(
                || panic!("BUG: a join's other side lacks its value"),
                |entry| i32::from((*entry).resno),
            )
    }
}
