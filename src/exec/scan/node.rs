//! What the executor calls. Rows come in no order: chunk by chunk, and then those of the tail, or as they lie in the file.

use super::output::Output;
use super::rows::Rows;
use crate::exec::aggregate::evaluate::Evaluation;
use crate::exec::aggregate::explain as shown;
use crate::exec::aggregate::selection::{Lanes, Selection};
use crate::exec::aggregate::source::{Input, Source};
use crate::exec::aggregate::team::{self, Member, Team};
use crate::pg::custom_scan::{self, Shared};
use crate::pg::error;
use crate::pg::executor::{self, unguarded};
use crate::pg::node::{items, make};
use crate::pg::tid;
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;
use pgrx::PgMemoryContexts;
use std::ffi::CStr;

pub const NAME: &CStr = c"VarveScan";

#[repr(C)]
struct ScanState {
    base: pg_sys::CustomScanState,
    own: *mut Own,
}

struct Own {
    rows: Rows,
    output: Output,
    /// A row of the tail.
    slot: *mut pg_sys::TupleTableSlot,
    source: Option<Source>,
    phase: Phase,
    /// The row that is looked at, and what core asks of it; null: nothing.
    row: Option<Row>,
    condition: *mut pg_sys::ExprState,
    team: Team,
}

/// A row of the window, or the one of the tail that the slot shows.
#[derive(Clone, Copy)]
enum Row {
    Compressed(usize),
    Ordinary,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Start,
    Read,
    Done,
}

static SCAN_METHODS: Shared<pg_sys::CustomScanMethods> = Shared(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static EXEC_METHODS: Shared<pg_sys::CustomExecMethods> = Shared(pg_sys::CustomExecMethods {
    ExplainCustomScan: Some(explain),
    ..team::methods::<ScanState>(custom_scan::exec_methods(NAME, begin, exec, end, rescan))
});

pub fn init() {
    // SAFETY: runs once, while the library is loaded; the methods live as long as the process.
    unsafe { pg_sys::RegisterCustomScanMethods(scan_methods()) };
}

pub fn scan_methods() -> *const pg_sys::CustomScanMethods {
    &raw const SCAN_METHODS.0
}

#[pg_guard]
unsafe extern "C-unwind" fn create(_scan: *mut pg_sys::CustomScan) -> *mut Node {
    // SAFETY: our state begins with the one that the executor knows.
    unsafe {
        let state = make::<ScanState>(NodeTag::T_CustomScanState);
        (*state).base.methods = &raw const EXEC_METHODS.0;
        state.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    _flags: i32,
) {
    // SAFETY: called by the executor for a node of ours; the plan is what the planner's hook made.
    unsafe {
        let table = (*node).ss.ss_currentRelation;
        let mut lanes = Lanes::of_node(node);
        let output = Output::new(node, &mut lanes);
        // Conditions see the row of the table.
        let row = (*node).ss.ss_ScanTupleSlot;
        pg_sys::ExecStoreAllNullTuple(row);
        executor::clear_virtual(row);
        let evaluation = Evaluation {
            context: (*node).ss.ps.ps_ExprContext,
            row,
        };
        let parent = &raw mut (*node).ss.ps;
        let selection = Selection::new(parent, &conditions_of(node), lanes, evaluation);
        let own = Own {
            rows: Rows::new(selection, output.lanes()),
            output,
            slot: pg_sys::table_slot_create(table, &raw mut (*estate).es_tupleTable),
            source: None,
            phase: Phase::Start,
            row: None,
            condition: core::ptr::null_mut(),
            team: Team::alone(),
        };
        let mut context = PgMemoryContexts::For((*estate).es_query_cxt);
        (*node.cast::<ScanState>()).own = context.leak_and_drop_on_delete(own);
    }
}

/// The conditions of a plan of ours.
unsafe fn conditions_of(node: *mut pg_sys::CustomScanState) -> Vec<*mut Node> {
    // SAFETY: the callers' contract.
    unsafe {
        let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        items((*scan).custom_exprs).collect()
    }
}

unsafe fn own_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Own {
    // SAFETY: the callers' contract: `begin` initialized the node.
    unsafe { &mut *(*node.cast::<ScanState>()).own }
}

impl Member for ScanState {
    unsafe fn team<'a>(node: *mut pg_sys::CustomScanState) -> (&'a mut Team, &'a mut Selection) {
        // SAFETY: by contract.
        let own = unsafe { own_of(node) };
        (&mut own.team, &mut own.rows.selection)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe { own_of(node).stop() };
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: as above.
    unsafe {
        let own = own_of(node);
        own.output.clear();
        own.stop();
        own.phase = Phase::Start;
    }
}

/// Carries no `#[pg_guard]`: an error of conditions and of core's projection passes through as it is, and jumps over this frame, which holds plain
/// values only.
unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above; the node's context sees the row of the table.
    unsafe {
        let own = (*node.cast::<ScanState>()).own;
        loop {
            if !advance(node) {
                return core::ptr::null_mut();
            }
            let condition = (*own).condition;
            if condition.is_null() || unguarded::holds(condition, (*node).ss.ps.ps_ExprContext) {
                break;
            }
        }
        let row = put_together(node);
        let projection = (*own).output.projection;
        if projection.is_null() {
            return row;
        }
        unguarded::project(projection)
    }
}

/// Goes to the next row of which conditions are to be asked; false where there is none.
#[pg_guard]
unsafe extern "C-unwind" fn advance(node: *mut pg_sys::CustomScanState) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let own = own_of(node);
        own.forget_row(node);
        loop {
            own.row = own.next();
            if own.row.is_some() {
                return true;
            }
            match own.phase {
                Phase::Start => own.start(node),
                Phase::Read => {}
                Phase::Done => {
                    own.output.clear();
                    return false;
                }
            }
        }
    }
}

