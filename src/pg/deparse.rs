//! Expressions as SQL.

use super::expression::Expression;
use core::ffi::CStr;
use pgrx::pg_sys::{self, List, Oid};

/// How expressions over one relation are written: with a name of that relation before each column.
#[derive(Clone, Copy)]
pub struct Wording(*mut List);

impl Wording {
    /// With this name of the relation, in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as this is used.
    pub unsafe fn of(name: &CStr, relation: Oid) -> Wording {
        // SAFETY: a NUL-terminated name; raises an error where there is no such relation.
        Wording(unsafe { pg_sys::deparse_context_for(name.as_ptr(), relation) })
    }

    /// An expression of a query that reads from the relation alone.
    ///
    /// # Safety
    /// It must be of such a query.
    pub unsafe fn text(self, expression: Expression<'_>) -> String {
        let (with_prefix, with_casts) = (true, false);
        // SAFETY: the wording knows the only relation of the expression, which the caller sees to; the result is palloc'd.
        unsafe {
            let node = expression.as_ptr();
            let text = pg_sys::deparse_expression(node, self.0, with_prefix, with_casts);
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
