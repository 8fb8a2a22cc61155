//! Nodes that hand on rows of another one. An error of that one's expressions must reach the user as it was raised, so it runs outside of our
//! guards.

use super::methods::{begin_own, own, CustomScan, Methods};
use super::path::{CustomPath, Private};
use super::state::{NodeState, State};
use crate::pg::executor::{self, unguarded};
use crate::pg::memory;
use crate::pg::node::{items, make};
use crate::pg::path::Path;
use crate::pg::planner::Planner;
use crate::pg::slot::Slot;
use core::marker::PhantomData;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{
    self, CustomPathMethods, CustomScanState, EState, List, NodeTag, Plan, PlanState,
    TupleTableSlot,
};

/// A node that hands on rows of the one below it, all of them or some. Its plan is one of `path_above`.
pub trait Above: CustomScan {
    /// Before the first row is asked for.
    fn start(&mut self, _node: NodeState) {}

    /// Does a row go up? What is made meanwhile is forgotten with the next row.
    fn takes(&mut self, row: Slot<'_>) -> bool;

    /// The node below has no more rows.
    fn run_out(&mut self, _node: NodeState) {}
}

impl Methods {
    /// Of a node that hands on rows of the one below it.
    pub const fn above<N: Above>() -> Methods {
        Methods::with::<N>(begin::<N>, next::<N>)
    }
}

/// It carries no guard, nor does `next`: an error of the node below passes through as it is, and jumps over these frames, which hold plain
/// values only.
unsafe extern "C-unwind" fn begin<N: Above>(
    node: *mut CustomScanState,
    statement: *mut EState,
    flags: i32,
) {
    // SAFETY: called by the executor for a node of a plan of `path_above`, which has a plan below.
    unsafe {
        let below = unguarded::ExecInitNode(plan_below(node), statement, flags);
        begin_above::<N>(node, below, flags);
    }
}

/// The plan below a node's.
///
/// # Safety
/// `node` must be of a plan of `path_above`, and begin. An error jumps over the frames above, which must hold plain values only.
unsafe fn plan_below(node: *mut CustomScanState) -> *mut Plan {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| NodeState::from_ptr(node).plan().child()) }
}

/// The node below has begun.
///
/// # Safety
/// As `plan_below`; `node` must be an `N`, and `below` the node below.
unsafe fn begin_above<N: Above>(node: *mut CustomScanState, below: *mut PlanState, flags: i32) {
    // SAFETY: the caller's contract.
    unsafe {
        pgrx_extern_c_guard(|| {
            NodeState::from_ptr(node).adopt(below);
            begin_own::<N>(node, flags);
        })
    }
}

unsafe extern "C-unwind" fn next<N: Above>(node: *mut CustomScanState) -> *mut TupleTableSlot {
    // SAFETY: called by the executor for a node that has begun.
    unsafe {
        let state = node.cast::<State<N>>();
        if !(*state).is_started {
            (*state).is_started = true;
            start::<N>(node);
        }
        loop {
            let slot = hand_on::<N>(node, unguarded::next_row((*state).child));
            if !slot.is_null() {
                return slot;
            }
        }
    }
}

/// # Safety
/// `node` must be an `N` that has begun. An error jumps over the frames above, which must hold plain values only.
unsafe fn start<N: Above>(node: *mut CustomScanState) {
    // SAFETY: the caller's contract.
    unsafe { pgrx_extern_c_guard(|| own::<N>(node).start(NodeState::from_ptr(node))) }
}

/// Hands on a row of the node below, projected, or that there is none; null for a row that is left out.
///
/// # Safety
/// As `start`; `row` must be what the node below has returned last.
unsafe fn hand_on<N: Above>(
    node: *mut CustomScanState,
    row: *mut TupleTableSlot,
) -> *mut TupleTableSlot {
    // SAFETY: the caller's contract; a slot that is not empty shows a row until the next one is asked for.
    unsafe {
        pgrx_extern_c_guard(|| {
            let slot = (*node).ss.ss_ScanTupleSlot;
            if executor::is_empty(row) {
                executor::clear_tuple(slot);
                own::<N>(node).run_out(NodeState::from_ptr(node));
                return slot;
            }
            let memory = (*(*node).ss.ps.ps_ExprContext).ecxt_per_tuple_memory;
            pg_sys::MemoryContextReset(memory);
            if !memory::within(memory, || own::<N>(node).takes(Slot::from_ptr(row))) {
                return core::ptr::null_mut();
            }
            project(node, row)
        })
    }
}

/// # Safety
/// `row` must show a row of the node below; within a guarded entry point.
unsafe fn project(node: *mut CustomScanState, row: *mut TupleTableSlot) -> *mut TupleTableSlot {
    // SAFETY: by contract; the scan slot has the columns of the node below.
    unsafe {
        let node = NodeState::from_ptr(node);
        let slot = node.scan_slot();
        slot.clear();
        executor::borrow_attributes(slot.as_ptr(), row);
        match node.projection() {
            Some(projection) => projection.of(slot).as_ptr(),
            None => slot.as_ptr(),
        }
    }
}

/// Paths of such a node.
struct Paths<N>(PhantomData<N>);

impl<N: Above> Paths<N> {
    const METHODS: &'static CustomPathMethods = &CustomPathMethods {
        CustomName: N::NAME.as_ptr(),
        PlanCustomPath: Some(plan::<N>),
        ReparameterizeCustomPathByChild: None,
    };
}

impl<'a> Planner<'a> {
    /// A path of ours above another one, whose rows it hands on, or some of them.
    pub fn path_above<N: Above>(
        self,
        source: Path<'a>,
        cost_per_row: f64,
        private: &[Private<'a>],
    ) -> Path<'a> {
        let (table, target) = (source.table(), source.target());
        // SAFETY: its plan has that for its node.
        let made = unsafe { CustomPath::with_methods(table, target, private, Paths::<N>::METHODS) };
        made.set_source(source);
        let path = made.path();
        path.set_rows(source.rows());
        let total = source.total_cost() + cost_per_row * source.rows();
        path.set_costs(source.startup_cost(), total);
        path.set_order(source.order());
        path
    }
}

/// The plan of such a path.
unsafe extern "C-unwind" fn plan<N: Above>(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    tlist: *mut List,
    _clauses: *mut List,
    plans: *mut List,
) -> *mut Plan {
    // SAFETY: called by the planner for a path of `path_above`, which has one source.
    unsafe {
        pgrx_extern_c_guard(|| {
            let source = items::<Plan>(plans).next();
            let source = source.expect("BUG: a node without a source");
            let scan = make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
            (*scan).scan.plan.targetlist = tlist;
            (*scan).flags = (*path).flags;
            (*scan).custom_plans = plans;
            (*scan).custom_scan_tlist = pg_sys::copyObjectImpl((*source).targetlist.cast()).cast();
            (*scan).custom_private = (*path).custom_private;
            (*scan).methods = N::METHODS.scan();
            scan.cast()
        })
    }
}
