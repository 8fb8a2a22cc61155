//! Nodes that the errors of a user's expressions pass through as they were raised.

use super::methods::{begin, own, CustomScan, Methods};
use super::state::{NodeState, Projection};
use crate::pg::executor::unguarded;
use crate::pg::expression_context::Prepared;
use crate::pg::row_slot::RowSlot;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{CustomScanState, TupleTableSlot};

/// A node that asks conditions of its rows, and hands them on projected, outside of its guards: these cost time for each row, and hide the
/// context of an error. What happens there is core's alone.
pub trait Passing: CustomScan {
    /// Goes to the next row, and has the node's expressions see it.
    fn advance(&mut self, node: NodeState) -> Advance;

    /// Puts the row together that it went to, for which the condition holds, and says what is to be made of it.
    fn show(&mut self, node: NodeState) -> (RowSlot, Option<Projection>);
}

/// Where a node has gone.
#[derive(Clone, Copy)]
pub enum Advance {
    /// To a row, which goes up if the condition holds, or there is none.
    Row(Prepared),
    End,
}

impl Methods {
    /// Of a node that errors pass through.
    pub const fn passing<N: Passing>() -> Methods {
        Methods::with::<N>(begin::<N>, next::<N>)
    }
}

/// Carries no guard: an error of conditions and of core's projection passes through as it is, and jumps over this frame, which holds plain
/// values only.
unsafe extern "C-unwind" fn next<N: Passing>(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: called by the executor for a node that has begun, whose context sees the row that it has gone to.
    unsafe {
        loop {
            let Advance::Row(condition) = advance::<N>(node) else {
                return core::ptr::null_mut();
            };
            let context = (*node).ss.ps.ps_ExprContext;
            if condition.is_none() || unguarded::holds(condition.as_ptr(), context) {
                break;
            }
        }
        match show::<N>(node) {
            (row, None) => row.as_ptr(),
            (_, Some(projection)) => unguarded::project(projection.as_ptr()),
        }
    }
}

/// # Safety
/// `node` must be an `N` that has begun. An error jumps over the frames above, which must hold plain values only.
unsafe fn advance<N: Passing>(node: *mut CustomScanState) -> Advance {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).advance(NodeState::from_ptr(node))) }
}

/// # Safety
/// As `advance`, which has gone to a row.
unsafe fn show<N: Passing>(node: *mut CustomScanState) -> (RowSlot, Option<Projection>) {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).show(NodeState::from_ptr(node))) }
}
