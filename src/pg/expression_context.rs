//! Where a node evaluates expressions, and the expressions.

use super::expression::Expression;
use super::memory::Context;
use super::row_slot::RowSlot;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum};

/// An expression that is ready to be evaluated. It may be none.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Prepared(*mut pg_sys::ExprState);

impl From<*mut pg_sys::ExprState> for Prepared {
    #[inline]
    fn from(state: *mut pg_sys::ExprState) -> Prepared {
        Prepared(state)
    }
}

impl Prepared {
    pub const NONE: Prepared = Prepared(core::ptr::null_mut());

    #[inline]
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::ExprState {
        self.0
    }
}

impl Expression<'_> {
    /// Gets it ready for a node that begins, as long as this lives.
    ///
    /// # Safety
    /// `node` must be the one whose plan has the expression.
    pub unsafe fn prepare(self, node: *mut pg_sys::PlanState) -> Prepared {
        // SAFETY: by contract.
        Prepared(unsafe { pg_sys::ExecInitExpr(self.as_ptr().cast(), node) })
    }
}

/// The context of a node's expressions: the row that they see, and the memory of one row.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExpressionContext(NonNull<pg_sys::ExprContext>);

impl ExpressionContext {
    /// A context that PostgreSQL hands out.
    ///
    /// # Safety
    /// `context` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(context: *mut pg_sys::ExprContext) -> ExpressionContext {
        debug_assert!(!context.is_null());
        // SAFETY: by contract: what is valid is not null.
        ExpressionContext(unsafe { NonNull::new_unchecked(context) })
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::ExprContext {
        self.0.as_ptr()
    }

    /// Where what is evaluated for one row lives.
    #[inline]
    pub fn memory(self) -> Context {
        // SAFETY: the context is valid.
        Context::from(unsafe { (*self.as_ptr()).ecxt_per_tuple_memory })
    }

    /// Has expressions see the row of a slot.
    #[inline]
    pub fn see(self, row: RowSlot) {
        // SAFETY: the context is valid.
        unsafe { (*self.as_ptr()).ecxt_scantuple = row.as_ptr() }
    }

    /// Forgets what was evaluated.
    ///
    /// # Safety
    /// Nobody may need what is in its memory.
    #[inline]
    pub unsafe fn forget(self) {
        let memory = self.memory().as_ptr();
        // SAFETY: by contract.
        unsafe {
            if !(*memory).isReset || !(*memory).firstchild.is_null() {
                pg_sys::MemoryContextReset(memory);
            }
        }
    }

    /// Forgets all that was made in it, after it has called back whoever wants to know. Within a guarded entry point.
    ///
    /// # Safety
    /// As `forget`.
    pub unsafe fn begin_again(self) {
        // SAFETY: by contract; the context is valid.
        unsafe { pg_sys::ReScanExprContext(self.as_ptr()) }
    }

    /// The value of an expression in its memory, and whether it is null. Raises errors as the expression does: no frame between this
    /// and the next guard may own anything.
    ///
    /// # Safety
    /// The expression must be prepared for this context's node; within `guarded`.
    #[inline]
    pub unsafe fn value(self, expression: Prepared) -> (Datum, bool) {
        // SAFETY: by contract; an expression that is prepared has the function.
        unsafe {
            let Some(evaluate) = (*expression.0).evalfunc else {
                return (Datum::null(), true);
            };
            let old = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.memory().as_ptr();
            let mut isnull = false;
            let value = evaluate(expression.0, self.as_ptr(), &mut isnull);
            pg_sys::CurrentMemoryContext = old;
            (value, isnull)
        }
    }
}

/// Runs `body`, in which PostgreSQL's functions may raise errors. What it calls directly may not own anything.
///
/// # Safety
/// Inside a guarded entry point.
#[inline]
pub unsafe fn guarded<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: by contract.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(body) }
}
