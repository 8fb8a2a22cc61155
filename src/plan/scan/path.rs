//! The node's paths, for one process and for several, and its plan. Conditions travel in `custom_exprs`, in core's order, which is that of their
//! security levels.

use super::{cost, reason};
use crate::exec::scan::Scan;
use crate::guc;
use crate::pg::custom_scan::{CustomScan, Shared, SUPPORTS_PROJECTION};
use crate::pg::expression::Expression;
use crate::pg::node::{cast, items, list, make, name};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::plan::aggregate::{checks, parallel};
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;

static mut NEXT: pg_sys::set_rel_pathlist_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(set_rel_pathlist);
    }
}

static PATH_METHODS: Shared<pg_sys::CustomPathMethods> = Shared(pg_sys::CustomPathMethods {
    CustomName: Scan::NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

#[pg_guard]
unsafe extern "C-unwind" fn set_rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: called by core with a complete base relation.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, rel, number, entry));
        }
        offer(root, rel);
    }
}

/// Adds the node's paths to those of a table.
unsafe fn offer(root: *mut pg_sys::PlannerInfo, table: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's contract; all nodes belong to the planner's memory context.
    unsafe {
        let is_wanted = guc::enable_scan() && pg_sys::enable_seqscan;
        if !is_wanted
            || looks_at_few(root, table)
            || pg_sys::is_dummy_rel(table)
            || checks::table_of(Planner::from_ptr(root), PlannedTable::from_ptr(table)).is_none()
        {
            return;
        }
        let conditions = checks::row_conditions_of(PlannedTable::from_ptr(table));
        let Some(conditions) = &conditions else {
            return;
        };
        let conditions = Expression::as_ptrs(conditions);
        let Some(columns) = columns_of(table, conditions) else {
            return;
        };
        let Some((startup, total)) = cost::of_node(root, table, conditions, columns) else {
            return;
        };
        let path = make::<pg_sys::CustomPath>(NodeTag::T_CustomPath);
        (*path).path.pathtype = NodeTag::T_CustomScan;
        (*path).path.parent = table;
        (*path).path.pathtarget = (*table).reltarget;
        (*path).path.parallel_safe = (*table).consider_parallel;
        (*path).path.rows = (*table).rows;
        (*path).path.startup_cost = startup;
        (*path).path.total_cost = total;
        (*path).flags = SUPPORTS_PROJECTION;
        let reason = reason::of(Planner::from_ptr(root));
        let reason = reason.map(|reason| pg_sys::makeString(name(&reason)).cast::<Node>());
        (*path).custom_private = list(reason);
        (*path).methods = &raw const PATH_METHODS.0;
        // `add_path` may free it.
        let several = pg_sys::palloc(size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
        *several = *path;
        pg_sys::add_path(table, path.cast());
        let workers = parallel::workers_of(root, table, conditions);
        if workers > 0 {
            parallel::share_rows(several, workers);
            pg_sys::add_partial_path(table, several.cast());
        }
    }
}

/// Is the table small, or does a scan through an index look at few rows of it? Told by what is known already.
unsafe fn looks_at_few(root: *mut pg_sys::PlannerInfo, table: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the caller's contract; a node's tag says what it is.
    unsafe {
        let few = |share: f64| share * (*table).tuples < cost::LEAST_ROWS;
        let mut paths = items::<Node>((*table).pathlist);
        let by_index = |path| {
            let path = cast::<pg_sys::IndexPath>(path, NodeTag::T_IndexPath);
            path.is_some_and(|path| {
                (*path).path.param_info.is_null()
                    && (few((*path).indexselectivity) || stops_early(root, table, path))
            })
        };
        few(1.0) || paths.any(by_index)
    }
}

/// Does the query want a few rows, in the order in which a scan through an index comes to them, and no others than these?
unsafe fn stops_early(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    path: *const pg_sys::IndexPath,
) -> bool {
    // SAFETY: the caller's contract; a list may be null.
    unsafe {
        let wanted = (*root).limit_tuples;
        let length = |list: *mut pg_sys::List| list.as_ref().map_or(0, |list| list.length);
        (0.0..cost::LEAST_ROWS).contains(&wanted)
            && pg_sys::bms_membership((*root).all_baserels) == pg_sys::BMS_Membership::BMS_SINGLETON
            && length((*table).baserestrictinfo) <= length((*path).indexclauses)
            && !(*root).query_pathkeys.is_null()
            && pg_sys::pathkeys_contained_in((*root).query_pathkeys, (*path).path.pathkeys)
    }
}

/// How many columns the node decodes; None where more than columns is asked for: a system column, or whole rows.
unsafe fn columns_of(table: *mut pg_sys::RelOptInfo, conditions: &[*mut Node]) -> Option<f64> {
    let (mut columns, mut count) = (core::ptr::null_mut(), 0);
    // SAFETY: the caller's contract.
    unsafe {
        let number = (*table).relid;
        pg_sys::pull_varattnos((*(*table).reltarget).exprs.cast(), number, &mut columns);
        let conditions = list(conditions.iter().copied());
        pg_sys::pull_varattnos(conditions.cast(), number, &mut columns);
        let mut member = pg_sys::bms_next_member(columns, -1);
        while member >= 0 {
            if member + pg_sys::FirstLowInvalidHeapAttributeNumber <= 0 {
                return None;
            }
            count += 1;
            member = pg_sys::bms_next_member(columns, member);
        }
    }
    Some(f64::from(count))
}

#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner for a path of ours, with the table's conditions in the order in which they may be evaluated.
    unsafe {
        let scan = make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = tlist;
        (*scan).scan.scanrelid = (*table).relid;
        (*scan).flags = (*path).flags;
        // What no row decides is asked above the node.
        let rows = items::<pg_sys::RestrictInfo>(clauses).filter(|info| !(**info).pseudoconstant);
        (*scan).custom_exprs = list(rows.map(|info| (*info).clause.cast::<Node>()));
        (*scan).custom_private = (*path).custom_private;
        (*scan).methods = Scan::METHODS.scan();
        scan.cast()
    }
}
