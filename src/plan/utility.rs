//! Utility statements that bring rows: the end of a COPY is told to batches. Core says of each partition when it is done with it for now,
//! and has no word for the end of all.

use crate::ingest::batch;
use crate::pg::node;
use crate::pg::unbound::standard_ProcessUtility;
use pgrx::pg_sys;
use pgrx::prelude::*;

static mut NEXT: pg_sys::ProcessUtility_hook_type = None;

pub fn init() {
    // SAFETY: called once, by the single thread of a backend that loads the library.
    unsafe {
        NEXT = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

/// Without `#[pg_guard]`, as the executor's hooks (`plan/hooks`): errors of statements pass through as they are, over frames that hold
/// plain values only.
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const core::ffi::c_char,
    read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by core; no value here needs dropping.
    unsafe {
        // The statement may be gone when it has run.
        let loads = before((*statement).utilityStmt);
        let next = NEXT.unwrap_or(standard_ProcessUtility);
        next(
            statement,
            text,
            read_only,
            context,
            params,
            environment,
            receiver,
            completion,
        );
        if loads {
            after();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn before(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: the statement's parse tree.
    let loads = unsafe {
        node::is(statement, pg_sys::NodeTag::T_CopyStmt)
            && (*statement.cast::<pg_sys::CopyStmt>()).is_from
    };
    if loads {
        batch::enter_copy();
    }
    loads
}

#[pg_guard]
unsafe extern "C-unwind" fn after() {
    batch::leave_copy();
}
