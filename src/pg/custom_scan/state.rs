//! A node of ours that runs.

use super::child::Child;
use super::plan::CustomPlan;
use crate::pg::descriptor::Descriptor;
use crate::pg::executor;
use crate::pg::expression::Expression;
use crate::pg::expression_context::{ExpressionContext, Prepared};
use crate::pg::memory::{self, Context};
use crate::pg::node::{items, list};
use crate::pg::relation::Table;
use crate::pg::row_slot::RowSlot;
use crate::pg::snapshot::Snapshot;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, CustomScanState, Oid};

/// What the executor knows of a node, and what the node has of its own.
#[repr(C)]
pub(super) struct State<N> {
    pub base: CustomScanState,
    /// Null before it has begun.
    pub own: *mut N,
    /// The node below it; null where there is none.
    pub child: *mut pg_sys::PlanState,
    /// Has it been asked for a row?
    pub is_started: bool,
}

/// A node of ours, from its beginning to its end. What it hands out may be kept in what the node has of its own, which lives no longer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct NodeState(NonNull<CustomScanState>);

/// How a node begins.
#[derive(Clone, Copy)]
pub struct Beginning {
    pub(super) flags: i32,
}

impl Beginning {
    /// Is the plan only shown?
    pub fn is_explain_only(self) -> bool {
        self.flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 != 0
    }
}

impl NodeState {
    /// # Safety
    /// `node` must be a node of ours that begins or has begun, and not end as long as the handle is used.
    #[inline]
    pub(super) unsafe fn from_ptr(node: *mut CustomScanState) -> NodeState {
        debug_assert!(!node.is_null());
        // SAFETY: by contract: what begins is not null.
        NodeState(unsafe { NonNull::new_unchecked(node) })
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut CustomScanState {
        self.0.as_ptr()
    }

    /// The same, as what an expression belongs to.
    #[inline]
    pub fn as_parent(self) -> *mut pg_sys::PlanState {
        // SAFETY: a node's state is valid from its beginning to its end.
        unsafe { &raw mut (*self.as_ptr()).ss.ps }
    }

    /// The state of the statement that runs.
    #[inline]
    fn statement(self) -> *mut pg_sys::EState {
        // SAFETY: a node belongs to one, from its beginning to its end.
        unsafe { (*self.as_parent()).state }
    }

    /// The state without the type of what the node has of its own.
    #[inline]
    fn state(self) -> *mut State<()> {
        self.as_ptr().cast()
    }

    /// Is there no node above it? Then its rows are those of the statement, or what a worker of a parallel query sends to its leader.
    pub fn is_top(self) -> bool {
        // SAFETY: the statement runs, and has a plan; the node is of one.
        unsafe { (*(*self.statement()).es_plannedstmt).planTree == (*self.as_parent()).plan }
    }

    /// The table that it scans.
    #[inline]
    pub fn table(self) -> Table<'static> {
        // SAFETY: the executor has opened it, and closes it after the node's end.
        unsafe {
            let table = (*self.as_ptr()).ss.ss_currentRelation;
            assert!(!table.is_null(), "BUG: a node without a table");
            Table::from_ptr(table)
        }
    }

