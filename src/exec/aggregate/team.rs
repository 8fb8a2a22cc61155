//! What the executor calls of a node whose table's chunks several processes share. The leader finds the places before it starts workers; in the end
//! workers tell what they have done, and the leader takes that before the memory goes.

use super::key_range::KeyRange;
use super::key_ranges::{self, KeyRanges};
use super::outbox::{Outbox, Posted, Shape};
use super::parallel::{Found, Shared};
use super::selection::Selection;
use super::source::{Extent, Source};
use crate::pg::custom_scan::{is_worker, CustomScan, NodeState, Parallel};
use core::ffi::c_void;
use std::time::Instant;

/// A node's part in a parallel query.
pub struct Team {
    /// What its processes share; null where there is one only.
    shared: *mut Shared,
    /// What the leader has found before it had the memory to share it.
    found: Option<Found>,
    /// Of keys, where processes share ranges of them, with the column.
    range: Option<(usize, KeyRange)>,
    /// The range is read again.
    again: bool,
    /// When it was taken.
    since: Option<Instant>,
}

impl Team {
    /// One process.
    pub fn alone() -> Team {
        Team {
            shared: core::ptr::null_mut(),
            found: None,
            range: None,
            again: false,
            since: None,
        }
    }

    /// What this process reads, where each may read anything.
    pub fn extent(&self) -> Extent {
        match self.is_shared() {
            true => Extent::Shared(self.shared),
            false => Extent::All,
        }
    }

    /// Are there other processes?
    pub fn is_shared(&self) -> bool {
        !self.shared.is_null()
    }

    /// The range of keys that is read next, and their column, from 0; None where other processes have the rest, or it is left to the leader.
    ///
    /// # Safety
    /// The team must share ranges, and its memory be there. Inside a guarded entry point.
    pub unsafe fn next_range(&mut self) -> Option<(usize, KeyRange)> {
        if !core::mem::take(&mut self.again) {
            let before = self.since.replace(Instant::now());
            // SAFETY: by contract.
            unsafe {
                if !is_worker() {
                    Shared::leader_takes(self.shared);
                }
                let is_left = |before: Instant| {
                    is_worker() && Shared::is_left_to_leader(self.shared, before.elapsed())
                };
                self.range = match before.is_some_and(is_left) {
                    true => None,
                    false => Shared::next_range(self.shared),
                };
            }
        }
        self.range
    }

    /// Where this worker leaves rows to its leader, who has begun to put up its own, and so goes on until there are none.
    pub fn outbox(&self) -> Option<Outbox> {
        // SAFETY: the leader has filled the memory.
        unsafe {
            let does_leader_take = || Shared::does_leader_take(self.shared);
            let is_left = self.is_shared() && is_worker() && does_leader_take();
            is_left.then(|| Shared::outbox(self.shared)).flatten()
        }
    }

    /// Rows that a worker has left to this leader.
    pub fn posted(&self) -> Option<Posted> {
        self.outbox_of_leader()?.posted()
    }

    /// The same, where the leader has no rows of its own any more. When this returns None, no worker leaves rows after it.
    pub fn last_posted(&self) -> Option<Posted> {
        self.outbox_of_leader()?.close()
    }

    fn outbox_of_leader(&self) -> Option<Outbox> {
        let is_leader = self.is_shared() && !is_worker();
        // SAFETY: it has filled the memory.
        is_leader
            .then(|| unsafe { Shared::outbox(self.shared) })
            .flatten()
    }

    /// The range that was taken last is the next one again, if there is one.
    pub fn read_again(&mut self) {
        self.again = self.range.is_some();
    }

    /// No range was taken.
    pub fn rescan(&mut self) {
        (self.range, self.again, self.since) = (None, false, None);
    }
}

/// A node that can work in a team.
pub trait Member: CustomScan {
    fn team(&mut self) -> (&mut Team, &mut Selection);

    /// How many columns its rows have, where others may put them up: all are passed by value, and go up in any order.
    fn columns_of_rows(&self) -> Option<usize> {
        None
    }

    /// The columns, from 0, by ranges of one of which processes must share what they read, and how many ranges; None where each may read anything.
    fn shared_by(&self) -> Option<(Vec<usize>, u64)> {
        None
    }
}

/// As large a block, once freed, has glibc's heap keep twice as many free bytes at its end.
const LARGE_BYTES: usize = 8 << 20;

/// Has a worker's heap keep its pages from one chunk to the next. By default glibc gives pages back that the next chunk gets again, each by a fault; who
/// frees a large block is taken for one who will want as much again. Other heaps are not changed by it.
fn keep_pages() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
}

impl<M: Member> Parallel for M {
    fn estimate(&mut self, node: NodeState, workers: usize) -> usize {
        let by = self.shared_by();
        let outbox = self.columns_of_rows();
        let outbox = outbox.map_or(Shape::default(), |columns| Shape::new(columns, workers));
        let (team, selection) = self.team();
        let (table, snapshot) = (node.table(), node.snapshot());
        // SAFETY: the node has begun; within a guarded entry point.
        let found = unsafe {
            match by {
                Some((columns, ranges)) => {
                    let found = match selection.bind() {
                        true => {
                            let conditions = selection.on_columns();
                            key_ranges::find(table, snapshot, &columns, &conditions, ranges)
                        }
                        // No process looks anywhere.
                        false => KeyRanges::default(),
                    };
                    selection.evaluation.context.forget();
                    Found::Ranges(found, outbox)
                }
                None => Source::places_of(node, selection),
            }
        };
        let bytes = found.bytes(table, snapshot);
        team.found = Some(found);
        bytes
    }

    /// # Safety
    /// As `Parallel::initialize`.
    unsafe fn initialize(&mut self, node: NodeState, at: *mut c_void) {
        let (team, _) = self.team();
        let found = team.found.take().expect("BUG: nothing was estimated");
        // SAFETY: by contract; the snapshot is the statement's.
        unsafe { Shared::initialize(at.cast(), &found, node.table(), node.snapshot()) };
        team.shared = at.cast();
    }

    /// # Safety
    /// As `Parallel::reinitialize`.
    unsafe fn reinitialize(&mut self, node: NodeState, at: *mut c_void) {
        // SAFETY: by contract.
        unsafe { Shared::reinitialize(at.cast(), node.table()) };
    }

    /// # Safety
    /// As `Parallel::join`.
    unsafe fn join(&mut self, _node: NodeState, at: *mut c_void) {
        self.team().0.shared = at.cast();
        keep_pages();
    }

    fn shut_down(&mut self, _node: NodeState) {
        let (team, selection) = self.team();
        if team.shared.is_null() {
            return;
        }
        // SAFETY: the leader has filled it, and it is there until this returns.
        unsafe {
            if is_worker() {
                Shared::tell(team.shared, core::mem::take(&mut selection.counters));
            } else {
                // So workers that fill pages come upon it that nobody wants rows.
                if let Some(outbox) = team.outbox_of_leader() {
                    outbox.close_all();
                }
                selection.counters.add(Shared::told(team.shared));
                team.shared = core::ptr::null_mut();
            }
        }
    }
}
