//! The executor's hook when a statement starts, for nodes of its plan that scan tables.

use super::callbacks::Callbacks;
use super::expression::columns_of_nodes;
use super::memory;
use super::node::{cast, items};
use super::relation::{Index, Table};
use super::row_slot::RowSlot;
use super::unbound::planstate_tree_walker;
use super::valued_plan;
use core::marker::PhantomData;
use core::ptr::{null_mut, NonNull};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary, NodeTag, PlanState};

/// Looks at a scan that has started, within a guarded entry point and in the statement's memory.
pub type Look = for<'a> fn(StartedScan<'a>);

static mut NEXT: pg_sys::ExecutorStart_hook_type = None;

thread_local! {
    static LOOKS: Callbacks<Look> = const { Callbacks::none() };
}

/// Has `look` told of each scan of a plan that has started, but for those that fetch no rows of their table. To be called when a backend
/// loads the library.
pub fn init(look: Look) {
    if !LOOKS.with(|looks| looks.add(look)) {
        return;
    }
    // SAFETY: called when a backend loads the library, once.
    unsafe {
        NEXT = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(executor_start);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn executor_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    // SAFETY: called by core; afterwards the plan state tree is complete.
    unsafe {
        valued_plan::give_values(query);
        match NEXT {
            Some(next) => pg_guard_ffi_boundary(|| next(query, flags)),
            None => pg_sys::standard_ExecutorStart(query, flags),
        }
        let state = (*query).planstate;
        if !state.is_null() {
            memory::within((*(*query).estate).es_query_cxt, || visit(state));
        }
    }
}

/// Visits a node of a started plan and all below it.
///
/// # Safety
/// `state` must be a node of a plan that has been started; within a guarded entry point.
unsafe fn visit(state: *mut PlanState) {
    use NodeTag::*;
    // SAFETY: the node's tag says what it is; nodes that have children of their own besides are left to core's walker.
    unsafe {
        match (*state).type_ {
            T_SeqScanState
            | T_SampleScanState
            | T_IndexScanState
            | T_BitmapHeapScanState
            | T_TidScanState
            | T_TidRangeScanState => {
                let scan = StartedScan {
                    scan: NonNull::new_unchecked(state.cast()),
                    kept: PhantomData,
                };
                LOOKS.with(Callbacks::all).for_each(|look| look(scan));
            }
            T_LimitState
            | T_SortState
            | T_AggState
            | T_ResultState
            | T_ModifyTableState
            | T_IndexOnlyScanState
            | T_HashState
            | T_HashJoinState
            | T_NestLoopState
            | T_MergeJoinState
            | T_GatherState
            | T_GatherMergeState
            | T_MaterialState
            | T_IncrementalSortState
            | T_LockRowsState => {}
            _ => {
                pg_guard_ffi_boundary(|| planstate_tree_walker(state, visit_child, null_mut()));
                return;
            }
        }
        for plans in [(*state).initPlan, (*state).subPlan] {
            items::<pg_sys::SubPlanState>(plans).for_each(|plan| visit((*plan).planstate));
        }
        for child in [(*state).lefttree, (*state).righttree] {
            if !child.is_null() {
                visit(child);
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn visit_child(
    state: *mut PlanState,
    _context: *mut core::ffi::c_void,
) -> bool {
    // SAFETY: called by core's walker for each child of a started node.
    unsafe { visit(state) };
    false
}

/// A scan of core's that has started.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StartedScan<'a> {
    scan: NonNull<pg_sys::ScanState>,
    kept: PhantomData<&'a pg_sys::ScanState>,
}

impl<'a> StartedScan<'a> {
    fn fields(&self) -> &pg_sys::ScanState {
        // SAFETY: the node has started.
        unsafe { self.scan.as_ref() }
    }

    /// What it scans; None where it has no table.
    pub fn table(self) -> Option<Table<'a>> {
        let table = self.fields().ss_currentRelation;
        // SAFETY: null, or open until the statement ends.
        (!table.is_null()).then(|| unsafe { Table::from_ptr(table) })
    }

    /// Where it puts rows of the table.
    pub fn slot(self) -> RowSlot {
        // SAFETY: a scan that has started has one until the statement ends.
        unsafe { RowSlot::from_ptr(self.fields().ss_ScanTupleSlot) }
    }

    /// Does it hand up what it makes of these rows, and not the rows themselves?
    pub fn projects(self) -> bool {
        !self.fields().ps.ps_ProjInfo.is_null()
    }

    /// The index that it finds rows by, where it is open: a plan that is only explained has none.
    pub fn index(self) -> Option<Index<'a>> {
        let node = self.scan.as_ptr();
        // SAFETY: the node has started; its tag says what it is.
        unsafe {
            let scan: *mut pg_sys::IndexScanState = cast(node.cast(), NodeTag::T_IndexScanState)?;
            let index = (*scan).iss_RelationDesc;
            (!index.is_null()).then(|| Index::from_ptr(index))
        }
    }

    /// The columns of the table that its expressions ask for, in rising order: from 1; 0 for the whole row, less for a system column.
    /// With `rechecks`, those by which it asks again whether a row is one that it looked for, too.
    pub fn columns(self, rechecks: bool) -> Vec<i16> {
        // SAFETY: a node that has started has a plan, whose tag says what it is, with lists of expressions.
        unsafe {
            let plan = self.fields().ps.plan;
            let again = match (*plan).type_ {
                _ if !rechecks => [null_mut(); 2],
                NodeTag::T_IndexScan => {
                    let node = plan.cast::<pg_sys::IndexScan>();
                    [(*node).indexqualorig, (*node).indexorderbyorig]
                }
                NodeTag::T_BitmapHeapScan => {
                    let node = plan.cast::<pg_sys::BitmapHeapScan>();
                    [(*node).bitmapqualorig, null_mut()]
                }
                NodeTag::T_TidScan => [(*plan.cast::<pg_sys::TidScan>()).tidquals, null_mut()],
                NodeTag::T_TidRangeScan => {
                    let node = plan.cast::<pg_sys::TidRangeScan>();
                    [(*node).tidrangequals, null_mut()]
                }
                _ => [null_mut(); 2],
            };
            let table = (*plan.cast::<pg_sys::Scan>()).scanrelid;
            let lists = [(*plan).targetlist, (*plan).qual].into_iter().chain(again);
            columns_of_nodes(table, lists.map(|list| list.cast()))
        }
    }
}
