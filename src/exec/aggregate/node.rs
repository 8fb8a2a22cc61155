//! What the executor calls. All input is read at the first call, or that of a slice, share or range; groups that do not fit into memory go up early, and again when
//! they come again: core's final step brings them together. Where there is no such step above, the input is read again for those groups that
//! there was no room for.

use super::chunk::Work;
use super::clauses::{between, Clause};
use super::compile::{Compiled, Parts, Way};
use super::emit::Emitter;
use super::evaluate::Evaluation;
use super::fold::int_of;
use super::joined::Joined;
use super::key_range::KeyRange;
use super::outbox::Posted;
use super::selection::{Lanes, Selection};
use super::share::Share;
use super::slices::Slices;
use super::sorter::Sorter;
use super::source::{Extent, Input, Source};
use super::team::{Member, Team};
use crate::chunk::chunk_cache::Began;
use crate::pg::aggregation::Aggregating;
use crate::pg::custom_scan::{self, Beginning, CustomScan, Explain, Guarded, Methods, NodeState};
use crate::pg::error;
use crate::pg::expression_context::ExpressionContext;
use crate::pg::memory;
use crate::pg::row_slot::RowSlot;
use crate::pg::Datum;
use std::ffi::CStr;

/// As many groups are kept, whatever memory they take.
const LEAST_DIVIDED: usize = 64;
/// So many times more parts are made than would have room if groups came evenly.
const MORE_PARTS: f64 = 1.5;

pub struct Aggregation {
    work: Work,
    emitter: Emitter,
    /// A row of the table.
    slot: RowSlot,
    /// Whose memory has the states.
    states: ExpressionContext,
    source: Option<Source>,
    /// When this execution began, however many sources it opens.
    began: Began,
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
    /// Rows go up that a worker has left, from this one on.
    Posted(Posted, usize),
    /// This process has no groups any more; workers may have left some.
    Last,
    Done,
}

pub fn init() {
    custom_scan::register::<Aggregation>();
}

impl CustomScan for Aggregation {
    const NAME: &'static CStr = c"VarveAggregate";
    const METHODS: &'static Methods = &Methods::guarded::<Self>().parallel::<Self>();

    fn begin(node: NodeState, beginning: Beginning) -> Aggregation {
        let row = node.null_slot(node.table().descriptor());
        let slot = node.table_slot();
        let states = node.new_context();
        // SAFETY: the node begins, and its plan is one of ours; contexts live as long as the statement.
        unsafe {
            let executor = Aggregating::states_in(states);
            let parts = Parts::of(node.plan());
            let joined = parts.join.map(|part| Joined::begin(node, part, beginning));
            let mut lanes = Lanes::of_node(node);
            let compiled = Compiled::new(node, &parts, executor, &mut lanes);
            let evaluation = Evaluation {
                context: node.context(),
                row,
            };
            let emitter = Emitter::new(node, node.new_context(), &compiled);
            let selection = Selection::new(node, parts.conditions, lanes, evaluation);
            let groups = node.plan().expected_rows();
            Aggregation {
                work: Work::new(compiled, selection, states.memory(), groups),
                emitter,
                slot,
                states,
                source: None,
                began: Began::now(),
                joined,
                slices: parts.slices.map(Slices::new),
                sorter: Sorter::new(&parts.order),
                shares: Vec::new(),
                order: Vec::new(),
                team: Team::alone(),
                phase: Phase::Start,
            }
        }
    }

    fn rescan(&mut self, node: NodeState) {
        self.stop();
        self.forget_groups();
        self.shares.clear();
        self.work.groups.keep_to(Share::default());
        if let Some(sorter) = &mut self.sorter {
            sorter.end();
        }
        if let Some(joined) = &mut self.joined {
            joined.rescan();
        }
        self.team.rescan();
        node.rescan_child();
        self.phase = Phase::Start;
    }

    fn end(&mut self, node: NodeState) {
        self.stop();
        if let Some(sorter) = &mut self.sorter {
            sorter.end();
        }
        if let Some(joined) = &mut self.joined {
            joined.end();
        }
        node.end_child();
    }

    fn explain(&mut self, node: NodeState, explain: Explain) {
        super::explain::explain(node, explain, &self.work);
    }
}

impl Member for Aggregation {
    fn team(&mut self) -> (&mut Team, &mut Selection) {
        (&mut self.team, &mut self.work.selection)
    }

