//! What an event trigger is called with.

use super::error;
use super::node;
use pgrx::pg_sys;

/// The statement that fires an event trigger, this command's own copy; null where there is none.
///
/// # Safety
/// `call` must be what core called a function with.
pub unsafe fn statement(call: pg_sys::FunctionCallInfo) -> *mut pg_sys::Node {
    // SAFETY: core calls event triggers with an EventTriggerData as context.
    unsafe {
        let context = (*call).context;
        if !node::is(context, pg_sys::NodeTag::T_EventTriggerData) {
            error::raise(
                error::Code::ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED,
                "not called as an event trigger",
                "",
                "",
            );
        }
        (*context.cast::<pg_sys::EventTriggerData>()).parsetree
    }
}
