//! What the executor calls.

use super::chunks::{Counters, Deletion};
use crate::exec::aggregate::conditions::Condition;
use crate::exec::aggregate::evaluate::Evaluation;
use crate::pg::custom_scan::{self, Shared};
use crate::pg::executor::{self, unguarded};
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{integers, items, list, make};
use crate::pg::relation::Open;
use crate::pg::snapshot::Snapshot;
use crate::rollup::watch;
use crate::table::{changes, stream};
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;
use pgrx::PgMemoryContexts;
use std::ffi::CStr;

pub const NAME: &CStr = c"VarveChunkDelete";

#[repr(C)]
struct ChunkDeleteState {
    base: pg_sys::CustomScanState,
    own: *mut Own,
}

struct Own {
    source: *mut pg_sys::PlanState,
    /// None once it has deleted, or where it must not.
    conditions: Option<Vec<Condition>>,
    counters: Counters,
    /// The statement's snapshot, once its scan reads by a copy; null before.
    replaced: Snapshot<'static>,
}

static SCAN_METHODS: Shared<pg_sys::CustomScanMethods> = Shared(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static EXEC_METHODS: Shared<pg_sys::CustomExecMethods> = Shared(pg_sys::CustomExecMethods {
    ExplainCustomScan: Some(explain),
    ..custom_scan::exec_methods(NAME, begin, exec, end, rescan)
});

pub fn init() {
    // SAFETY: runs once, while the library is loaded; the methods live as long as the process.
    unsafe { pg_sys::RegisterCustomScanMethods(scan_methods()) };
}

pub fn scan_methods() -> *const pg_sys::CustomScanMethods {
    &raw const SCAN_METHODS.0
}

#[pg_guard]
unsafe extern "C-unwind" fn create(_scan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: our state begins with the one that the executor knows.
    unsafe {
        let state = make::<ChunkDeleteState>(NodeTag::T_CustomScanState);
        (*state).base.methods = &raw const EXEC_METHODS.0;
        state.cast()
    }
}

// Where the source runs, there is no guard: an error of its expressions must reach the user as it was raised.

unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    flags: i32,
) {
    // SAFETY: called by the executor for a node of ours; the plan is what the planner's hook made.
    unsafe {
        let source = unguarded::ExecInitNode(custom_scan::source_of(node), estate, flags);
        begin_above(node, source, estate, flags);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin_above(
    node: *mut pg_sys::CustomScanState,
    source: *mut pg_sys::PlanState,
    estate: *mut pg_sys::EState,
    flags: i32,
) {
    // SAFETY: as above.
    unsafe {
        (*node).custom_ps = list([source]);
        // Neither to show the plan, nor to look at one row again, nor for a check of a foreign key with a snapshot of its own.
        let deletes = flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 == 0
            && (*estate).es_epq_active.is_null()
            && (*estate).es_crosscheck_snapshot.is_null();
        let conditions = deletes.then(|| {
            let conditions = clauses_of(node).into_iter().map(|clause| {
                let condition = Condition::of(clause);
                let mut condition = condition.expect("BUG: a condition of another kind");
                condition.begin(&raw mut (*node).ss.ps);
                condition
            });
            conditions.collect()
        });
        let own = Own {
            source,
            conditions,
            counters: Counters::default(),
            replaced: Snapshot::NONE,
        };
        let mut context = PgMemoryContexts::For((*estate).es_query_cxt);
        (*node.cast::<ChunkDeleteState>()).own = context.leak_and_drop_on_delete(own);
    }
}

/// The plan's private data: the place of the table in the range table, and the conditions.
unsafe fn private_of(node: *mut pg_sys::CustomScanState) -> Vec<*mut pg_sys::List> {
    // SAFETY: the callers' contract.
    unsafe {
        let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        items((*scan).custom_private).collect()
    }
}

unsafe fn clauses_of(node: *mut pg_sys::CustomScanState) -> Vec<*mut Node> {
    // SAFETY: the callers' contract.
    unsafe { items(private_of(node)[1]).collect() }
}

unsafe fn own_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Own {
    // SAFETY: the callers' contract: `begin` initialized the node.
    unsafe { &mut *(*node.cast::<ChunkDeleteState>()).own }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        changes::pass_by_nothing();
        let own = own_of(node);
        pg_sys::ExecEndNode(own.source);
        if !own.replaced.is_none() {
            let estate = (*node).ss.ps.state;
            pg_sys::UnregisterSnapshot((*estate).es_snapshot);
            (*estate).es_snapshot = own.replaced.as_ptr();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: as above.
    unsafe {
        custom_scan::rescan_source(node, own_of(node).source);
    }
}

unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        delete(node);
        let source = (*(*node.cast::<ChunkDeleteState>()).own).source;
        hand_on(node, unguarded::next_row(source))
    }
}

/// At the first call: deletes what it can.
#[pg_guard]
unsafe extern "C-unwind" fn delete(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the caller's contract.
    unsafe {
        let own = own_of(node);
        let Some(conditions) = own.conditions.take() else {
            return;
        };
        let estate = (*node).ss.ps.state;
        let number = integers(private_of(node)[0])[0] as usize;
        let entry = items::<pg_sys::RangeTblEntry>((*estate).es_range_table).nth(number - 1);
        let table = (*entry.expect("BUG: a range table without the table")).relid;
        // The statement has its lock.
        let open = Open::table(table, LockMode::Held);
        let command = (*estate).es_output_cid;
        if !watch::dependents(table).is_empty() || stream::is_streamed(open.rel(), command) {
            return;
        }
        let context = (*node).ss.ps.ps_ExprContext;
        let evaluation = Evaluation {
            context,
            row: core::ptr::null_mut(),
        };
        let bound = conditions
            .iter()
            .map(|condition| (condition.bind(&evaluation), condition.at))
            .collect();
        let snapshot = copy_of(Snapshot::from_ptr((*estate).es_snapshot));
        own.replaced = Snapshot::from_ptr((*estate).es_snapshot);
        (*estate).es_snapshot = snapshot.as_ptr();
        let mut deletion = Deletion::new(open.rel(), snapshot, command, bound);
        own.counters = deletion.run((*context).ecxt_per_tuple_memory);
        evaluation.forget();
        (*estate).es_processed += own.counters.rows;
    }
}

/// A registered copy of a snapshot. Functions in the conditions read by the one that is active, and have to go on seeing what the scan passes by.
unsafe fn copy_of(snapshot: Snapshot<'_>) -> Snapshot<'static> {
    // SAFETY: the caller's contract: a valid snapshot.
    unsafe {
        pg_sys::PushCopiedSnapshot(snapshot.as_ptr());
        let copy = pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot());
        pg_sys::PopActiveSnapshot();
        Snapshot::from_ptr(copy)
    }
}

/// Hands on a row of the source, or that there is none.
#[pg_guard]
unsafe extern "C-unwind" fn hand_on(
    node: *mut pg_sys::CustomScanState,
    row: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the caller's contract.
    unsafe {
        if executor::is_empty(row) {
            let slot = (*node).ss.ss_ScanTupleSlot;
            executor::clear_tuple(slot);
            return slot;
        }
        pg_sys::MemoryContextReset((*(*node).ss.ps.ps_ExprContext).ecxt_per_tuple_memory);
        custom_scan::hand_on(node, row)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    _ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: called by EXPLAIN for a node that `begin` initialized.
    unsafe {
        if (*state).analyze {
            let count = |label: &CStr, value: u64| {
                pg_sys::ExplainPropertyUInteger(label.as_ptr(), core::ptr::null(), value, state);
            };
            let counters = own_of(node).counters;
            count(c"Chunks", counters.chunks);
            count(c"Rows Deleted Together", counters.rows);
        }
    }
}
