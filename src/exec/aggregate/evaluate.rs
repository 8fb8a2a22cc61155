//! Expressions of the plan, evaluated over a row that the node puts together. Errors pass through as core raised them.

use crate::pg::expression_context::{ExpressionContext, Prepared};
use crate::pg::row_slot::RowSlot;
use crate::pg::Datum;

pub use crate::pg::expression_context::guarded;

/// The context of a node's expressions, and the row that they see, of a virtual slot.
#[derive(Clone, Copy)]
pub struct Evaluation {
    pub context: ExpressionContext,
    pub row: RowSlot,
}

impl Evaluation {
    /// Sets one attribute (from 0) of the row.
    ///
    /// # Safety
    /// The row must have it; a by-reference value must live as long as it is shown.
    #[inline]
    pub unsafe fn set(&self, at: usize, value: (Datum, bool)) {
        // SAFETY: by contract.
        unsafe { self.row.set(at, value) }
    }

    /// The value of an expression over the row, in per-tuple memory. Raises errors as core does: no frame between this and the
    /// next guard may own anything.
    ///
    /// # Safety
    /// The expression must be prepared for this context, or none; called within `guarded`.
    #[inline]
    pub unsafe fn value(&self, expression: impl Into<Prepared>) -> (Datum, bool) {
        // SAFETY: by contract.
        unsafe { self.context.value(expression.into()) }
    }

    /// Does a condition, or a list of them that was prepared as one, hold?
    ///
    /// # Safety
    /// As `value`. None always holds.
    #[inline]
    pub unsafe fn holds(&self, condition: impl Into<Prepared>) -> bool {
        let condition = condition.into();
        if condition.is_none() {
            return true;
        }
        // SAFETY: by contract.
        let (value, isnull) = unsafe { self.value(condition) };
        !isnull && value.value() as u8 != 0
    }

    /// # Safety
    /// Nobody may need what was evaluated before.
    #[inline]
    pub unsafe fn forget(&self) {
        // SAFETY: by contract.
        unsafe { self.context.forget() }
    }
}
