//! The executor's side: a custom scan that hands on those rows of its source whose keys are not taken, or may not be.

use super::taken::Taken;
use crate::pg::custom_scan::{self, Above, Beginning, CustomScan, Explain, Methods, NodeState};
use crate::pg::error;
use crate::pg::slot::Slot;
use crate::pg::transaction;
use crate::pg::Oid;
use std::ffi::CStr;

/// Most rows that go unasked after one whose key was free.
const LONGEST_PAUSE: u32 = 63;

pub struct ConflictFilter {
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

pub fn init() {
    custom_scan::register::<ConflictFilter>();
}

impl CustomScan for ConflictFilter {
    const NAME: &'static CStr = c"VarveConflictFilter";
    const METHODS: &'static Methods = &Methods::above::<Self>();

    fn begin(node: NodeState, beginning: Beginning) -> ConflictFilter {
        // Where a transaction has one snapshot, core raises an error for a taken key that it does not show.
        let may_leave_out = !transaction::keeps_its_snapshot();
        let taken = (!beginning.is_explain_only() && may_leave_out).then(|| {
            let oid = |&number: &i32| Oid::from(number as u32);
            let table = node.plan().private_integers(0);
            let indexes = node.plan().private_integers(1);
            let indexes: Vec<_> = indexes.iter().map(oid).collect();
            // SAFETY: the statement has locked the table; the planner has named indexes of it.
            unsafe { Taken::open(oid(&table[0]), &indexes) }
        });
        ConflictFilter {
            taken,
            pauses: Pauses::default(),
            left_out: 0,
        }
    }

    fn end(&mut self, node: NodeState) {
        if let Some(taken) = self.taken.take() {
            taken.close();
        }
        node.end_child();
    }

    fn explain(&mut self, _node: NodeState, explain: Explain) {
        if explain.is_analyze() {
            explain.count(c"Rows Removed by Taken Keys", self.left_out);
        }
    }
}

impl Above for ConflictFilter {
    fn takes(&mut self, row: Slot<'_>) -> bool {
        let leaves_out = self.leaves_out(row);
        if leaves_out {
            error::check_interrupts();
            self.left_out += 1;
        }
        !leaves_out
    }
}

impl ConflictFilter {
    fn leaves_out(&mut self, row: Slot<'_>) -> bool {
        let Some(taken) = &self.taken else {
            return false;
        };
        if !self.pauses.pass() {
            return false;
        }
        // SAFETY: the source of an INSERT has rows of its table's columns.
        let is_taken = unsafe { taken.has_key_of(row) };
        self.pauses.after(is_taken);
        is_taken
    }
}
