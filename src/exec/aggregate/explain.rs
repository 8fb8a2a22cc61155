//! What EXPLAIN says of the node.

use super::chunk::Work;
use super::compile::Parts;
use super::selection::Counters;
use crate::pg::node::list;
use crate::pg::relation::{self, Table};
use crate::pg::snapshot::Snapshot;
use crate::scan::headers;
use pgrx::pg_sys;
use std::ffi::CStr;

/// Shows conditions, and with ANALYZE what was read.
///
/// # Safety
/// Called by EXPLAIN for a node of ours.
pub unsafe fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
    work: &Work,
) {
    // SAFETY: by contract; texts are palloc'd.
    unsafe {
        let plan = (*node).ss.ps.plan;
        let parts = Parts::of(plan.cast());
        if let Some(join) = parts.join {
            let table = Table::from_ptr((*node).ss.ss_currentRelation);
            let column = &table.attributes()[join.at];
            let name = relation::attribute_name(column);
            let name = pg_sys::pnstrdup(name.as_ptr().cast(), name.len());
            pg_sys::ExplainPropertyText(c"Rows Named by".as_ptr(), name, state);
        }
        if let Some(slices) = parts.slices {
            let order = match slices.descending {
                true => c"newest first",
                false => c"oldest first",
            };
            pg_sys::ExplainPropertyText(c"Slices of Time".as_ptr(), order.as_ptr(), state);
        }
        filter(node, ancestors, state, &parts.conditions);
        if (*state).analyze {
            let counters = &work.selection.counters;
            if (*state).verbose && parts.join.is_none() {
                all_chunks(node, state, counters);
            }
            let count = |label, value| count(state, label, value);
            count(c"Chunks", counters.chunks);
            count(c"Chunks Skipped", counters.skipped);
            count(c"Chunks Answered by Summaries", counters.known);
            count(c"Chunks Decoded", counters.decoded);
            count(c"Blocks Decoded", counters.blocks);
            count(c"Tail Rows", counters.tail_rows);
        }
    }
}

/// Shows conditions of a node.
///
/// # Safety
/// As `explain`; the conditions are the plan's.
pub unsafe fn filter(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
    conditions: &[*mut pg_sys::Node],
) {
    // SAFETY: by contract; texts are palloc'd.
    unsafe {
        let all = match conditions {
            [] => return,
            [only] => *only,
            _ => pg_sys::make_ands_explicit(list(conditions.iter().copied())).cast(),
        };
        let plan = (*node).ss.ps.plan;
        let context = pg_sys::set_deparse_context_plan((*state).deparse_cxt, plan, ancestors);
        let prefix = (*(*state).rtable).length > 1 || (*state).verbose;
        let text = pg_sys::deparse_expression(all, context, prefix, false);
        pg_sys::ExplainPropertyText(c"Filter".as_ptr(), text, state);
    }
}

/// Shows how many chunks there are, and how many of them the node did not come upon.
///
/// # Safety
/// As `explain`.
pub unsafe fn all_chunks(
    node: *mut pg_sys::CustomScanState,
    state: *mut pg_sys::ExplainState,
    counters: &Counters,
) {
    // SAFETY: by contract.
    unsafe {
        let (table, mut all) = ((*node).ss.ss_currentRelation, 0);
        let snapshot = (*(*node).ss.ps.state).es_snapshot;
        headers::each_header(
            Table::from_ptr(table),
            Snapshot::from_ptr(snapshot),
            |_, _| all += 1,
        );
        count(state, c"Chunks in All", all);
        let skipped = all.saturating_sub(counters.chunks);
        count(state, c"Chunks Skipped by Index", skipped);
    }
}

/// Shows a number.
///
/// # Safety
/// As `explain`.
pub unsafe fn count(state: *mut pg_sys::ExplainState, label: &CStr, value: u64) {
    // SAFETY: by contract.
    unsafe {
        pg_sys::ExplainPropertyUInteger(label.as_ptr(), core::ptr::null(), value, state);
    }
}
