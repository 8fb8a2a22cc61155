//! Keeps the planner from moving conditions into subqueries that have more rows than their groups: a condition on such a row is asked where the row is,
//! and whether there is one is not told by the rows below. OFFSET 0 does that, for each of the planner's rules at once, and costs nothing.

use super::node;
use pgrx::pg_sys::{self, NodeTag, Oid};
use pgrx::prelude::pg_guard;
use std::ffi::c_void;

/// Does a query that groups by a function have rows that its groups do not have? Within a guarded entry point.
pub type AddsRows = fn(function: Oid) -> bool;

/// Fences the subqueries of a query, at any depth. Inside a guard.
///
/// # Safety
/// `query` must be an analyzed query, which the planner gets.
pub unsafe fn fence(query: *mut pg_sys::Query, adds_rows: AddsRows) {
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
        if (*query).limitOffset.is_null() && groups_by(query, *context.cast::<AddsRows>()) {
            let (length, by_value) = (size_of::<i64>(), true);
            let none = pg_sys::Datum::from(0i64);
            let zero = pg_sys::makeConst(
                pg_sys::INT8OID,
                -1,
                pg_sys::InvalidOid,
                length as i32,
                none,
                false,
                by_value,
            );
            (*query).limitOffset = zero.cast();
        }
        pg_sys::query_tree_walker(query, Some(visit), context, 0)
    }
}

/// # Safety
/// As `fence`.
unsafe fn groups_by(query: *mut pg_sys::Query, adds_rows: AddsRows) -> bool {
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
