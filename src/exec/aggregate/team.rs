//! What the executor calls of a node whose table's chunks several processes share. The leader finds the places before it starts workers; in the end
//! workers tell what they have done, and the leader takes that before the memory goes.

use super::parallel::{Found, Shared};
use super::selection::Selection;
use super::source::Source;
use crate::pg::custom_scan::{is_worker, CustomScan, NodeState, Parallel};
use core::ffi::c_void;

/// A node's part in a parallel query.
pub struct Team {
    /// What its processes share; null where there is one only.
    shared: *mut Shared,
    /// What the leader has found before it had the memory to share it.
    found: Option<Found>,
}

impl Team {
    /// One process.
    pub fn alone() -> Team {
        Team {
            shared: core::ptr::null_mut(),
            found: None,
        }
    }

    pub fn shared(&self) -> *mut Shared {
        self.shared
    }
}

/// A node that can work in a team.
pub trait Member: CustomScan {
    fn team(&mut self) -> (&mut Team, &mut Selection);
}

impl<M: Member> Parallel for M {
    fn estimate(&mut self, node: NodeState) -> usize {
        let (team, selection) = self.team();
        // SAFETY: the node has begun; within a guarded entry point.
        let (found, bytes) = unsafe { Source::places_of(node, selection) };
        team.found = Some(found);
        bytes
    }

    /// # Safety
    /// As `Parallel::initialize`.
    unsafe fn initialize(&mut self, node: NodeState, at: *mut c_void) {
        let (team, _) = self.team();
        let found = team.found.take().expect("BUG: nothing was estimated");
        // SAFETY: by contract; the snapshot is the statement's.
        unsafe { Shared::initialize(at.cast(), &found, node.table(), node.snapshot()) };
        team.shared = at.cast();
    }

    /// # Safety
    /// As `Parallel::reinitialize`.
    unsafe fn reinitialize(&mut self, node: NodeState, at: *mut c_void) {
        // SAFETY: by contract.
        unsafe { Shared::reinitialize(at.cast(), node.table()) };
    }

    /// # Safety
    /// As `Parallel::join`.
    unsafe fn join(&mut self, _node: NodeState, at: *mut c_void) {
        self.team().0.shared = at.cast();
    }

    fn shut_down(&mut self, _node: NodeState) {
        let (team, selection) = self.team();
        if team.shared.is_null() {
            return;
        }
        // SAFETY: the leader has filled it, and it is there until this returns.
        unsafe {
            if is_worker() {
                Shared::tell(team.shared, core::mem::take(&mut selection.counters));
            } else {
                selection.counters.add(Shared::told(team.shared));
                team.shared = core::ptr::null_mut();
            }
        }
    }
}
