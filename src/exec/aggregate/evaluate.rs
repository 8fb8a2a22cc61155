//! Expressions of the plan, evaluated over a row that the node puts together. Errors pass through as core raised them.

use pgrx::pg_sys;

/// The context of a node's expressions, and the row that they see.
#[derive(Clone, Copy)]
pub struct Evaluation {
    pub context: *mut pg_sys::ExprContext,
    pub row: *mut pg_sys::TupleTableSlot,
}

impl Evaluation {
    /// Sets one attribute (from 0) of the row.
    ///
    /// # Safety
    /// The row must have it; a by-reference value must live as long as it is shown.
    #[inline]
    pub unsafe fn set(&self, at: usize, (value, isnull): (pg_sys::Datum, bool)) {
        // SAFETY: by contract.
        unsafe {
            *(*self.row).tts_values.add(at) = value;
            *(*self.row).tts_isnull.add(at) = isnull;
        }
    }

    /// The value of an expression over the row, in per-tuple memory. Raises errors as core does: no frame between this and the
    /// next guard may own anything.
    ///
    /// # Safety
    /// The expression must be initialized for this context; called within `guarded`.
    #[inline]
    pub unsafe fn value(&self, expression: *mut pg_sys::ExprState) -> (pg_sys::Datum, bool) {
        // SAFETY: by contract.
        unsafe {
            let Some(evaluate) = (*expression).evalfunc else {
                return (pg_sys::Datum::from(0usize), true);
            };
            let old = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = (*self.context).ecxt_per_tuple_memory;
            let mut isnull = false;
            let value = evaluate(expression, self.context, &mut isnull);
            pg_sys::CurrentMemoryContext = old;
            (value, isnull)
        }
    }

    /// Does a condition, or a list of them that was initialized as one, hold?
    ///
    /// # Safety
    /// As `value`. A null expression always holds.
    #[inline]
    pub unsafe fn holds(&self, condition: *mut pg_sys::ExprState) -> bool {
        // SAFETY: by contract.
        unsafe {
            if condition.is_null() {
                return true;
            }
            let (value, isnull) = self.value(condition);
            !isnull && value.value() as u8 != 0
        }
    }

    /// # Safety
    /// Nobody may need what was evaluated before.
    #[inline]
    pub unsafe fn forget(&self) {
        // SAFETY: by contract.
        unsafe {
            let memory = (*self.context).ecxt_per_tuple_memory;
            if !(*memory).isReset || !(*memory).firstchild.is_null() {
                pg_sys::MemoryContextReset(memory);
            }
        }
    }
}

/// Runs `body`, in which core's functions may raise errors. What it calls directly may not own anything.
///
/// # Safety
/// Inside a guarded entry point.
pub unsafe fn guarded<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: by contract.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(body) }
}
