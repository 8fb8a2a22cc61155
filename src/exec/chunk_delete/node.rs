//! What the executor calls.

use super::chunks::{Counters, Deletion};
use crate::exec::aggregate::conditions::Condition;
use crate::exec::aggregate::evaluate::Evaluation;
use crate::pg::custom_scan::{self, Above, Beginning, CustomScan, Explain, Methods, NodeState};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::rollup::removal;
use crate::table::{changes, stream};
use std::ffi::CStr;

/// The plan's private data: the place of the table in the range table, and the conditions.
const TABLE: usize = 0;
const CONDITIONS: usize = 1;

pub struct ChunkDelete {
    /// None once it has deleted, or where it must not.
    conditions: Option<Vec<Condition<'static>>>,
    counters: Counters,
    /// The statement's snapshot, once its scan reads by a copy; none before.
    replaced: Snapshot<'static>,
}

pub fn init() {
    custom_scan::register::<ChunkDelete>();
}

impl CustomScan for ChunkDelete {
    const NAME: &'static CStr = c"VarveChunkDelete";
    const METHODS: &'static Methods = &Methods::above::<Self>();

    fn begin(node: NodeState, beginning: Beginning) -> ChunkDelete {
        // Neither to show the plan, nor to look at one row again, nor for a check of a foreign key with a snapshot of its own.
        let deletes = !beginning.is_explain_only() && !node.is_checking();
        let conditions = deletes.then(|| {
            let clauses = node.plan().private_expressions(CONDITIONS).iter();
            let conditions = clauses.map(|clause| {
                // SAFETY: the planner has left conditions of the statement, and the node begins.
                unsafe {
                    let condition = Condition::of(clause);
                    let mut condition = condition.expect("BUG: a condition of another kind");
                    condition.begin(|argument| argument.prepare(node.as_parent()));
                    condition
                }
            });
            conditions.collect()
        });
        ChunkDelete {
            conditions,
            counters: Counters::default(),
            replaced: Snapshot::NONE,
        }
    }

    fn end(&mut self, node: NodeState) {
        node.end_child();
        self.leave_copy(node);
    }

    fn explain(&mut self, _node: NodeState, explain: Explain) {
        if explain.is_analyze() {
            explain.count(c"Chunks", self.counters.chunks);
            explain.count(c"Rows Deleted Together", self.counters.rows);
        }
    }
}

impl ChunkDelete {
    /// Ends what the copy of the snapshot is for, once the scan reads no more by it.
    fn leave_copy(&mut self, node: NodeState) {
        changes::pass_by_nothing();
        let before = core::mem::replace(&mut self.replaced, Snapshot::NONE);
        if !before.is_none() {
            // SAFETY: the scan that read by the copy has ended, or has no more rows.
            unsafe { node.restore_snapshot(before) };
        }
    }
}

impl Above for ChunkDelete {
    /// Deletes what it can.
    fn start(&mut self, node: NodeState) {
        let Some(conditions) = self.conditions.take() else {
            return;
        };
        let number = node.plan().private_integers(TABLE)[0] as usize;
        let table = node.range_table_relation(number);
        // The statement has its lock.
        let open = Open::table(table, LockMode::Held);
        let command = node.command();
        if !removal::dependents(table).is_empty() || stream::is_streamed(open.rel(), command) {
            return;
        }
        // The conditions' arguments see no row.
        let evaluation = Evaluation {
            context: node.context(),
            row: node.scan_slot(),
        };
        let bound = conditions.iter().map(|condition| {
            // SAFETY: the condition has begun, with this node.
            let bounded = unsafe { condition.bind(&evaluation) };
            (bounded, condition.at)
        });
        let bound = bound.collect();
        // Functions in the conditions read by the active snapshot, and have to go on seeing what the scan passes by.
        self.replaced = node.copy_snapshot();
        let mut deletion = Deletion::new(open.rel(), node.snapshot(), command, bound);
        // SAFETY: the node has handed on no row; nobody needs what was evaluated.
        unsafe {
            self.counters = deletion.run(evaluation.context.memory());
            evaluation.forget();
        }
        node.add_processed(self.counters.rows);
    }

    fn takes(&mut self, _row: Slot<'_>) -> bool {
        true
    }

    /// A copy that is still registered when the statement ends would look like a cursor's snapshot, and what was deleted be written as for one.
    fn run_out(&mut self, node: NodeState) {
        self.leave_copy(node);
    }
}
