//! The planner's hook, for statements that a client sends as text to be run at once, so that a plan that is kept may come into the place of a new one.
//! What is prepared, declared, explained or run in a function is left to the planner.
//!
//! Such a statement is known by its analysis: that is done while nothing runs, without hooks of the parser's for parameters. The query that comes out of
//! it is the one that the planner gets next, with the same text. It may be another one, though: core analyzes a prepared statement anew, and functions
//! run while a statement is planned. So nothing depends on that: a plan has its values with it (`valued_plan`), and may be copied and kept.

use super::bare;
use super::planned_statement::Planned;
use super::text_statement::{GenericQuery, RunnablePlan, TextStatement};
use super::transaction;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, CmdType};
use std::cell::Cell;
use std::ffi::c_char;
use std::ptr::null_mut;

/// What is kept of a statement.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum Found {
    Nothing,
    Plan(RunnablePlan),
    /// This is to be planned beside the statement, and its plan to be kept under a number.
    Wanted(GenericQuery, u64),
}

/// Whoever keeps plans; within guarded entry points.
pub trait KeepsPlans {
    fn find(statement: TextStatement<'_>) -> Found;

    /// Is it worth planning what is wanted beside a statement that has this plan?
    fn is_worth(plan: Planned<'_>) -> bool;

    /// What was wanted under a number was planned: for ranges as wide as the statement's, if it is `of_spans`, else for any. Is it to be planned for
    /// those instead?
    fn keep(number: u64, plan: Planned<'_>, generic: Planned<'_>, of_spans: bool) -> bool;
}

/// A statement that was analyzed last.
#[derive(Clone, Copy, PartialEq)]
struct Analyzed {
    query: *mut pg_sys::Query,
    text: *const c_char,
    statement_started: i64,
}

thread_local! {
    static ANALYZED: Cell<Option<Analyzed>> = const { Cell::new(None) };
}

static mut NEXT_ANALYSIS: pg_sys::post_parse_analyze_hook_type = None;
static mut NEXT_PLANNER: pg_sys::planner_hook_type = None;

/// To be called once, when a backend loads the library.
pub fn install<K: KeepsPlans>() {
    // SAFETY: a backend has one thread; the hooks live as long as the library.
    unsafe {
        NEXT_ANALYSIS = pg_sys::post_parse_analyze_hook;
        pg_sys::post_parse_analyze_hook = Some(analyzed);
        NEXT_PLANNER = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan::<K>);
    }
}

// The hooks carry no guard: errors of the planner's must pass through as they are. They jump over frames that hold plain values only.

unsafe extern "C-unwind" fn analyzed(
    state: *mut pg_sys::ParseState,
    query: *mut pg_sys::Query,
    jumbled: *mut pg_sys::JumbleState,
) {
    // SAFETY: called by core with what it has analyzed.
    unsafe {
        if let Some(next) = NEXT_ANALYSIS {
            next(state, query, jumbled);
        }
        let command = (*query).commandType;
        let is_sent = (command == CmdType::CMD_INSERT || command == CmdType::CMD_SELECT)
            && (*state).p_paramref_hook.is_none()
            && !(*state).p_sourcetext.is_null()
            && is_client()
            && bare::ActivePortal.is_null();
        ANALYZED.set(is_sent.then(|| Analyzed {
            query,
            text: (*state).p_sourcetext,
            statement_started: transaction::statement_started(),
        }));
    }
}

/// Is this process one that runs what a client sends, or what a single user types?
fn is_client() -> bool {
    // SAFETY: set when a process begins.
    unsafe { !pg_sys::MyProcPort.is_null() || !pg_sys::IsUnderPostmaster }
}

unsafe extern "C-unwind" fn plan<K: KeepsPlans>(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: i32,
    values: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: called by core with an analyzed query; no value here needs dropping.
    unsafe {
        let next = NEXT_PLANNER.unwrap_or(bare::standard_planner);
        let asked = Analyzed {
            query,
            text,
            statement_started: transaction::statement_started(),
        };
        let is_plain = values.is_null() && options & pg_sys::CURSOR_OPT_SCROLL as i32 == 0;
        if is_plain && ANALYZED.take() == Some(asked) {
            match find::<K>(query, text) {
                Found::Plan(plan) => return plan.0,
                Found::Wanted(generic, number) => {
                    let plan = next(query, text, options, null_mut());
                    if is_worth::<K>(plan) {
                        let any = next(generic.query, text, options, null_mut());
                        if keep::<K>(number, plan, any, false) && !generic.ranged.is_null() {
                            let ranged = next(generic.ranged, text, options, generic.bounds);
                            keep::<K>(number, plan, ranged, true);
                        }
                    }
                    return plan;
                }
                Found::Nothing => {}
            }
        }
        next(query, text, options, values)
    }
}

/// # Safety
/// The query must be an analyzed one, of the text. An error jumps over the frames above, which must hold plain values only.
unsafe fn find<K: KeepsPlans>(query: *mut pg_sys::Query, text: *const c_char) -> Found {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| K::find(TextStatement::from_ptr(query, text))) }
}

/// # Safety
/// `plan` must be one. An error jumps over the frames above, which must hold plain values only.
unsafe fn is_worth<K: KeepsPlans>(plan: *mut pg_sys::PlannedStmt) -> bool {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| K::is_worth(Planned::from_ptr(plan))) }
}

/// # Safety
/// As `is_worth`, of both.
unsafe fn keep<K: KeepsPlans>(
    number: u64,
    plan: *mut pg_sys::PlannedStmt,
    generic: *mut pg_sys::PlannedStmt,
    of_spans: bool,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let keep = || {
            let (plan, generic) = (Planned::from_ptr(plan), Planned::from_ptr(generic));
            K::keep(number, plan, generic, of_spans)
        };
        pgrx_extern_c_guard(keep)
    }
}
