//! What nodes of our own in plans have in common.

use pgrx::pg_sys::{self, CustomExecMethods, CustomScanState, EState, PlanState, TupleTableSlot};
use std::ffi::CStr;

/// Flags of a custom path whose node projects; version 14 takes it for granted.
#[cfg(feature = "pg14")]
pub const SUPPORTS_PROJECTION: u32 = 0;
#[cfg(not(feature = "pg14"))]
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
