//! What an event trigger is called with.

use super::error;
use super::fcinfo::Fcinfo;
use super::node;
use super::statement::Statement;
use pgrx::pg_sys;

/// The statement that fires an event trigger, this command's own copy, if there is one.
///
/// # Safety
/// `call` must be what core called a function with, and the handle be used no longer than the call runs.
pub unsafe fn statement<'a>(call: Fcinfo) -> Option<Statement<'a>> {
    // SAFETY: core calls event triggers with an EventTriggerData as context.
    unsafe {
        let context = call.context();
        if !node::is(context, pg_sys::NodeTag::T_EventTriggerData) {
            error::raise(
                error::Code::ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED,
                "not called as an event trigger",
                "",
                "",
            );
        }
        Statement::existing((*context.cast::<pg_sys::EventTriggerData>()).parsetree)
    }
}
