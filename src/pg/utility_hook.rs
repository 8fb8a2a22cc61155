//! What is done before and after each utility statement.

use super::statement::Statement;
use super::unbound::standard_ProcessUtility;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;

/// Work around utility statements, within guarded entry points.
pub trait AroundUtility {
    /// Says what `after` is to know: the statement may be gone when it has run.
    fn before(statement: Statement<'_>) -> bool;

    /// It has run, and raised no error.
    fn after(answer: bool);
}

static mut NEXT: pg_sys::ProcessUtility_hook_type = None;

/// To be called once, when a backend loads the library.
pub fn install<H: AroundUtility>() {
    // SAFETY: a backend has one thread; the hook lives as long as the library.
    unsafe {
        NEXT = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility::<H>);
    }
}

/// Carries no guard: errors of statements pass through as they are, over frames that hold plain values only.
unsafe extern "C-unwind" fn process_utility<H: AroundUtility>(
    statement: *mut pg_sys::PlannedStmt,
    text: *const core::ffi::c_char,
    read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by core with a statement's parse tree; no value here needs dropping.
    unsafe {
        let answer = before::<H>((*statement).utilityStmt);
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
        after::<H>(answer);
    }
}

/// # Safety
/// `statement` must be the parse tree of a utility statement. An error jumps over the frames above, which must hold plain values only.
unsafe fn before<H: AroundUtility>(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's contract: the statement's parse tree.
    unsafe { pgrx_extern_c_guard(|| H::before(Statement::from_ptr(statement))) }
}

/// # Safety
/// An error jumps over the frames above, which must hold plain values only.
unsafe fn after<H: AroundUtility>(answer: bool) {
    // SAFETY: no frame above owns anything.
    unsafe { pgrx_extern_c_guard(|| H::after(answer)) }
}
