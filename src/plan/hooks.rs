//! Executor and transaction hooks: they tell batches and collected changes when statements and subtransactions begin and end,
//! and write both before a transaction commits. What is forgotten at its end forgets itself (`pg::transaction`).

use crate::compact::torture;
use crate::ingest::batch;
use crate::pg::news;
use crate::pg::unbound::{standard_ExecutorFinish, standard_ExecutorRun};
use crate::pg::wake;
use crate::rollup::watch;
use crate::table::{changes, deferred};
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
}

// The functions below that core calls and that call on into the executor carry no `#[pg_guard]`: an error that a
// statement raises must pass through as it is, with its context, position and any SQLSTATE, and not be caught and built
// anew. It jumps over their frames, so these hold plain values only; all work is done in guarded functions beside them.
// What an error leaves behind, the nesting depth, is cut back when its (sub)transaction ends.

unsafe extern "C-unwind" fn executor_run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    once: bool,
) {
    // SAFETY: called by core with a started query; no value here needs dropping.
    unsafe {
        let run = before_run(query);
        match NEXT_RUN {
            Some(next) => next(query, direction, count, once),
            None => standard_ExecutorRun(query, direction, count, once),
        }
        after_run(query, run);
    }
}

/// What has to be put back when a run has succeeded.
#[derive(Clone, Copy)]
#[repr(C)]
struct Run {
    depth: usize,
    approved: bool,
    plan: *mut pg_sys::PlannedStmt,
}

#[pg_guard]
unsafe extern "C-unwind" fn before_run(query: *mut pg_sys::QueryDesc) -> Run {
    // SAFETY: the query is started.
    unsafe {
        let approved = super::batch_eligibility::eligible_command(query);
        let depth = batch::depth();
        if depth == 0 {
            wake::at_statement();
        }
        batch::enter_statement(approved);
        let plan = (*query).plannedstmt;
        make_serial(query);
        Run {
            depth,
            approved: approved.is_some(),
            plan,
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn after_run(query: *mut pg_sys::QueryDesc, run: Run) {
    // SAFETY: the query has run.
    unsafe { (*query).plannedstmt = run.plan };
    if run.approved {
        batch::flush_all();
    }
    if run.depth == 0 {
        changes::flush();
    }
    batch::truncate_depth(run.depth);
}

unsafe extern "C-unwind" fn executor_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: called by core after the last run. Modifying CTEs are completed in here, and triggers run.
    unsafe {
        let depth = before_finish();
        match NEXT_FINISH {
            Some(next) => next(query),
            None => standard_ExecutorFinish(query),
        }
        after_finish(depth);
    }
}

/// What triggers do is part of their statement, cascades of foreign keys above all.
#[pg_guard]
unsafe extern "C-unwind" fn before_finish() -> usize {
    let depth = batch::depth();
    batch::enter_statement(None);
    depth
}

#[pg_guard]
unsafe extern "C-unwind" fn after_finish(depth: usize) {
    batch::truncate_depth(depth);
    if depth == 0 {
        changes::flush();
    }
}

/// Runs a statement without parallel workers while there are changes that only this process knows.
unsafe fn make_serial(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the caller's contract; the plan may be shared, so a copy is changed.
    unsafe {
        let plan = (*query).plannedstmt;
        if !(*plan).parallelModeNeeded || !changes::any_unwritten() {
            return;
        }
        let serial = pg_sys::palloc(core::mem::size_of::<pg_sys::PlannedStmt>())
            .cast::<pg_sys::PlannedStmt>();
        *serial = *plan;
        (*serial).parallelModeNeeded = false;
        (*query).plannedstmt = serial;
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
            let prepares = event == pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE;
            changes::flush_finally(prepares);
            torture::seal();
            deferred::release();
            watch::publish(prepares);
            news::tell_due();
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT => wake::end_transaction(true),
        pg_sys::XactEvent::XACT_EVENT_ABORT | pg_sys::XactEvent::XACT_EVENT_PREPARE => {
            wake::end_transaction(false);
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
        pg_sys::SubXactEvent::SUBXACT_EVENT_START_SUB => return batch::begin_subtransaction(sub),
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => true,
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => false,
        _ => return,
    };
    batch::end_subtransaction(sub, parent, committed);
    changes::end_subtransaction(sub, parent, committed);
}
