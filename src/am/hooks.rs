//! Executor and transaction hooks: they tell batches and collected changes when statements, transactions
//! and subtransactions begin and end.

use crate::table::{batch, changes};
use pgrx::pg_sys;
use pgrx::prelude::*;

static mut NEXT_RUN: pg_sys::ExecutorRun_hook_type = None;
static mut NEXT_FINISH: pg_sys::ExecutorFinish_hook_type = None;

pub fn init() {
    // SAFETY: called once, by the single thread of a backend that loads the library.
    unsafe {
        NEXT_RUN = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(executor_run);
        NEXT_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(executor_finish);
        pg_sys::RegisterXactCallback(Some(transaction_event), core::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction_event), core::ptr::null_mut());
    }
    super::planner::init();
    super::projection::init();
}

/// Keeps the nesting depth right also when a statement fails.
struct Nesting {
    depth: usize,
}

impl Nesting {
    fn enter(approved: Option<pg_sys::CommandId>) -> Nesting {
        let depth = batch::depth();
        batch::enter_statement(approved);
        Nesting { depth }
    }
}

impl Drop for Nesting {
    fn drop(&mut self) {
        batch::leave_statement();
        batch::truncate_depth(self.depth);
    }
}

#[cfg(not(feature = "pg18"))]
#[pg_guard]
unsafe extern "C-unwind" fn executor_run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    once: bool,
) {
    // SAFETY: called by core with a started query.
    unsafe {
        run(query, || match NEXT_RUN {
            Some(next) => {
                pg_sys::ffi::pg_guard_ffi_boundary(|| next(query, direction, count, once))
            }
            None => pg_sys::standard_ExecutorRun(query, direction, count, once),
        })
    }
}

#[cfg(feature = "pg18")]
#[pg_guard]
unsafe extern "C-unwind" fn executor_run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
) {
    // SAFETY: called by core with a started query.
    unsafe {
        run(query, || match NEXT_RUN {
            Some(next) => pg_sys::ffi::pg_guard_ffi_boundary(|| next(query, direction, count)),
            None => pg_sys::standard_ExecutorRun(query, direction, count),
        })
    }
}

unsafe fn run(query: *mut pg_sys::QueryDesc, body: impl FnOnce()) {
    // SAFETY: the caller's contract.
    unsafe {
        let approved = super::approval::approved_command(query);
        let nesting = Nesting::enter(approved);
        let outermost = nesting.depth == 0;
        let _serial = SerialRun::begin(query);
        body();
        if approved.is_some() {
            batch::flush_all();
        }
        if outermost {
            changes::flush();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn executor_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: called by core after the last run. Modifying CTEs are completed in here.
    unsafe {
        match NEXT_FINISH {
            Some(next) => pg_sys::ffi::pg_guard_ffi_boundary(|| next(query)),
            None => pg_sys::standard_ExecutorFinish(query),
        }
        if batch::depth() == 0 {
            changes::flush();
        }
    }
}

/// Runs a statement without parallel workers while there are changes that only this process knows.
struct SerialRun {
    query: *mut pg_sys::QueryDesc,
    plan: *mut pg_sys::PlannedStmt,
}

impl SerialRun {
    /// # Safety
    /// `query` must outlive the guard.
    unsafe fn begin(query: *mut pg_sys::QueryDesc) -> Option<SerialRun> {
        // SAFETY: by contract; the plan may be shared, so a copy is changed.
        unsafe {
            let plan = (*query).plannedstmt;
            if !(*plan).parallelModeNeeded || !changes::any_unwritten() {
                return None;
            }
            let serial = pg_sys::palloc(core::mem::size_of::<pg_sys::PlannedStmt>())
                .cast::<pg_sys::PlannedStmt>();
            *serial = *plan;
            (*serial).parallelModeNeeded = false;
            (*query).plannedstmt = serial;
            Some(SerialRun { query, plan })
        }
    }
}

impl Drop for SerialRun {
    fn drop(&mut self) {
        // SAFETY: the query outlives its run.
        unsafe { (*self.query).plannedstmt = self.plan }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut core::ffi::c_void,
) {
    match event {
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT | pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE => {
            batch::flush_all();
            changes::flush();
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_ABORT
        | pg_sys::XactEvent::XACT_EVENT_PREPARE
        | pg_sys::XactEvent::XACT_EVENT_PARALLEL_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_PARALLEL_ABORT => {
            batch::forget();
            changes::forget();
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_event(
    event: pg_sys::SubXactEvent::Type,
    sub: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    let committed = match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => true,
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => false,
        _ => return,
    };
    batch::end_subtransaction(sub, parent, committed);
    changes::end_subtransaction(sub, parent, committed);
}
