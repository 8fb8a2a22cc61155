//! Which columns a scan needs. The planner is kept from letting scans of varve tables hand out whole
//! rows where few columns are used; and when a plan starts, the slot of each scan that projects is told
//! which columns its node can ask for, so that no other is decoded.

use crate::catalog::{access_method, layout};
use crate::chunk::slot;
use crate::pg::lock_mode::LockMode;
use crate::pg::node::items;
use crate::pg::relation::{Index, Open, Table};
use crate::pg::unbound::planstate_tree_walker;
use pgrx::pg_sys;
use pgrx::prelude::*;

static mut NEXT_PATHLIST: pg_sys::set_rel_pathlist_hook_type = None;
static mut NEXT_START: pg_sys::ExecutorStart_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT_PATHLIST = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(set_rel_pathlist);
        NEXT_START = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(executor_start);
    }
}

/// Says of a varve table that its whole row is needed above the scan. Nothing is read that would not be
/// read anyway; but create_plan then builds a target list of the needed columns instead of a physical
/// one, which an aggregate would copy with all its columns.
#[pg_guard]
unsafe extern "C-unwind" fn set_rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    index: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: called by core with a complete base relation.
    unsafe {
        if let Some(next) = NEXT_PATHLIST {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, rel, index, entry));
        }
        let plain = (*rel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
            && (*entry).rtekind == pg_sys::RTEKind::RTE_RELATION
            && (*entry).relkind as u8 == pg_sys::RELKIND_RELATION
            && !(*rel).attr_needed.is_null();
        if !plain || !access_method::is_varve(Open::table((*entry).relid, LockMode::Held).rel()) {
            return;
        }
        let whole_row = (*rel).attr_needed.offset(-isize::from((*rel).min_attr));
        if (*whole_row).is_null() {
            *whole_row = pg_sys::bms_make_singleton(0);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn executor_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    // SAFETY: called by core; afterwards the plan state tree is complete.
    unsafe {
        match NEXT_START {
            Some(next) => pg_sys::ffi::pg_guard_ffi_boundary(|| next(query, flags)),
            None => pg_sys::standard_ExecutorStart(query, flags),
        }
        let state = (*query).planstate;
        if !state.is_null() {
            let context = (*(*query).estate).es_query_cxt;
            let old = pg_sys::MemoryContextSwitchTo(context);
            visit(state);
            pg_sys::MemoryContextSwitchTo(old);
        }
    }
}

/// Visits a node of a started plan and all below it.
///
/// # Safety
/// `state` is a node of a plan that has been started; must run inside a guarded entry point.
unsafe fn visit(state: *mut pg_sys::PlanState) {
    use pg_sys::NodeTag::*;
    // SAFETY: the node's tag says what it is; nodes that have children of their own besides are left to core's walker.
    unsafe {
        match (*state).type_ {
            T_SeqScanState
            | T_SampleScanState
            | T_IndexScanState
            | T_BitmapHeapScanState
            | T_TidScanState
            | T_TidRangeScanState => narrow(state.cast()),
            T_LimitState
            | T_SortState
            | T_AggState
            | T_ResultState
            | T_ModifyTableState
            | T_IndexOnlyScanState
            | T_HashState
            | T_HashJoinState
            | T_NestLoopState
            | T_MergeJoinState
            | T_GatherState
            | T_GatherMergeState
            | T_MaterialState
            | T_IncrementalSortState
            | T_LockRowsState => {}
            _ => {
                let walker = || planstate_tree_walker(state, visit_child, core::ptr::null_mut());
                pg_sys::ffi::pg_guard_ffi_boundary(walker);
                return;
            }
        }
        for plans in [(*state).initPlan, (*state).subPlan] {
            items::<pg_sys::SubPlanState>(plans).for_each(|plan| visit((*plan).planstate));
        }
        for child in [(*state).lefttree, (*state).righttree] {
            if !child.is_null() {
                visit(child);
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn visit_child(
    state: *mut pg_sys::PlanState,
    _context: *mut core::ffi::c_void,
) -> bool {
    // SAFETY: called by core's walker for each child of a started node.
    unsafe { visit(state) };
    false
}

/// Tells the scan's slot which columns are asked for. Only where the node projects: then nobody but its
/// own expressions reads the slot.
unsafe fn narrow(scan: *mut pg_sys::ScanState) {
    // SAFETY: the caller's contract.
    unsafe {
        let table = (*scan).ss_currentRelation;
        let target = (*scan).ss_ScanTupleSlot;
        if table.is_null()
            || (*scan).ps.ps_ProjInfo.is_null()
            || !access_method::is_varve(Table::from_ptr(table))
            || !slot::is_ours(target)
        {
            return;
        }
        let plan = (*scan).ps.plan;
        let range = (*plan.cast::<pg_sys::Scan>()).scanrelid;
        let mut used: *mut pg_sys::Bitmapset = core::ptr::null_mut();
        for list in [(*plan).targetlist, (*plan).qual]
            .into_iter()
            .chain(rechecks(scan))
        {
            pg_sys::pull_varattnos(list.cast(), range, &mut used);
        }
        let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
        let mut wanted = Vec::new();
        let mut member = pg_sys::bms_next_member(used, -1);
        while member >= 0 {
            match member + first {
                // A whole-row reference.
                0 => return,
                number @ 1.. => wanted.push(number as u16 - 1),
                _ => {}
            }
            member = pg_sys::bms_next_member(used, member);
        }
        slot::restrict(target, wanted);
    }
}

/// Expressions that a node evaluates on its scan slot besides target list and quals.
unsafe fn rechecks(scan: *mut pg_sys::ScanState) -> Vec<*mut pg_sys::List> {
    // SAFETY: the node's tag says what it is.
    unsafe {
        let plan = (*scan).ps.plan;
        match (*plan).type_ {
            pg_sys::NodeTag::T_IndexScan if is_exact(scan.cast()) => Vec::new(),
            pg_sys::NodeTag::T_IndexScan => {
                let node = plan.cast::<pg_sys::IndexScan>();
                vec![(*node).indexqualorig, (*node).indexorderbyorig]
            }
            pg_sys::NodeTag::T_BitmapHeapScan => {
                vec![(*plan.cast::<pg_sys::BitmapHeapScan>()).bitmapqualorig]
            }
            pg_sys::NodeTag::T_TidScan => vec![(*plan.cast::<pg_sys::TidScan>()).tidquals],
            pg_sys::NodeTag::T_TidRangeScan => {
                vec![(*plan.cast::<pg_sys::TidRangeScan>()).tidrangequals]
            }
            _ => Vec::new(),
        }
    }
}

/// Does an index find no rows but those that its quals want, so that nobody asks a row about them? A series index does, and so does a btree.
unsafe fn is_exact(scan: *mut pg_sys::IndexScanState) -> bool {
    // SAFETY: the caller's contract; an index that the node has is open. It has none where the plan is only explained.
    unsafe {
        let index = (*scan).iss_RelationDesc;
        let index = (!index.is_null()).then(|| Index::from_ptr(index));
        index.is_some_and(|index| index.is_btree() || layout::is_series(index))
    }
}