/// The row that is looked at, before core's projection.
#[pg_guard]
unsafe extern "C-unwind" fn put_together(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the caller's contract: there is one.
    unsafe {
        let own = own_of(node);
        let rows = &mut own.rows;
        let tid = match own.row {
            Some(Row::Compressed(row)) => {
                rows.decode_outputs();
                own.output
                    .compressed(&rows.selection.lanes, &rows.window, row);
                rows.tid(row)
            }
            _ => {
                let (values, nulls) = executor::attributes(own.slot, rows.selection.attributes);
                own.output.ordinary(values, nulls);
                Some(tid::from_pg(&(*own.slot).tts_tid))
            }
        };
        own.output.at(tid.expect("BUG: a row of no chunk"))
    }
}

impl Own {
    unsafe fn start(&mut self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's contract.
        unsafe {
            let selection = &mut self.rows.selection;
            let shared = self.team.shared();
            self.phase = match selection.bind() {
                true => {
                    self.source = Some(Source::of_node(node, self.slot, selection, shared));
                    Phase::Read
                }
                false => Phase::Done,
            };
        }
    }

    /// Frees what was made of the row before.
    unsafe fn forget_row(&self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's contract.
        unsafe {
            let context = (*node).ss.ps.ps_ExprContext;
            (*context).ecxt_scantuple = (*node).ss.ss_ScanTupleSlot;
            let memory = (*context).ecxt_per_tuple_memory;
            if !(*memory).isReset {
                pg_sys::MemoryContextReset(memory);
            }
        }
    }

    /// The next row of the chunk that is open, or the next row of the tail. None where there is none, or another chunk was opened.
    unsafe fn next(&mut self) -> Option<Row> {
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(row) = self.rows.next() {
                self.condition = self.rows.rest.compressed;
                self.rows.show(row);
                return Some(Row::Compressed(row));
            }
            let input = self.source.as_mut()?.next();
            error::check_interrupts();
            match input {
                None => {
                    self.stop();
                    self.phase = Phase::Done;
                    None
                }
                Some(Input::Chunk(open)) => {
                    self.rows.enter(open);
                    None
                }
                Some(Input::Row) => {
                    let selection = &mut self.rows.selection;
                    selection.counters.tail_rows += 1;
                    let (values, nulls) = executor::attributes(self.slot, selection.attributes);
                    for (at, (&value, &isnull)) in values.iter().zip(nulls).enumerate() {
                        selection.evaluation.set(at, (value, isnull));
                    }
                    self.condition = self.rows.rest.ordinary;
                    Some(Row::Ordinary)
                }
            }
        }
    }

    unsafe fn stop(&mut self) {
        self.row = None;
        self.rows.leave();
        if let Some(source) = self.source.take() {
            // SAFETY: the caller's contract.
            unsafe { source.end() };
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: called by EXPLAIN for a node that `begin` initialized.
    unsafe {
        let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let reason = items::<pg_sys::String>((*scan).custom_private).next();
        if let Some(reason) = reason.filter(|_| (*state).verbose) {
            pg_sys::ExplainPropertyText(c"Groups Left to Core".as_ptr(), (*reason).sval, state);
        }
        shown::filter(node, ancestors, state, &conditions_of(node));
        if (*state).analyze {
            let counters = &own_of(node).rows.selection.counters;
            if (*state).verbose {
                shown::all_chunks(node, state, counters);
            }
            let count = |label, value| shown::count(state, label, value);
            count(c"Chunks", counters.chunks);
            count(c"Chunks Skipped", counters.skipped);
            count(c"Chunks Decoded", counters.decoded);
            count(c"Blocks Decoded", counters.blocks);
            count(c"Tail Rows", counters.tail_rows);
        }
    }
}