    /// The statement's snapshot.
    #[inline]
    pub fn snapshot(self) -> Snapshot<'static> {
        // SAFETY: it is registered as long as the statement runs.
        unsafe { Snapshot::from_ptr((*self.statement()).es_snapshot) }
    }

    /// Has the statement read by a copy of its snapshot from now on, and returns the one before.
    pub fn copy_snapshot(self) -> Snapshot<'static> {
        let before = self.snapshot();
        // SAFETY: a valid snapshot; the copy stays registered until `restore_snapshot`, or until an error ends the statement.
        unsafe {
            pg_sys::PushCopiedSnapshot(before.as_ptr());
            let copy = pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot());
            pg_sys::PopActiveSnapshot();
            (*self.statement()).es_snapshot = copy;
        }
        before
    }

    /// Gives the statement the snapshot back that it had before `copy_snapshot`.
    ///
    /// # Safety
    /// It must be that one. Nobody may need the copy any more.
    pub unsafe fn restore_snapshot(self, before: Snapshot<'static>) {
        // SAFETY: by contract: the copy is registered.
        unsafe {
            let statement = self.statement();
            pg_sys::UnregisterSnapshot((*statement).es_snapshot);
            (*statement).es_snapshot = before.as_ptr();
        }
    }

    /// The command that the statement's changes are of.
    pub fn command(self) -> pg_sys::CommandId {
        // SAFETY: the statement runs.
        unsafe { (*self.statement()).es_output_cid }
    }

    /// Is one row looked at again, or does the statement check a foreign key with a snapshot of its own?
    pub fn is_checking(self) -> bool {
        let statement = self.statement();
        // SAFETY: the statement runs.
        unsafe {
            !(*statement).es_epq_active.is_null() || !(*statement).es_crosscheck_snapshot.is_null()
        }
    }

    /// So many rows have been processed besides.
    pub fn add_processed(self, rows: u64) {
        // SAFETY: the statement runs.
        unsafe { (*self.statement()).es_processed += rows }
    }

    /// The relation at a place of the range table, from 1.
    pub fn range_table_relation(self, number: usize) -> Oid {
        // SAFETY: the list is one of entries, and lasts as long as the statement.
        unsafe {
            let mut entries = items::<pg_sys::RangeTblEntry>((*self.statement()).es_range_table);
            let entry = entries.nth(number - 1);
            (*entry.expect("BUG: a range table without the table")).relid
        }
    }

    /// The memory that lives as long as the statement runs.
    pub fn query_memory(self) -> Context {
        // SAFETY: the statement runs.
        Context::from(unsafe { (*self.statement()).es_query_cxt })
    }

    /// Where its expressions are evaluated.
    #[inline]
    pub fn context(self) -> ExpressionContext {
        // SAFETY: the executor makes it before the node begins.
        unsafe { ExpressionContext::from_ptr((*self.as_parent()).ps_ExprContext) }
    }

    /// A context besides. Within a guarded entry point.
    pub fn new_context(self) -> ExpressionContext {
        // SAFETY: it lives as long as the statement runs.
        unsafe { ExpressionContext::from_ptr(pg_sys::CreateExprContext(self.statement())) }
    }

    /// The row that its expressions see: the table's, or that of the plan's own list.
    #[inline]
    pub fn scan_slot(self) -> RowSlot {
        // SAFETY: the executor makes it before the node begins.
        unsafe { RowSlot::from_ptr((*self.as_ptr()).ss.ss_ScanTupleSlot) }
    }

    /// A slot for rows of its table. Within a guarded entry point.
    pub fn table_slot(self) -> RowSlot {
        // SAFETY: the table is open; the slot goes with the statement.
        unsafe {
            let slots = &raw mut (*self.statement()).es_tupleTable;
            RowSlot::from_ptr(pg_sys::table_slot_create(self.table().as_ptr(), slots))
        }
    }

    /// A slot for minimal tuples with these columns, which goes with the statement. Within a guarded entry point.
    pub fn minimal_slot(self, columns: Descriptor<'_>) -> RowSlot {
        let statement = self.statement();
        // SAFETY: the statement runs, and pins the descriptor.
        unsafe {
            let kind = core::ptr::addr_of!(pg_sys::TTSOpsMinimalTuple);
            memory::within(self.query_memory(), || {
                let slot = pg_sys::ExecInitExtraTupleSlot(statement, columns.as_ptr(), kind);
                RowSlot::from_ptr(slot)
            })
        }
    }

    /// A virtual slot of so described rows, whose columns are null. Within a guarded entry point.
    pub fn null_slot(self, descriptor: Descriptor<'_>) -> RowSlot {
        // SAFETY: the slot goes with the statement, which pins the descriptor.
        unsafe {
            let kind = core::ptr::addr_of!(pg_sys::TTSOpsVirtual);
            let slot = pg_sys::ExecInitExtraTupleSlot(self.statement(), descriptor.as_ptr(), kind);
            pg_sys::ExecStoreAllNullTuple(slot);
            RowSlot::from_ptr(slot)
        }
    }

    /// What makes the node's result of the row of its scan slot; None where that is the result.
    #[inline]
    pub fn projection(self) -> Option<Projection> {
        // SAFETY: the executor has set it before the node begins.
        NonNull::new(unsafe { (*self.as_parent()).ps_ProjInfo }).map(Projection)
    }

    #[inline]
    pub fn plan(self) -> CustomPlan {
        // SAFETY: a node of ours is of a plan of ours, which outlives it.
        unsafe { CustomPlan::from_ptr((*self.as_parent()).plan.cast()) }
    }

    /// The expressions of its plan, ready to be evaluated; none of one that is missing. Within a guarded entry point.
    pub fn prepared_expressions(self) -> Vec<Prepared> {
        let all = self.plan().existing_expressions();
        // SAFETY: expressions of the node's plan.
        all.map(|one| unsafe { self.prepared(one) }).collect()
    }

    /// An expression of its plan, ready to be evaluated; none of none. Within a guarded entry point.
    ///
    /// # Safety
    /// It must be one of the plan's.
    pub unsafe fn prepared(self, expression: Option<Expression<'_>>) -> Prepared {
        // SAFETY: an expression of the node's plan.
        expression.map_or(Prepared::NONE, |one| unsafe {
            one.prepare(self.as_parent())
        })
    }

    /// Conditions, as one that holds where all of them do; none of none. Within a guarded entry point.
    ///
    /// # Safety
    /// They must be the plan's.
    pub unsafe fn prepared_conditions<'a>(
        self,
        conditions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Prepared {
        let nodes = conditions.into_iter().map(|condition| condition.as_ptr());
        // SAFETY: conditions of the node's plan; of none it makes null.
        Prepared::from(unsafe { pg_sys::ExecInitQual(list(nodes), self.as_parent()) })
    }

    /// Has the node below it begin. Within a guarded entry point.
    pub fn begin_child(self, beginning: Beginning) -> Child {
        // SAFETY: the plan has a plan below; the statement starts.
        unsafe {
            let plan = self.plan().child();
            let child = pg_sys::ExecInitNode(plan, self.statement(), beginning.flags);
            self.adopt(child)
        }
    }

    /// # Safety
    /// `child` must be the node below, which has begun.
    pub(super) unsafe fn adopt(self, child: *mut pg_sys::PlanState) -> Child {
        // SAFETY: by contract.
        unsafe {
            (*self.as_ptr()).custom_ps = list([child]);
            (*self.state()).child = child;
            Child::from_ptr(child)
        }
    }

    /// Ends the node below it. Within a guarded entry point.
    pub fn end_child(self) {
        // SAFETY: null, or a node that has begun and not ended.
        unsafe {
            pg_sys::ExecEndNode((*self.state()).child);
            (*self.state()).child = core::ptr::null_mut();
        }
    }

    /// Has the node below it begin again. Within a guarded entry point.
    pub fn rescan_child(self) {
        // SAFETY: null, or a node that has begun and not ended.
        unsafe {
            let child = (*self.state()).child;
            if child.is_null() {
                return;
            }
            let changed = (*self.as_parent()).chgParam;
            if !changed.is_null() {
                pg_sys::UpdateChangedParamSet(child, changed);
            }
            // One whose parameters have changed begins again by itself.
            if (*child).chgParam.is_null() {
                pg_sys::ExecReScan(child);
            }
        }
    }
}

/// What makes a node's result of the row that its expressions see.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Projection(NonNull<pg_sys::ProjectionInfo>);

impl Projection {
    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::ProjectionInfo {
        self.0.as_ptr()
    }

    /// The slot of the result, which is virtual.
    #[inline]
    pub fn slot(self) -> RowSlot {
        // SAFETY: a projection of a node has it.
        unsafe { RowSlot::from_ptr((*self.as_ptr()).pi_state.resultslot) }
    }

    /// The result of a row. Within a guarded entry point.
    ///
    /// # Safety
    /// `row` must show a row of those that the node's expressions are over.
    pub unsafe fn of(self, row: RowSlot) -> RowSlot {
        // SAFETY: by contract; the projection has its node's context.
        unsafe {
            ExpressionContext::from_ptr((*self.as_ptr()).pi_exprContext).see(row);
            RowSlot::from_ptr(executor::project(self.as_ptr()))
        }
    }

    /// Where its expressions are evaluated.
    #[inline]
    pub fn context(self) -> ExpressionContext {
        // SAFETY: a projection of a node has its context.
        unsafe { ExpressionContext::from_ptr((*self.as_ptr()).pi_exprContext) }
    }
}
