//! Calling core where it may raise an error of a known kind, for who raises another one in its place. Any other error goes on as it was raised, with
//! all that core knows of it: pgrx's own guard would leave out what an error says of its table and constraint.

use cee_scape::{call_with_sigsetjmp, SigJmpBufFields};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use pgrx::pg_sys;

unsafe extern "C-unwind" {
    fn geterrcode() -> c_int;
    fn FlushErrorState();
    fn pg_re_throw() -> !;
}

/// What `call` returns; the code of the error that it has raised, if that is one of `codes`.
///
/// # Safety
/// Nothing between the caller and core, nor within `call`, may need dropping. After such an error nothing may be done but to raise another one: what has
/// been locked and opened is still so.
pub unsafe fn attempt<T: Copy>(codes: &[c_int], call: impl FnOnce() -> T) -> Result<T, c_int> {
    let mut result = MaybeUninit::<T>::uninit();
    // SAFETY: as core's PG_TRY has it; by contract nothing needs dropping where an error jumps over.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let (handler, callbacks) = (pg_sys::PG_exception_stack, pg_sys::error_context_stack);
        let jumped = call_with_sigsetjmp(false, |here| {
            pg_sys::PG_exception_stack = (here as *const SigJmpBufFields).cast_mut().cast();
            result.write(call());
            0
        });
        pg_sys::PG_exception_stack = handler;
        pg_sys::error_context_stack = callbacks;
        if jumped == 0 {
            return Ok(result.assume_init());
        }
        let code = geterrcode();
        if !codes.contains(&code) {
            pg_re_throw();
        }
        pg_sys::MemoryContextSwitchTo(context);
        FlushErrorState();
        Err(code)
    }
}
