//! Nodes that several processes of a query run together.

use super::methods::{own, CustomScan, Methods};
use super::state::NodeState;
use core::ffi::c_void;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{shm_toc, CustomExecMethods, CustomScanState, ParallelContext, Size};

/// A node's part in a parallel query. The leader asks how much memory the processes are to share, fills it, and starts workers; these come
/// upon it. All functions run within a guarded entry point.
pub trait Parallel: CustomScan {
    /// How many bytes are shared with so many workers. Called by the leader.
    fn estimate(&mut self, node: NodeState, workers: usize) -> usize;

    /// Fills what is shared. Called by the leader.
    ///
    /// # Safety
    /// `at` must have the bytes of `estimate`, aligned for every type, until the node is shut down.
    unsafe fn initialize(&mut self, node: NodeState, at: *mut c_void);

    /// The node begins again, with new workers. Called by the leader.
    ///
    /// # Safety
    /// `at` must be what `initialize` has filled. No worker runs.
    unsafe fn reinitialize(&mut self, node: NodeState, at: *mut c_void);

    /// A worker begins.
    ///
    /// # Safety
    /// `at` must be what the leader has filled, until the node is shut down.
    unsafe fn join(&mut self, node: NodeState, at: *mut c_void);

    /// The node is not asked for more, and what is shared goes after that. Called by all.
    fn shut_down(&mut self, node: NodeState);
}

/// Is this process a worker of a parallel query?
pub fn is_worker() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pgrx::pg_sys::ParallelWorkerNumber >= 0 }
}

impl Methods {
    /// The same of a node that several processes may run.
    pub const fn parallel<N: Parallel>(self) -> Methods {
        let Methods { scan, exec } = self;
        let exec = CustomExecMethods {
            EstimateDSMCustomScan: Some(estimate::<N>),
            InitializeDSMCustomScan: Some(initialize::<N>),
            ReInitializeDSMCustomScan: Some(reinitialize::<N>),
            InitializeWorkerCustomScan: Some(join::<N>),
            ShutdownCustomScan: Some(shut_down::<N>),
            ..exec
        };
        Methods { scan, exec }
    }
}

unsafe extern "C-unwind" fn estimate<N: Parallel>(
    node: *mut CustomScanState,
    context: *mut ParallelContext,
) -> Size {
    // SAFETY: called by the executor for a node that has begun, as are all functions below.
    unsafe {
        pgrx_extern_c_guard(|| {
            let workers = usize::try_from((*context).nworkers).unwrap_or(0);
            own::<N>(node).estimate(NodeState::from_ptr(node), workers)
        })
    }
}

unsafe extern "C-unwind" fn initialize<N: Parallel>(
    node: *mut CustomScanState,
    _context: *mut ParallelContext,
    at: *mut c_void,
) {
    // SAFETY: as above; the memory is as large as `estimate` said.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).initialize(NodeState::from_ptr(node), at)) }
}

unsafe extern "C-unwind" fn reinitialize<N: Parallel>(
    node: *mut CustomScanState,
    _context: *mut ParallelContext,
    at: *mut c_void,
) {
    // SAFETY: as above: the memory that `initialize` has filled.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).reinitialize(NodeState::from_ptr(node), at)) }
}

unsafe extern "C-unwind" fn join<N: Parallel>(
    node: *mut CustomScanState,
    _contents: *mut shm_toc,
    at: *mut c_void,
) {
    // SAFETY: as above, in a worker.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).join(NodeState::from_ptr(node), at)) }
}

unsafe extern "C-unwind" fn shut_down<N: Parallel>(node: *mut CustomScanState) {
    // SAFETY: as above.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).shut_down(NodeState::from_ptr(node))) }
}
