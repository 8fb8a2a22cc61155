//! What the executor calls of a node whose table's chunks several processes share. The leader finds the places before it starts workers; in the end
//! workers tell what they have done, and the leader takes that before the memory goes.

use super::parallel::{Found, Shared};
use super::selection::Selection;
use super::source::Source;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use core::ffi::c_void;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, CustomExecMethods, CustomScanState, ParallelContext};

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
pub trait Member {
    /// # Safety
    /// `node` must be one of this kind that has begun.
    unsafe fn team<'a>(node: *mut CustomScanState) -> (&'a mut Team, &'a mut Selection);
}

/// The methods of a node, with those of a parallel query.
pub const fn methods<M: Member>(alone: CustomExecMethods) -> CustomExecMethods {
    CustomExecMethods {
        EstimateDSMCustomScan: Some(estimate::<M>),
        InitializeDSMCustomScan: Some(initialize::<M>),
        ReInitializeDSMCustomScan: Some(reinitialize),
        InitializeWorkerCustomScan: Some(join::<M>),
        ShutdownCustomScan: Some(shut_down::<M>),
        ..alone
    }
}

unsafe extern "C-unwind" fn estimate<M: Member>(
    node: *mut CustomScanState,
    _context: *mut ParallelContext,
) -> pg_sys::Size {
    // SAFETY: called by the executor for a node that has begun, as are all functions below.
    unsafe {
        pgrx_extern_c_guard(|| {
            let (team, selection) = M::team(node);
            let (found, bytes) = Source::places_of(node, selection);
            team.found = Some(found);
            bytes
        })
    }
}

unsafe extern "C-unwind" fn initialize<M: Member>(
    node: *mut CustomScanState,
    _context: *mut ParallelContext,
    at: *mut c_void,
) {
    // SAFETY: as above; the memory is as large as `estimate` said.
    unsafe {
        pgrx_extern_c_guard(|| {
            let (team, _) = M::team(node);
            let table = (*node).ss.ss_currentRelation;
            let snapshot = (*(*node).ss.ps.state).es_snapshot;
            let found = team.found.take().expect("BUG: nothing was estimated");
            Shared::initialize(
                at.cast(),
                &found,
                Table::from_ptr(table),
                Snapshot::from_ptr(snapshot),
            );
            team.shared = at.cast();
        })
    }
}

unsafe extern "C-unwind" fn reinitialize(
    node: *mut CustomScanState,
    _context: *mut ParallelContext,
    at: *mut c_void,
) {
    // SAFETY: as above: the memory that `initialize` has filled.
    unsafe {
        pgrx_extern_c_guard(|| {
            Shared::reinitialize(at.cast(), Table::from_ptr((*node).ss.ss_currentRelation))
        })
    }
}

/// A worker begins.
unsafe extern "C-unwind" fn join<M: Member>(
    node: *mut CustomScanState,
    _contents: *mut pg_sys::shm_toc,
    at: *mut c_void,
) {
    // SAFETY: as above, in a worker.
    unsafe { pgrx_extern_c_guard(|| M::team(node).0.shared = at.cast()) }
}

/// The node is not asked for more.
unsafe extern "C-unwind" fn shut_down<M: Member>(node: *mut CustomScanState) {
    // SAFETY: as above.
    unsafe {
        pgrx_extern_c_guard(|| {
            let (team, selection) = M::team(node);
            if team.shared.is_null() {
                return;
            }
            if pg_sys::ParallelWorkerNumber >= 0 {
                Shared::tell(team.shared, core::mem::take(&mut selection.counters));
            } else {
                selection.counters.add(Shared::told(team.shared));
                team.shared = core::ptr::null_mut();
            }
        })
    }
}
