//! What all nodes of ours have in common: the tables that PostgreSQL finds their functions by, how they are made, begin, begin again and end.
//! Whatever PostgreSQL calls is guarded: a panic becomes an error of PostgreSQL's.

use super::explain::Explain;
use super::state::{Beginning, NodeState, State};
use crate::pg::memory;
use crate::pg::node::make;
use crate::pg::row_slot::RowSlot;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{
    self, CustomExecMethods, CustomScanMethods, CustomScanState, EState, ExplainState, List, Node,
    NodeTag, TupleTableSlot,
};
use std::ffi::CStr;

/// What a node of ours has of its own, from its beginning to its end. It is dropped with the memory of the statement, also where an error
/// ends that before the node's end. All functions run within a guarded entry point.
pub trait CustomScan: Sized + 'static {
    /// As EXPLAIN shows it.
    const NAME: &'static CStr;
    /// `Methods::guarded`, `above` or `passing` of it, and `parallel` where it is that.
    const METHODS: &'static Methods;

    /// The executor makes the node ready to run. A node that hands on rows of another one has that one ready.
    fn begin(node: NodeState, beginning: Beginning) -> Self;

    /// The node is to return its rows once more. By default the node below it is.
    fn rescan(&mut self, node: NodeState) {
        node.rescan_child();
    }

    /// The last call. By default the node below it ends.
    fn end(&mut self, node: NodeState) {
        node.end_child();
    }

    /// EXPLAIN shows the node. By default there is nothing to say.
    fn explain(&mut self, _node: NodeState, _explain: Explain) {}
}

/// A node that makes its rows within one guard.
pub trait Guarded: CustomScan {
    /// The next row; None at the end.
    fn next(&mut self, node: NodeState) -> Option<RowSlot>;
}

/// The tables of a node's functions.
pub struct Methods {
    pub(super) scan: CustomScanMethods,
    pub(super) exec: CustomExecMethods,
}

// SAFETY: never written.
unsafe impl Sync for Methods {}

impl Methods {
    /// Of a node that makes its rows within one guard.
    pub const fn guarded<N: Guarded>() -> Methods {
        Methods::with::<N>(begin::<N>, next::<N>)
    }

    pub(super) const fn with<N: CustomScan>(
        begin: unsafe extern "C-unwind" fn(*mut CustomScanState, *mut EState, i32),
        exec: unsafe extern "C-unwind" fn(*mut CustomScanState) -> *mut TupleTableSlot,
    ) -> Methods {
        Methods {
            scan: CustomScanMethods {
                CustomName: N::NAME.as_ptr(),
                CreateCustomScanState: Some(create::<N>),
            },
            exec: CustomExecMethods {
                CustomName: N::NAME.as_ptr(),
                BeginCustomScan: Some(begin),
                ExecCustomScan: Some(exec),
                EndCustomScan: Some(end::<N>),
                ReScanCustomScan: Some(rescan::<N>),
                MarkPosCustomScan: None,
                RestrPosCustomScan: None,
                EstimateDSMCustomScan: None,
                InitializeDSMCustomScan: None,
                ReInitializeDSMCustomScan: None,
                InitializeWorkerCustomScan: None,
                ShutdownCustomScan: None,
                ExplainCustomScan: Some(explain::<N>),
            },
        }
    }

    /// For the planner, which makes a plan of the node's.
    pub const fn scan(&'static self) -> *const CustomScanMethods {
        &raw const self.scan
    }
}

/// Lets processes find the functions of a node by its name. Called once, when the library is loaded.
pub fn register<N: CustomScan>() {
    // SAFETY: the methods live as long as the process.
    unsafe { pg_sys::RegisterCustomScanMethods(N::METHODS.scan()) };
}

/// What a node has of its own.
///
/// # Safety
/// `node` must be an `N` that has begun, and nobody else refer to what it has meanwhile.
#[inline]
pub(super) unsafe fn own<'a, N>(node: *mut CustomScanState) -> &'a mut N {
    // SAFETY: by contract.
    unsafe { &mut *(*node.cast::<State<N>>()).own }
}

unsafe extern "C-unwind" fn create<N: CustomScan>(_scan: *mut pg_sys::CustomScan) -> *mut Node {
    // SAFETY: called by the executor, as are all functions below; our state begins with the one that it knows.
    unsafe {
        pgrx_extern_c_guard(|| {
            let state = make::<State<N>>(NodeTag::T_CustomScanState);
            (*state).base.methods = &raw const N::METHODS.exec;
            state.cast()
        })
    }
}

/// Makes what a node has of its own.
///
/// # Safety
/// `node` must be an `N` that begins; within a guarded entry point.
pub(super) unsafe fn begin_own<N: CustomScan>(node: *mut CustomScanState, flags: i32) {
    // SAFETY: by contract; the statement's memory lives longer than the node.
    unsafe {
        let state = NodeState::from_ptr(node);
        let own = N::begin(state, Beginning { flags });
        (*node.cast::<State<N>>()).own = memory::own(state.query_memory(), own);
    }
}

pub(super) unsafe extern "C-unwind" fn begin<N: CustomScan>(
    node: *mut CustomScanState,
    _statement: *mut EState,
    flags: i32,
) {
    // SAFETY: the executor begins a node that `create` has made.
    unsafe { pgrx_extern_c_guard(|| begin_own::<N>(node, flags)) }
}

unsafe extern "C-unwind" fn next<N: Guarded>(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: the node has begun.
    unsafe {
        pgrx_extern_c_guard(|| {
            let row = own::<N>(node).next(NodeState::from_ptr(node));
            row.map_or(core::ptr::null_mut(), RowSlot::as_ptr)
        })
    }
}

unsafe extern "C-unwind" fn rescan<N: CustomScan>(node: *mut CustomScanState) {
    // SAFETY: the node has begun.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).rescan(NodeState::from_ptr(node))) }
}

unsafe extern "C-unwind" fn end<N: CustomScan>(node: *mut CustomScanState) {
    // SAFETY: the node has begun; this is its end.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).end(NodeState::from_ptr(node))) }
}

unsafe extern "C-unwind" fn explain<N: CustomScan>(
    node: *mut CustomScanState,
    ancestors: *mut List,
    state: *mut ExplainState,
) {
    // SAFETY: called by EXPLAIN for a node that has begun.
    unsafe {
        pgrx_extern_c_guard(|| {
            let node_state = NodeState::from_ptr(node);
            let shown = Explain::new(state, node_state, ancestors);
            own::<N>(node).explain(node_state, shown);
        })
    }
}
