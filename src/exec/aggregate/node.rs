//! What the executor calls. All input is read at the first call; groups that do not fit into memory go up early, and again when
//! they come again: core's final step brings them together. Where there is no such step above, the input is read again for those groups that
//! there was no room for.

use super::chunk::Work;
use super::clauses::Clause;
use super::compile::{Compiled, Parts};
use super::emit::Emitter;
use super::evaluate::Evaluation;
use super::fold::int_of;
use super::joined::Joined;
use super::selection::{Lanes, Selection};
use super::share::Share;
use super::slices::{self, Slices};
use super::sorter::Sorter;
use super::source::{Input, Source};
use super::team::{self, Member, Team};
use super::transition::executor_of;
use crate::pg::custom_scan::{self, Shared};
use crate::pg::error;
use crate::pg::node::make;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use pgrx::pg_sys::{self, NodeTag};
use pgrx::prelude::*;
use pgrx::PgMemoryContexts;
use std::ffi::CStr;

pub const NAME: &CStr = c"VarveAggregate";

/// As many groups are kept, whatever memory they take.
const LEAST_DIVIDED: usize = 64;
/// So many times more parts are made than would have room if groups came evenly.
const MORE_PARTS: f64 = 1.5;

#[repr(C)]
struct AggregateState {
    base: pg_sys::CustomScanState,
    own: *mut Own,
}

struct Own {
    work: Work,
    emitter: Emitter,
    /// A row of the table.
    slot: *mut pg_sys::TupleTableSlot,
    /// Whose memory has the states.
    states: *mut pg_sys::ExprContext,
    source: Option<Source>,
    joined: Option<Joined>,
    slices: Option<Slices>,
    sorter: Option<Sorter>,
    /// Where memory has no room for all groups that are finished here: those that are read another time.
    shares: Vec<Share>,
    /// Groups in the order in which they go up; empty: in the order in which they were met.
    order: Vec<u32>,
    team: Team,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Start,
    Read,
    /// The group that goes up next; whether the source is read on behind the last one.
    Emit(usize, bool),
    /// Groups go up that core has sorted.
    Sorted,
    Done,
}