    /// Who finishes a group has to read all of it.
    fn shared_by(&self) -> Option<(Vec<usize>, u64)> {
        let compiled = &self.work.compiled;
        compiled.is_whole.then(|| {
            let groups = compiled.groups.iter();
            let columns = groups.filter_map(|group| match group.way {
                Way::Column(lane) => Some(self.work.selection.lanes[lane].at),
                _ => None,
            });
            (columns.collect(), compiled.ranges)
        })
    }

    fn columns_of_rows(&self) -> Option<usize> {
        let is_in_order = self.sorter.is_some() || self.slices.is_some();
        (!is_in_order)
            .then(|| self.emitter.plain_columns())
            .flatten()
    }
}

impl Guarded for Aggregation {
    fn next(&mut self, node: NodeState) -> Option<RowSlot> {
        loop {
            // SAFETY: within a guarded entry point of the node.
            unsafe {
                match self.phase {
                    Phase::Start => self.start(node),
                    Phase::Read => self.read(node),
                    Phase::Emit(group, more) if group < self.work.groups.count() => {
                        let group = self.leave(group);
                        self.phase = Phase::Emit(group + 1, more);
                        if group < self.work.groups.count() {
                            let group = self.number_of(group);
                            return Some(self.emitter.emit(&self.work, group));
                        }
                    }
                    Phase::Emit(_, true) => {
                        if let Some(posted) = self.team.posted() {
                            self.phase = Phase::Posted(posted, 0);
                            continue;
                        }
                        self.forget_groups();
                        let more = self.next_share(node) || self.source.is_some() || {
                            self.work.groups.keep_to(Share::default());
                            self.next_pass(node)
                        };
                        self.phase = if more { Phase::Read } else { Phase::Last };
                    }
                    Phase::Emit(_, false) => self.phase = Phase::Last,
                    Phase::Posted(posted, row) => {
                        if let Some(columns) = posted.row(row) {
                            self.phase = Phase::Posted(posted, row + 1);
                            let column = |(value, is_null)| (Datum::from(value as usize), is_null);
                            return Some(self.emitter.show(columns.map(column)));
                        }
                        posted.free();
                        self.phase = Phase::Emit(usize::MAX, true);
                    }
                    Phase::Last => {
                        self.phase = match self.team.last_posted() {
                            Some(posted) => Phase::Posted(posted, 0),
                            None => Phase::Done,
                        }
                    }
                    Phase::Sorted => {
                        let sorter = self.sorter.as_mut().expect("BUG: nothing was sorted");
                        if let Some(row) = sorter.next(&self.emitter) {
                            return Some(row);
                        }
                        sorter.end();
                        self.phase = Phase::Done;
                    }
                    Phase::Done => {
                        self.emitter.clear();
                        return None;
                    }
                }
            }
        }
    }
}

