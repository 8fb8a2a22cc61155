//! Executor and transaction hooks: they tell batches and collected changes when statements and subtransactions begin and end,
//! and write both before a transaction commits. What is forgotten at its end forgets itself (`pg::transaction`).

use crate::compact::torture;
use crate::ingest::batch;
use crate::pg::executor_hooks::{self, AroundExecution, PlanBefore, Query};
use crate::pg::news;
use crate::pg::transaction_events::{self, AtTransactions};
use crate::pg::wake;
use crate::pg::SubTransactionId;
use crate::rollup::{truncate, watch};
use crate::table::{changes, deferred, flush, lock_count};
use crate::unique::unsettled;

struct Hooks;

pub fn init() {
    executor_hooks::install::<Hooks>();
    transaction_events::install::<Hooks>();
}

/// What has to be put back when a run has succeeded. What an error leaves behind, the nesting depth, is cut back when its (sub)transaction
/// ends.
#[derive(Clone, Copy)]
struct Run {
    depth: usize,
    approved: bool,
    plan: PlanBefore,
}

impl AroundExecution for Hooks {
    type Run = Run;
    /// The nesting depth.
    type Finish = usize;

    fn before_run(query: Query) -> Run {
        let approved = super::batch_eligibility::eligible_command(query);
        let depth = batch::depth();
        if depth == 0 {
            wake::at_statement();
        }
        batch::enter_statement(approved);
        let plan = query.plan();
        // Parallel workers would not know of changes and rows that only this process knows.
        if query.is_parallel() && (changes::any_unwritten() || batch::any_waits()) {
            query.make_serial();
        }
        Run {
            depth,
            approved: approved.is_some(),
            plan,
        }
    }

    fn after_run(query: Query, run: Run) {
        // SAFETY: the query had it before.
        unsafe { query.restore_plan(run.plan) };
        if run.approved {
            batch::flush_all();
        }
        if run.depth == 0 {
            flush::after_statement(false);
        }
        batch::truncate_depth(run.depth);
    }

    /// What triggers do is part of their statement, cascades of foreign keys above all.
    fn before_finish() -> usize {
        let depth = batch::depth();
        batch::enter_statement(None);
        depth
    }

    fn after_finish(depth: usize) {
        batch::truncate_depth(depth);
        if depth == 0 {
            flush::after_statement(true);
        }
    }
}

impl AtTransactions for Hooks {
    fn before_commit(prepares: bool) {
        batch::flush_all();
        flush::finally(prepares);
        torture::seal();
        deferred::release();
        unsettled::rebuild();
        truncate::empty_left();
        watch::publish(prepares);
        news::tell_due();
    }

    fn end(has_committed: bool) {
        wake::end_transaction(has_committed);
    }

    fn begin_part(part: SubTransactionId) {
        batch::begin_subtransaction(part);
    }

    fn end_part(part: SubTransactionId, parent: SubTransactionId, has_committed: bool) {
        batch::end_subtransaction(part, parent, has_committed);
        changes::end_subtransaction(part, parent, has_committed);
        lock_count::end_subtransaction(part, parent, has_committed);
    }
}
