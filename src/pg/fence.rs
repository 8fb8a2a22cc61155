//! Keeps the planner from moving conditions into subqueries that have more rows than their groups: a condition on such a row is asked where the row is,
//! and whether there is one is not told by the rows below. OFFSET 0 does that, for each of the planner's rules at once, and costs nothing. A planner hook
//! puts it there: by then views and WITH are subqueries.

use super::expression::Expression;
use super::{bare, node};
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, NodeTag, Oid};
use pgrx::prelude::pg_guard;
use std::ffi::{c_char, c_void};

/// Knows functions; within guarded entry points.
pub trait AddsRows {
    /// Does a query that groups by a function have rows that its groups do not have?
    fn adds_rows(function: Oid) -> bool;
}

static mut NEXT: pg_sys::planner_hook_type = None;

/// To be called once, when a backend loads the library.
pub fn install<A: AddsRows>() {
    // SAFETY: a backend has one thread; the hook lives as long as the library.
    unsafe {
        NEXT = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan::<A>);
    }
}

// Without a guard of its own: errors of the planner's must pass through as they are. They jump over a frame that holds plain values only.
unsafe extern "C-unwind" fn plan<A: AddsRows>(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: i32,
    values: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: called by core with an analyzed query.
    unsafe {
        pgrx_extern_c_guard(|| fence(query, A::adds_rows));
        let next = NEXT.unwrap_or(bare::standard_planner);
        next(query, text, options, values)
    }
}

/// Fences the subqueries of a query, at any depth. Inside a guard.
///
/// # Safety
/// `query` must be an analyzed query, which the planner gets.
unsafe fn fence(query: *mut pg_sys::Query, adds_rows: fn(Oid) -> bool) {
    // SAFETY: by contract; the context outlives the walk.
    unsafe {
        let has_parts = (*query).hasSubLinks
            || !(*query).cteList.is_null()
            || node::items::<pg_sys::RangeTblEntry>((*query).rtable)
                .any(|entry| (*entry).rtekind == pg_sys::RTEKind::RTE_SUBQUERY);
        if has_parts {
            let context = (&raw const adds_rows).cast_mut().cast();
            pg_sys::query_tree_walker(query, Some(visit), context, 0);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn visit(part: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if part.is_null() {
        return false;
    }
    // SAFETY: called for the parts of an analyzed query, with the context of `fence`.
    unsafe {
        let Some(query) = node::cast::<pg_sys::Query>(part, NodeTag::T_Query) else {
            return pg_sys::expression_tree_walker(part, Some(visit), context);
        };
        if (*query).limitOffset.is_null() && groups_by(query, *context.cast::<fn(Oid) -> bool>()) {
            let zero = Expression::constant(pg_sys::INT8OID, pg_sys::Datum::from(0i64));
            (*query).limitOffset = zero.as_ptr();
        }
        pg_sys::query_tree_walker(query, Some(visit), context, 0)
    }
}

/// # Safety
/// As `fence`.
unsafe fn groups_by(query: *mut pg_sys::Query, adds_rows: fn(Oid) -> bool) -> bool {
    // SAFETY: by contract; the columns of groups are in the target list.
    unsafe {
        let mut groups = node::items::<pg_sys::SortGroupClause>((*query).groupClause);
        groups.any(|group| {
            let target = pg_sys::get_sortgroupclause_tle(group, (*query).targetList);
            let call = node::cast::<pg_sys::FuncExpr>((*target).expr.cast(), NodeTag::T_FuncExpr);
            call.is_some_and(|call| adds_rows((*call).funcid))
        })
    }
}