impl Aggregation {
    /// Evaluates what is the same for all rows, and opens the source.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    unsafe fn start(&mut self, node: NodeState) {
        // SAFETY: the caller's contract.
        unsafe {
            self.phase = Phase::Emit(0, false);
            self.began = Began::now();
            if !self.work.selection.bind() {
                return self.work.add_only_group();
            }
            self.work.compiled.look_at_clock();
            if let Some(joined) = &mut self.joined {
                joined.read();
            }
            if let (Some(slices), Some(lane)) = (&mut self.slices, self.work.compiled.sliced) {
                let clauses = &self.work.selection.clauses;
                match self.work.compiled.rises() {
                    true => slices.begin(node.table(), node.snapshot(), clauses, lane),
                    false => slices.begin_whole(),
                }
            }
            match self.next_pass(node) {
                true => self.phase = Phase::Read,
                false => self.work.add_only_group(),
            }
        }
    }

    /// Opens the source, for the next values that a join names, the next slice of time or range of keys; false where there are none.
    ///
    /// # Safety
    /// As `start`; the selection must be bound.
    unsafe fn next_pass(&mut self, node: NodeState) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            let met = core::mem::take(&mut self.work.met);
            if let (Some(joined), Some(lane)) = (&mut self.joined, self.work.compiled.joined) {
                let Some(named) = joined.next_pass(met) else {
                    return false;
                };
                self.work.selection.also([Clause::One((named, lane))]);
            }
            if let (Some(slices), Some(lane)) = (&mut self.slices, self.work.compiled.sliced) {
                let Some(slice) = slices.next() else {
                    return false;
                };
                let conditions = between(slice.0, slice.1, lane);
                self.work.selection.also(conditions);
            }
            let mut extent = self.team.extent();
            if self.shares_ranges() {
                let Some((column, range)) = self.team.next_range() else {
                    return false;
                };
                extent = match range {
                    KeyRange::All => Extent::All,
                    _ => {
                        let selection = &mut self.work.selection;
                        let lane = selection.lanes.iter().position(|lane| lane.at == column);
                        let lane = lane.expect("BUG: a key that tells no groups apart");
                        selection.also(range.conditions(lane));
                        Extent::Range
                    }
                };
            }
            let selection = &self.work.selection;
            if let (Extent::All, Some(columns)) = (&extent, self.work.asked_of_headers()) {
                extent = Extent::Total(columns);
            }
            self.source = Some(Source::of_node(
                node, self.slot, selection, extent, self.began,
            ));
            true
        }
    }

    /// Does this process finish groups in ranges of keys, beside others?
    fn shares_ranges(&self) -> bool {
        self.work.compiled.is_whole && self.team.is_shared()
    }

    /// Reads on until the end, or until memory is full.
    ///
    /// # Safety
    /// As `next_pass`, which must have opened the source.
    unsafe fn read(&mut self, node: NodeState) {
        // SAFETY: the caller's contract.
        unsafe {
            let evaluation = self.work.selection.evaluation;
            evaluation.context.see(evaluation.row);
            let limit = memory::hash_limit();
            let mut count = self.work.groups.count();
            loop {
                let source = self.source.as_mut().expect("BUG: nothing to read");
                let work = &mut self.work;
                match source.next_unless(|told, table| work.answer_told(told, table)) {
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

    /// A worker leaves groups to its leader, from this one on, as many as there is room for; the first one that is not left.
    ///
    /// # Safety
    /// As `next_pass`.
    unsafe fn leave(&mut self, first: usize) -> usize {
        let outbox = self.emitter.is_packed().then(|| self.team.outbox());
        let Some(outbox) = outbox.flatten() else {
            return first;
        };
        let (mut first, count) = (first, self.work.groups.count());
        while first < count {
            let Some(mut page) = outbox.take() else {
                return first;
            };
            let mut next = first;
            while next < count && !page.is_full() {
                let group = self.number_of(next);
                // SAFETY: the caller's contract; a virtual slot has all columns of its row.
                unsafe {
                    let row = self.emitter.fill(&self.work, group);
                    let (values, nulls) = row.attributes(outbox.columns());
                    let values = values.iter().map(|value| value.value() as u64);
                    page.add(values.zip(nulls.iter().copied()));
                }
                next += 1;
            }
            if !page.post() {
                return first;
            }
            first = next;
            error::check_interrupts();
        }
        first
    }

    /// Which group goes up as the one of this number.
    fn number_of(&self, number: usize) -> usize {
        let ordered = self.order.get(number);
        ordered.map_or(number, |&group| group as usize)
    }

    /// Forgets all groups, and reads a part of them; the others are read another time. False where they cannot be divided.
    ///
    /// # Safety
    /// As `next_pass`.
    unsafe fn divide(&mut self, node: NodeState) -> bool {
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
    ///
    /// # Safety
    /// As `next_pass`.
    unsafe fn next_share(&mut self, node: NodeState) -> bool {
        let Some(share) = self.shares.pop() else {
            return false;
        };
        // SAFETY: the caller's contract.
        unsafe { self.read_share(node, share) };
        true
    }

    /// Begins to read the groups of a share.
    ///
    /// # Safety
    /// As `next_pass`.
    unsafe fn read_share(&mut self, node: NodeState, share: Share) {
        self.work.groups.keep_to(share);
        if let Some(joined) = &mut self.joined {
            joined.begin_again();
        }
        self.team.read_again();
        // SAFETY: the caller's contract.
        unsafe { self.next_pass(node) };
    }

    /// All groups are there, or those of a slice or share.
    ///
    /// # Safety
    /// As `next_pass`.
    unsafe fn put_in_order(&mut self, node: NodeState) {
        // SAFETY: the caller's contract.
        unsafe { self.work.add_only_group() };
        let more = self.slices.is_some() || !self.shares.is_empty() || self.shares_ranges();
        self.phase = Phase::Emit(0, more);
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

    /// The bytes that groups take, with their states.
    ///
    /// # Safety
    /// The memory context of the states must be live.
    unsafe fn memory(&self) -> usize {
        // SAFETY: the caller's contract.
        let states = unsafe { self.work.states.size() };
        self.work.groups.bytes() + states
    }

    fn stop(&mut self) {
        if let Some(source) = self.source.take() {
            // SAFETY: within a guarded entry point of the node.
            unsafe { source.end() };
        }
    }

    fn forget_groups(&mut self) {
        self.work.groups.clear(memory::hash_limit());
        self.order.clear();
        // SAFETY: nobody needs the states any more; callbacks of them run.
        unsafe { self.states.begin_again() };
    }
}
