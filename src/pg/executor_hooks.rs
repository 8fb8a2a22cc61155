//! What is done before and after a statement runs.

use super::unbound::{standard_ExecutorFinish, standard_ExecutorRun};
use core::ptr::NonNull;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;

/// A statement that is started.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Query(NonNull<pg_sys::QueryDesc>);

/// What a statement's plan was before it was made serial.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PlanBefore(*mut pg_sys::PlannedStmt);

impl Query {
    /// # Safety
    /// `query` must be started, as long as the handle is used.
    unsafe fn from_ptr(query: *mut pg_sys::QueryDesc) -> Query {
        // SAFETY: by contract: what is started is not null.
        Query(unsafe { NonNull::new_unchecked(query) })
    }

    /// For PostgreSQL's functions.
    pub fn as_ptr(self) -> *mut pg_sys::QueryDesc {
        self.0.as_ptr()
    }

    /// Does its plan want parallel workers?
    pub fn is_parallel(self) -> bool {
        // SAFETY: a statement that is started has a plan.
        unsafe { (*(*self.as_ptr()).plannedstmt).parallelModeNeeded }
    }

    pub fn plan(self) -> PlanBefore {
        // SAFETY: the statement is started.
        PlanBefore(unsafe { (*self.as_ptr()).plannedstmt })
    }

    /// Has it run without parallel workers, until its plan is restored. Within a guarded entry point.
    pub fn make_serial(self) {
        // SAFETY: the plan may be shared, so a copy is changed.
        unsafe {
            let plan = (*self.as_ptr()).plannedstmt;
            let serial: *mut pg_sys::PlannedStmt =
                pg_sys::palloc(size_of::<pg_sys::PlannedStmt>()).cast();
            *serial = *plan;
            (*serial).parallelModeNeeded = false;
            (*self.as_ptr()).plannedstmt = serial;
        }
    }

    /// # Safety
    /// It must be the plan that the statement had before.
    pub unsafe fn restore_plan(self, plan: PlanBefore) {
        // SAFETY: by contract.
        unsafe { (*self.as_ptr()).plannedstmt = plan.0 }
    }
}

/// Work around statements, within guarded entry points. What is not done after a statement that has raised an error is done when its
/// (sub)transaction ends.
pub trait AroundExecution {
    /// What has to be put back when a run has succeeded. An error jumps over it, so it is a plain value.
    type Run: Copy;
    /// The same of what finishes a statement.
    type Finish: Copy;

    fn before_run(query: Query) -> Self::Run;
    fn after_run(query: Query, run: Self::Run);
    /// Modifying CTEs are completed then, and triggers run.
    fn before_finish() -> Self::Finish;
    fn after_finish(finish: Self::Finish);
}

static mut NEXT_RUN: pg_sys::ExecutorRun_hook_type = None;
static mut NEXT_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// To be called once, when a backend loads the library.
pub fn install<H: AroundExecution>() {
    // SAFETY: a backend has one thread; the hooks live as long as the library.
    unsafe {
        NEXT_RUN = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(executor_run::<H>);
        NEXT_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(executor_finish::<H>);
    }
}

// The functions below that core calls and that call on into the executor carry no guard: an error that a statement raises must pass
// through as it is, with its context, position and any SQLSTATE, and not be caught and built anew. It jumps over their frames, so these
// hold plain values only; all work is done in guarded functions beside them.

unsafe extern "C-unwind" fn executor_run<H: AroundExecution>(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    once: bool,
) {
    // SAFETY: called by core with a started query; no value here needs dropping.
    unsafe {
        let run = before_run::<H>(query);
        match NEXT_RUN {
            Some(next) => next(query, direction, count, once),
            None => standard_ExecutorRun(query, direction, count, once),
        }
        after_run::<H>(query, run);
    }
}

/// # Safety
/// `query` must be started. An error jumps over the frames above, which must hold plain values only.
unsafe fn before_run<H: AroundExecution>(query: *mut pg_sys::QueryDesc) -> H::Run {
    // SAFETY: the caller's contract: the query is started.
    unsafe { pgrx_extern_c_guard(|| H::before_run(Query::from_ptr(query))) }
}

/// # Safety
/// As `before_run`, which must have returned `run` for this query.
unsafe fn after_run<H: AroundExecution>(query: *mut pg_sys::QueryDesc, run: H::Run) {
    // SAFETY: as above; it has run.
    unsafe { pgrx_extern_c_guard(|| H::after_run(Query::from_ptr(query), run)) }
}

unsafe extern "C-unwind" fn executor_finish<H: AroundExecution>(query: *mut pg_sys::QueryDesc) {
    // SAFETY: called by core after the last run; no value here needs dropping.
    unsafe {
        let finish = before_finish::<H>();
        match NEXT_FINISH {
            Some(next) => next(query),
            None => standard_ExecutorFinish(query),
        }
        after_finish::<H>(finish);
    }
}

/// # Safety
/// An error jumps over the frames above, which must hold plain values only.
unsafe fn before_finish<H: AroundExecution>() -> H::Finish {
    // SAFETY: no frame above owns anything.
    unsafe { pgrx_extern_c_guard(H::before_finish) }
}

/// # Safety
/// As `before_finish`.
unsafe fn after_finish<H: AroundExecution>(finish: H::Finish) {
    // SAFETY: as above.
    unsafe { pgrx_extern_c_guard(|| H::after_finish(finish)) }
}
