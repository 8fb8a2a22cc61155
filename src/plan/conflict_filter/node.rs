//! The executor's side: a custom scan that hands on those rows of its source whose keys are not taken, or may not be.

use super::taken::Taken;
use crate::pg::custom_scan::{self, Shared};
use crate::pg::error;
use crate::pg::executor::{self, unguarded};
use crate::pg::node::{integers, items, list, make};
use pgrx::pg_sys::{self, NodeTag};
use pgrx::prelude::*;
use pgrx::PgMemoryContexts;
use std::ffi::CStr;

pub const NAME: &CStr = c"VarveConflictFilter";
/// Most rows that go unasked after one whose key was free.
const LONGEST_PAUSE: u32 = 63;

#[repr(C)]
struct ConflictFilterState {
    base: pg_sys::CustomScanState,
    filter: *mut ConflictFilter,
}

struct ConflictFilter {
    source: *mut pg_sys::PlanState,
    /// None where nothing is executed, or where a taken key could be an error.
    taken: Option<Taken>,
    pauses: Pauses,
    left_out: u64,
}

/// When a row is not asked about: where keys are free, asking is in vain.
#[derive(Default)]
struct Pauses {
    /// So many rows are still to pass unasked.
    left: u32,
    /// The last pause.
    length: u32,
}

impl Pauses {
    /// Is the next row to be asked about? It counts as passed.
    fn pass(&mut self) -> bool {
        let over = self.left == 0;
        self.left -= u32::from(!over);
        over
    }

    fn after(&mut self, was_taken: bool) {
        self.length = match was_taken {
            true => 0,
            false => (2 * self.length + 1).min(LONGEST_PAUSE),
        };
        self.left = self.length;
    }
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
        let state = make::<ConflictFilterState>(NodeTag::T_CustomScanState);
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
    // SAFETY: called by the executor for a node of ours; the plan is what `plan_sieve` made.
    unsafe {
        let source = unguarded::ExecInitNode(custom_scan::source_of(node), estate, flags);
        begin_above(node, source, flags);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin_above(
    node: *mut pg_sys::CustomScanState,
    source: *mut pg_sys::PlanState,
    flags: i32,
) {
    // SAFETY: as above.
    unsafe {
        (*node).custom_ps = list([source]);
        let is_executed = flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 == 0;
        // Where a transaction has one snapshot, core raises an error for a taken key that it does not show.
        let may_leave_out = pg_sys::XactIsoLevel < pg_sys::XACT_REPEATABLE_READ as i32;
        let taken = (is_executed && may_leave_out).then(|| {
            let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
            let lists: Vec<_> = items((*scan).custom_private)
                .map(|of| integers(of))
                .collect();
            let oid = |&number: &i32| pg_sys::Oid::from(number as u32);
            let indexes: Vec<_> = lists[1].iter().map(oid).collect();
            Taken::open(oid(&lists[0][0]), &indexes)
        });
        let filter = ConflictFilter {
            source,
            taken,
            pauses: Pauses::default(),
            left_out: 0,
        };
        let mut context = PgMemoryContexts::For((*(*node).ss.ps.state).es_query_cxt);
        (*node.cast::<ConflictFilterState>()).filter = context.leak_and_drop_on_delete(filter);
    }
}

unsafe fn filter_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut ConflictFilter {
    // SAFETY: the callers' contract: `begin` initialized the node.
    unsafe { &mut *(*node.cast::<ConflictFilterState>()).filter }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        let filter = filter_of(node);
        if let Some(taken) = filter.taken.take() {
            taken.close();
        }
        pg_sys::ExecEndNode(filter.source);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: as above.
    unsafe {
        custom_scan::rescan_source(node, filter_of(node).source);
    }
}

unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        let source = (*(*node.cast::<ConflictFilterState>()).filter).source;
        loop {
            let slot = hand_on(node, unguarded::next_row(source));
            if !slot.is_null() {
                return slot;
            }
        }
    }
}

/// Hands on a row of the source, or that there is none; null for a row that is left out.
#[pg_guard]
unsafe extern "C-unwind" fn hand_on(
    node: *mut pg_sys::CustomScanState,
    row: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the caller's contract.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        if executor::is_empty(row) {
            executor::clear_tuple(slot);
            return slot;
        }
        let filter = filter_of(node);
        let context = (*node).ss.ps.ps_ExprContext;
        pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
        let old = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
        let leaves_out = filter.leaves_out(row);
        pg_sys::MemoryContextSwitchTo(old);
        if leaves_out {
            error::check_interrupts();
            filter.left_out += 1;
            return core::ptr::null_mut();
        }
        custom_scan::hand_on(node, row)
    }
}

impl ConflictFilter {
    /// # Safety
    /// `row` must have a row of the source.
    unsafe fn leaves_out(&mut self, row: *mut pg_sys::TupleTableSlot) -> bool {
        let Some(taken) = &self.taken else {
            return false;
        };
        if !self.pauses.pass() {
            return false;
        }
        // SAFETY: by contract.
        let is_taken = unsafe { taken.has_key_of(row) };
        self.pauses.after(is_taken);
        is_taken
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
            let label = c"Rows Removed by Taken Keys".as_ptr();
            let none = core::ptr::null();
            pg_sys::ExplainPropertyUInteger(label, none, filter_of(node).left_out, state);
        }
    }
}
