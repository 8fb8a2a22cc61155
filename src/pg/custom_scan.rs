//! What nodes of our own in plans have in common.

use crate::pg::executor;
use crate::pg::node::{items, list, make};
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomScanState, EState, NodeTag, PlanState, TupleTableSlot,
};
use pgrx::prelude::*;
use std::ffi::CStr;

/// Flags of a custom path whose node projects.
pub const SUPPORTS_PROJECTION: u32 = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;

/// A table of a custom path's or node's methods; constant.
#[repr(transparent)]
pub struct Shared<T>(pub T);
// SAFETY: never written.
unsafe impl<T> Sync for Shared<T> {}

/// The methods of a node that runs forward, in one process.
pub const fn exec_methods(
    name: &'static CStr,
    begin: unsafe extern "C-unwind" fn(*mut CustomScanState, *mut EState, i32),
    exec: unsafe extern "C-unwind" fn(*mut CustomScanState) -> *mut TupleTableSlot,
    end: unsafe extern "C-unwind" fn(*mut CustomScanState),
    rescan: unsafe extern "C-unwind" fn(*mut CustomScanState),
) -> CustomExecMethods {
    CustomExecMethods {
        CustomName: name.as_ptr(),
        BeginCustomScan: Some(begin),
        ExecCustomScan: Some(exec),
        EndCustomScan: Some(end),
        ReScanCustomScan: Some(rescan),
        MarkPosCustomScan: None,
        RestrPosCustomScan: None,
        EstimateDSMCustomScan: None,
        InitializeDSMCustomScan: None,
        ReInitializeDSMCustomScan: None,
        InitializeWorkerCustomScan: None,
        ShutdownCustomScan: None,
        ExplainCustomScan: None,
    }
}

/// Lets a node's source begin again.
///
/// # Safety
/// Both are initialized; must run inside a guarded entry point.
pub unsafe fn rescan_source(node: *mut CustomScanState, source: *mut PlanState) {
    // SAFETY: by contract.
    unsafe {
        let changed = (*node).ss.ps.chgParam;
        if !changed.is_null() {
            pg_sys::UpdateChangedParamSet(source, changed);
        }
        // One whose parameters have changed begins again by itself.
        if (*source).chgParam.is_null() {
            pg_sys::ExecReScan(source);
        }
    }
}

/// A path of ours above another one, whose rows it hands on, or some of them.
///
/// # Safety
/// `source` must be a path of the planner that is running.
pub unsafe fn path_above(
    source: *mut pg_sys::Path,
    cost_per_row: f64,
    private: *mut pg_sys::List,
    methods: *const pg_sys::CustomPathMethods,
) -> *mut pg_sys::CustomPath {
    // SAFETY: by contract; all nodes belong to the planner's memory context.
    unsafe {
        let path = make::<pg_sys::CustomPath>(NodeTag::T_CustomPath);
        (*path).path.pathtype = NodeTag::T_CustomScan;
        (*path).path.parent = (*source).parent;
        (*path).path.pathtarget = (*source).pathtarget;
        (*path).path.rows = (*source).rows;
        (*path).path.startup_cost = (*source).startup_cost;
        (*path).path.total_cost = (*source).total_cost + cost_per_row * (*source).rows;
        (*path).path.pathkeys = (*source).pathkeys;
        (*path).flags = SUPPORTS_PROJECTION;
        (*path).custom_paths = list([source]);
        (*path).custom_private = private;
        (*path).methods = methods;
        path
    }
}

/// The plan of such a path.
///
/// # Safety
/// As the planner calls PlanCustomPath.
pub unsafe fn plan_above(
    path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    plans: *mut pg_sys::List,
    methods: *const pg_sys::CustomScanMethods,
) -> *mut pg_sys::Plan {
    // SAFETY: by contract: it has one source.
    unsafe {
        let source = items::<pg_sys::Plan>(plans).next();
        let source = source.expect("BUG: a node without a source");
        let scan = make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = tlist;
        (*scan).flags = (*path).flags;
        (*scan).custom_plans = plans;
        (*scan).custom_scan_tlist = pg_sys::copyObjectImpl((*source).targetlist.cast()).cast();
        (*scan).custom_private = (*path).custom_private;
        (*scan).methods = methods;
        scan.cast()
    }
}

/// The plan below a node that `plan_above` has planned.
///
/// # Safety
/// `node` must be one.
#[pg_guard]
pub unsafe extern "C-unwind" fn source_of(node: *mut CustomScanState) -> *mut pg_sys::Plan {
    // SAFETY: by contract.
    unsafe {
        let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let source = items::<pg_sys::Plan>((*scan).custom_plans).next();
        source.expect("BUG: a node without a source")
    }
}

/// Hands on a row of such a node's source, projected.
///
/// # Safety
/// `row` must be one of the source; must run inside a guarded entry point.
pub unsafe fn hand_on(node: *mut CustomScanState, row: *mut TupleTableSlot) -> *mut TupleTableSlot {
    // SAFETY: by contract.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        executor::clear_tuple(slot);
        executor::borrow_attributes(slot, row);
        let projection = (*node).ss.ps.ps_ProjInfo;
        if projection.is_null() {
            return slot;
        }
        let context = (*node).ss.ps.ps_ExprContext;
        (*context).ecxt_scantuple = slot;
        executor::project(projection)
    }
}