static SCAN_METHODS: Shared<pg_sys::CustomScanMethods> = Shared(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static EXEC_METHODS: Shared<pg_sys::CustomExecMethods> = Shared(pg_sys::CustomExecMethods {
    ExplainCustomScan: Some(explain),
    ..team::methods::<AggregateState>(custom_scan::exec_methods(NAME, begin, exec, end, rescan))
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
        let state = make::<AggregateState>(NodeTag::T_CustomScanState);
        (*state).base.methods = &raw const EXEC_METHODS.0;
        state.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    flags: i32,
) {
    // SAFETY: called by the executor for a node of ours; the plan is what the planner's hook made.
    unsafe {
        let table = Table::from_ptr((*node).ss.ss_currentRelation);
        let virtual_ops = core::ptr::addr_of!(pg_sys::TTSOpsVirtual);
        let row = pg_sys::ExecInitExtraTupleSlot(estate, table.descriptor().as_ptr(), virtual_ops);
        pg_sys::ExecStoreAllNullTuple(row);
        let slot = pg_sys::table_slot_create(table.as_ptr(), &raw mut (*estate).es_tupleTable);
        let states = pg_sys::CreateExprContext(estate);
        let executor = executor_of(states);
        let parts = Parts::of((*node).ss.ps.plan.cast());
        let join = parts.join;
        let joined = join.map(|part| Joined::begin(node, part, estate, flags));
        let mut lanes = Lanes::of_node(node);
        let compiled = Compiled::new(node, &parts, executor, &mut lanes);
        let evaluation = Evaluation {
            context: (*node).ss.ps.ps_ExprContext,
            row,
        };
        let emitter = Emitter::new(node, pg_sys::CreateExprContext(estate), &compiled);
        let parent = &raw mut (*node).ss.ps;
        let selection = Selection::new(parent, &parts.conditions, lanes, evaluation);
        let groups = (*(*node).ss.ps.plan).plan_rows;
        let memory = (*states).ecxt_per_tuple_memory;
        let own = Own {
            work: Work::new(compiled, selection, memory, groups),
            emitter,
            slot,
            states,
            source: None,
            joined,
            slices: parts.slices.map(Slices::new),
            sorter: Sorter::new(&parts.order),
            shares: Vec::new(),
            order: Vec::new(),
            team: Team::alone(),
            phase: Phase::Start,
        };
        let mut context = PgMemoryContexts::For((*estate).es_query_cxt);
        (*node.cast::<AggregateState>()).own = context.leak_and_drop_on_delete(own);
    }
}

unsafe fn own_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Own {
    // SAFETY: the callers' contract: `begin` initialized the node.
    unsafe { &mut *(*node.cast::<AggregateState>()).own }
}

impl Member for AggregateState {
    unsafe fn team<'a>(node: *mut pg_sys::CustomScanState) -> (&'a mut Team, &'a mut Selection) {
        // SAFETY: by contract.
        let own = unsafe { own_of(node) };
        (&mut own.team, &mut own.work.selection)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        let own = own_of(node);
        own.stop();
        if let Some(sorter) = &mut own.sorter {
            sorter.end();
        }
        if let Some(joined) = &mut own.joined {
            joined.end();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: as above.
    unsafe {
        let own = own_of(node);
        own.stop();
        own.forget_groups();
        own.shares.clear();
        own.work.groups.keep_to(Share::default());
        if let Some(sorter) = &mut own.sorter {
            sorter.end();
        }
        if let Some(joined) = &mut own.joined {
            joined.rescan(node);
        }
        own.phase = Phase::Start;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe {
        let own = own_of(node);
        loop {
            match own.phase {
                Phase::Start => own.start(node),
                Phase::Read => own.read(node),
                Phase::Emit(group, more) if group < own.work.groups.count() => {
                    own.phase = Phase::Emit(group + 1, more);
                    let group = own.order.get(group).map_or(group, |&group| group as usize);
                    return own.emitter.emit(&own.work, group);
                }
                Phase::Emit(_, true) => {
                    own.forget_groups();
                    let more = own.next_share(node) || own.source.is_some() || own.next_pass(node);
                    own.phase = if more { Phase::Read } else { Phase::Done };
                }
                Phase::Emit(_, false) => own.phase = Phase::Done,
                Phase::Sorted => {
                    let sorter = own.sorter.as_mut().expect("BUG: nothing was sorted");
                    if let Some(row) = sorter.next(&own.emitter) {
                        return row;
                    }
                    sorter.end();
                    own.phase = Phase::Done;
                }
                Phase::Done => {
                    own.emitter.clear();
                    return core::ptr::null_mut();
                }
            }
        }
    }
}

impl Own {
    /// Evaluates what is the same for all rows, and opens the source.
    unsafe fn start(&mut self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's contract.
        unsafe {
            self.phase = Phase::Emit(0, false);
            if !self.work.selection.bind() {
                return self.work.add_only_group();
            }
            self.work.compiled.look_at_clock();
            if let Some(joined) = &mut self.joined {
                joined.read();
            }
            if let (Some(slices), Some(lane)) = (&mut self.slices, self.work.compiled.sliced) {
                let table = (*node).ss.ss_currentRelation;
                let snapshot = (*(*node).ss.ps.state).es_snapshot;
                match self.work.compiled.rises() {
                    true => slices.begin(
                        Table::from_ptr(table),
                        Snapshot::from_ptr(snapshot),
                        &self.work.selection.clauses,
                        lane,
                    ),
                    false => slices.begin_whole(),
                }
            }
            match self.next_pass(node) {
                true => self.phase = Phase::Read,
                false => self.work.add_only_group(),
            }
        }
    }

    /// Opens the source, for the next values that a join names or the next slice of time; false where there are none.
    unsafe fn next_pass(&mut self, node: *mut pg_sys::CustomScanState) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            if let (Some(joined), Some(lane)) = (&mut self.joined, self.work.compiled.joined) {
                let Some(named) = joined.next_pass() else {
                    return false;
                };
                self.work.selection.also([Clause::One((named, lane))]);
            }
            if let (Some(slices), Some(lane)) = (&mut self.slices, self.work.compiled.sliced) {
                let Some(slice) = slices.next() else {
                    return false;
                };
                self.work.slice = slice;
                let conditions = slices::conditions(slice, lane);
                self.work.selection.also(conditions);
            }
            let (selection, shared) = (&self.work.selection, self.team.shared());
            self.source = Some(Source::of_node(node, self.slot, selection, shared));
            true
        }
    }

    /// Reads on until the end, or until memory is full.
    unsafe fn read(&mut self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's contract.
        unsafe {
            let context = self.work.selection.evaluation.context;
            (*context).ecxt_scantuple = self.work.selection.evaluation.row;
            let limit = pg_sys::get_hash_memory_limit();
            let mut count = self.work.groups.count();
            loop {
                let source = self.source.as_mut().expect("BUG: nothing to read");
                match source.next() {
                    None => {
                        self.stop();
                        if self.joined.is_some() && self.next_pass(node) {
                            continue;
                        }
                        self.put_in_order(node);
                        return;
                    }
                    Some(Input::Row) => self.work.row(self.slot),
                    Some(Input::Chunk(open)) => self.work.chunk(&open),
                }
                error::check_interrupts();
                let now = self.work.groups.count();
                let is_due = self.work.selection.counters.tail_rows.is_multiple_of(1024);
                if now >= count + 64 || now > 0 && is_due {
                    count = now;
                    // A slice goes up in order, so all of it is kept.
                    if self.memory() > limit && self.slices.is_none() {
                        if self.work.compiled.is_whole {
                            if now > LEAST_DIVIDED && self.divide(node) {
                                count = 0;
                            }
                            continue;
                        }
                        let Some(sorter) = &mut self.sorter else {
                            self.phase = Phase::Emit(0, true);
                            return;
                        };
                        sorter.spill(node, &mut self.emitter, &self.work);
                        self.forget_groups();
                        count = 0;
                    }
                }
            }
        }
    }

    /// Forgets all groups, and reads a part of them; the others are read another time. False where they cannot be divided.
    unsafe fn divide(&mut self, node: *mut pg_sys::CustomScanState) -> bool {
        let progress = self.source.as_ref().and_then(Source::progress);
        let count = MORE_PARTS / progress.unwrap_or(0.5);
        let mut parts = self.work.groups.share().parts(count);
        let Some(now) = parts.pop() else {
            return false;
        };
        self.shares.append(&mut parts);
        // SAFETY: the caller's contract.
        unsafe {
            self.stop();
            self.forget_groups();
            self.read_share(node, now);
        }
        true
    }

    /// Begins to read the groups that are left for another time, or some of them; false where there are none.
    unsafe fn next_share(&mut self, node: *mut pg_sys::CustomScanState) -> bool {
        let Some(share) = self.shares.pop() else {
            return false;
        };
        // SAFETY: the caller's contract.
        unsafe { self.read_share(node, share) };
        true
    }

    unsafe fn read_share(&mut self, node: *mut pg_sys::CustomScanState, share: Share) {
        self.work.groups.keep_to(share);
        if let Some(joined) = &mut self.joined {
            joined.begin_again();
        }
        // SAFETY: the caller's contract.
        unsafe { self.next_pass(node) };
    }

    /// All groups are there, or those of a slice or share.
    unsafe fn put_in_order(&mut self, node: *mut pg_sys::CustomScanState) {
        // SAFETY: the caller's contract.
        unsafe { self.work.add_only_group() };
        self.phase = Phase::Emit(0, self.slices.is_some() || !self.shares.is_empty());
        self.put_slice_in_order();
        let Some(sorter) = &mut self.sorter else {
            return;
        };
        if self.shares.is_empty() && !sorter.has_spilled() {
            self.order = sorter.order(&self.work.groups);
            return;
        }
        // SAFETY: the caller's contract.
        unsafe {
            sorter.spill(node, &mut self.emitter, &self.work);
            self.forget_groups();
            if self.next_share(node) {
                self.phase = Phase::Read;
                return;
            }
        }
        self.phase = Phase::Sorted;
        if let Some(sorter) = &mut self.sorter {
            // SAFETY: the caller's contract.
            unsafe { sorter.finish() };
        }
    }

    /// The groups of a slice go up by their only column.
    fn put_slice_in_order(&mut self) {
        let Some(slices) = &self.slices else {
            return;
        };
        let length = self.work.compiled.groups[0].typ.length;
        let values = &self.work.groups.values;
        self.order = (0..self.work.groups.count() as u32).collect();
        self.order
            .sort_by_cached_key(|&group| int_of(values[group as usize].0, length));
        if slices.is_descending() {
            self.order.reverse();
        }
    }

    unsafe fn memory(&self) -> usize {
        // SAFETY: the caller's contract.
        let states = unsafe { pg_sys::MemoryContextMemAllocated(self.work.states, true) };
        self.work.groups.bytes() + states
    }

    unsafe fn stop(&mut self) {
        if let Some(source) = self.source.take() {
            // SAFETY: the caller's contract.
            unsafe { source.end() };
        }
    }

    unsafe fn forget_groups(&mut self) {
        self.work.groups.clear();
        self.order.clear();
        // SAFETY: the caller's contract; callbacks of states run.
        unsafe { pg_sys::ReScanExprContext(self.states) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: called by EXPLAIN for a node that `begin` initialized.
    unsafe { super::explain::explain(node, ancestors, state, &own_of(node).work) }
}
