//! What the planner is told: ordinary indexes of a table that has, or may get, compressed rows cover
//! its tail only, so no path may be made from them. They stay in the list for what else core asks of it: proofs that
//! rows of a join are unique, statistics of expressions, the newest time. Those that are not asked for anything go, since core
//! makes the paths of each index before it throws them away.

use crate::catalog::access_method;
use crate::catalog::{keys, layout};
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{cast, items};
use crate::pg::relation::Open;
use pgrx::pg_sys;
use pgrx::prelude::*;
use smallvec::SmallVec;

static mut NEXT: pg_sys::get_relation_info_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(get_relation_info);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_relation_info(
    root: *mut pg_sys::PlannerInfo,
    table: pg_sys::Oid,
    inherited: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: called by core at the end of its own get_relation_info.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, table, inherited, rel));
        }
        let list = (*rel).indexlist;
        if list.is_null() {
            return;
        }
        let open = Open::table(table, LockMode::Held);
        if !access_method::is_varve(open.rel()) {
            return;
        }
        let series = layout::index_am();
        let indexes = core::slice::from_raw_parts((*list).elements, (*list).length as usize);
        let ordinary: SmallVec<[*mut pg_sys::IndexOptInfo; 4]> = indexes
            .iter()
            .map(|cell| cell.ptr_value.cast())
            .filter(|&index: &*mut pg_sys::IndexOptInfo| (*index).relam != series)
            .collect();
        if ordinary.is_empty() {
            return;
        }
        if !keys::may_have_chunks(open.rel()) {
            return;
        }
        let is_alone = is_alone(root, rel);
        let time = time_column(indexes, series);
        for index in ordinary {
            if is_alone && is_for_paths_only(index, time) {
                (*rel).indexlist = pg_sys::list_delete_ptr((*rel).indexlist, index.cast());
                continue;
            }
            (*index).amhasgettuple = false;
            (*index).amhasgetbitmap = false;
            // Core makes paths for parallel index scans whatever amhasgettuple says.
            (*index).amcanparallel = false;
        }
    }
}

/// Is a relation the only one of its query, so that nobody asks whether its rows are unique in a join?
///
/// # Safety
/// Called while core plans.
unsafe fn is_alone(root: *mut pg_sys::PlannerInfo, rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the join tree of a query is a FromExpr, whose list has nodes. CLUSTER and CREATE INDEX ask about a table without one.
    unsafe {
        let Some(tree) = (*(*root).parse).jointree.as_ref() else {
            return false;
        };
        let mut members = items::<pg_sys::Node>(tree.fromlist);
        let (Some(first), None) = (members.next(), members.next()) else {
            return false;
        };
        cast::<pg_sys::RangeTblRef>(first, pg_sys::NodeTag::T_RangeTblRef)
            .is_some_and(|member| (*member).rtindex as pg_sys::Index == (*rel).relid)
    }
}

/// The number of the column by which a table's first series index, if there is one, orders the rows of a series.
///
/// # Safety
/// `indexes` are core's; `series` is the access method of series indexes.
unsafe fn time_column(indexes: &[pg_sys::ListCell], series: pg_sys::Oid) -> Option<i32> {
    // SAFETY: the caller's promise; an index has as many columns as it says.
    unsafe {
        let all = indexes.iter().map(|cell| cell.ptr_value.cast());
        all.filter(|&index: &*mut pg_sys::IndexOptInfo| (*index).relam == series)
            .map(|index| *(*index).indexkeys.add((*index).nkeycolumns as usize - 1))
            .next()
    }
}

/// Is nothing asked of an index but paths, in a query of one table? Of an expression it has statistics; of one column it tells that its values
/// are unique; and of the times that have come since ANALYZE, of which most are in the tail, what the newest is.
///
/// # Safety
/// `index` is core's.
unsafe fn is_for_paths_only(index: *mut pg_sys::IndexOptInfo, time: Option<i32>) -> bool {
    // SAFETY: the caller's promise; an index has as many columns as it says.
    unsafe {
        let tells_uniqueness = (*index).unique && (*index).nkeycolumns == 1;
        let tells_newest = Some(*(*index).indexkeys) == time;
        (*index).indexprs.is_null() && !tells_uniqueness && !tells_newest
    }
}
