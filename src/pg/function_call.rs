//! Calls of PostgreSQL's functions that are made ready once and made many times, as the executor makes them.

use super::aggregation::Aggregating;
use super::memory::Context;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum, NullableDatum, Oid};

/// A call that is ready. It lives in the memory context that was current when it was made ready.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FunctionCall(NonNull<pg_sys::FunctionCallInfoBaseData>);

impl FunctionCall {
    /// A call with so many arguments, of a function that may ask where states of aggregates live. Within a guarded entry point.
    ///
    /// # Safety
    /// `aggregation` and the current memory context must outlive it.
    pub unsafe fn new(
        function: Oid,
        arguments: usize,
        collation: Oid,
        aggregation: Aggregating,
    ) -> FunctionCall {
        let bytes =
            size_of::<pg_sys::FunctionCallInfoBaseData>() + arguments * size_of::<NullableDatum>();
        // SAFETY: palloc'd with room for the arguments, so not null; zeroes stand for "none".
        unsafe {
            let flinfo: *mut pg_sys::FmgrInfo =
                pg_sys::palloc0(size_of::<pg_sys::FmgrInfo>()).cast();
            pg_sys::fmgr_info(function, flinfo);
            let call: pg_sys::FunctionCallInfo = pg_sys::palloc0(bytes).cast();
            (*call).flinfo = flinfo;
            (*call).context = aggregation.as_ptr().cast();
            (*call).fncollation = collation;
            (*call).nargs = arguments as i16;
            FunctionCall(NonNull::new_unchecked(call))
        }
    }

    /// The expression that the call stands for, which polymorphic functions ask for types.
    ///
    /// # Safety
    /// It must be one of that function, and outlive the call.
    pub(super) unsafe fn stands_for(self, expression: *mut pg_sys::Expr) {
        // SAFETY: by contract; the call has what fmgr_info has found.
        unsafe { (*(*self.0.as_ptr()).flinfo).fn_expr = expression.cast() }
    }

    /// Is the function not to be called with a null?
    #[inline]
    pub fn is_strict(self) -> bool {
        // SAFETY: the call has what fmgr_info has found.
        unsafe { (*(*self.0.as_ptr()).flinfo).fn_strict }
    }

    /// Sets an argument, from 0.
    ///
    /// # Safety
    /// The call must have as many, and the value be of its type.
    #[inline]
    pub unsafe fn set(self, at: usize, (value, isnull): (Datum, bool)) {
        // SAFETY: by contract.
        unsafe {
            *(*self.0.as_ptr()).args.as_mut_ptr().add(at) = NullableDatum { value, isnull };
        }
    }

    /// The value of an argument, from 0.
    ///
    /// # Safety
    /// The call must have as many.
    #[inline]
    pub unsafe fn argument(self, at: usize) -> Datum {
        // SAFETY: by contract.
        unsafe { (*(*self.0.as_ptr()).args.as_ptr().add(at)).value }
    }

    /// What the function makes of the arguments, and whether it is null. It raises errors as the function does: no frame between this and the
    /// next guard may own anything.
    ///
    /// # Safety
    /// All arguments must be set; within `guarded`.
    #[inline]
    pub unsafe fn invoke(self) -> (Datum, bool) {
        let call = self.0.as_ptr();
        // SAFETY: by contract; fmgr_info has found the function.
        unsafe {
            (*call).isnull = false;
            let value = match (*(*call).flinfo).fn_addr {
                Some(function) => function(call),
                None => Datum::null(),
            };
            (value, (*call).isnull)
        }
    }

    /// The same with a memory context as the current one.
    ///
    /// # Safety
    /// As `invoke`; the context must be live.
    #[inline]
    pub unsafe fn invoke_in(self, memory: Context) -> (Datum, bool) {
        // SAFETY: by contract; an error abandons the context that was current.
        unsafe {
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = memory.as_ptr();
            let result = self.invoke();
            pg_sys::CurrentMemoryContext = before;
            result
        }
    }
}
