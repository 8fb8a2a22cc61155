//! What EXPLAIN shows of a node.

use super::state::NodeState;
use crate::pg::expression::Expression;
use crate::pg::node::list;
use pgrx::pg_sys::{self, ExplainState, List};
use std::ffi::CStr;

/// An EXPLAIN that is about to show a node. All of its functions must be called within a guarded entry point.
#[derive(Clone, Copy)]
pub struct Explain {
    state: *mut ExplainState,
    node: NodeState,
    ancestors: *mut List,
}

impl Explain {
    /// # Safety
    /// As PostgreSQL calls `ExplainCustomScan` of the node.
    pub(super) unsafe fn new(
        state: *mut ExplainState,
        node: NodeState,
        ancestors: *mut List,
    ) -> Explain {
        Explain {
            state,
            node,
            ancestors,
        }
    }

    fn data<'a>(self) -> &'a ExplainState {
        // SAFETY: valid while EXPLAIN shows the node, as `new` asks.
        unsafe { &*self.state }
    }

    pub fn is_verbose(self) -> bool {
        self.data().verbose
    }

    /// Has the statement been executed?
    pub fn is_analyze(self) -> bool {
        self.data().analyze
    }

    /// Shows a text.
    pub fn text(self, label: &CStr, text: &CStr) {
        // SAFETY: EXPLAIN runs; the texts end with a zero.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), text.as_ptr(), self.state) }
    }

    /// Shows a number.
    pub fn count(self, label: &CStr, value: u64) {
        let no_unit = core::ptr::null();
        // SAFETY: as above.
        unsafe { pg_sys::ExplainPropertyUInteger(label.as_ptr(), no_unit, value, self.state) }
    }

    /// Shows conditions, all of which hold for the node's rows; nothing where there are none.
    ///
    /// # Safety
    /// They must be the plan's.
    pub unsafe fn conditions<'a>(
        self,
        label: &CStr,
        conditions: impl IntoIterator<Item = Expression<'a>>,
    ) {
        let all = list(conditions.into_iter().map(|condition| condition.as_ptr()));
        if all.is_null() {
            return;
        }
        // SAFETY: by contract; the text is palloc'd.
        unsafe {
            let all = pg_sys::make_ands_explicit(all).cast();
            let plan = (*self.node.as_parent()).plan;
            let known = self.data().deparse_cxt;
            let context = pg_sys::set_deparse_context_plan(known, plan, self.ancestors);
            let prefix = (*self.data().rtable).length > 1 || self.is_verbose();
            let text = pg_sys::deparse_expression(all, context, prefix, false);
            self.text(label, CStr::from_ptr(text));
        }
    }
}
