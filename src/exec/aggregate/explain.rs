//! What EXPLAIN says of the node.

use super::chunk::Work;
use super::compile::Parts;
use super::selection::Counters;
use crate::pg::custom_scan::{Explain, NodeState};
use crate::pg::relation;
use crate::scan::headers;
use std::ffi::CString;

/// Shows conditions, and with ANALYZE what was read. Within a guarded entry point.
pub fn explain(node: NodeState, shown: Explain, work: &Work) {
    let parts = Parts::of(node.plan());
    if let Some(join) = parts.join {
        let column = &node.table().attributes()[join.at];
        let name = CString::new(relation::attribute_name(column)).unwrap_or_default();
        shown.text(c"Rows Named by", &name);
    }
    if let Some(slices) = parts.slices {
        let order = match slices.descending {
            true => c"newest first",
            false => c"oldest first",
        };
        shown.text(c"Slices of Time", order);
    }
    // SAFETY: they are the plan's.
    unsafe { shown.conditions(c"Filter", parts.conditions) };
    if shown.is_analyze() {
        let counters = &work.selection.counters;
        if shown.is_verbose() && parts.join.is_none() {
            all_chunks(node, shown, counters);
        }
        shown.count(c"Chunks", counters.chunks);
        shown.count(c"Chunks Skipped", counters.skipped);
        shown.count(c"Chunks Answered by Summaries", counters.known);
        shown.count(c"Chunks Decoded", counters.decoded);
        shown.count(c"Blocks Decoded", counters.blocks);
        shown.count(c"Tail Rows", counters.tail_rows);
    }
}

/// Shows how many chunks there are, and how many of them the node did not come upon. Within a guarded entry point.
pub fn all_chunks(node: NodeState, shown: Explain, counters: &Counters) {
    let mut all = 0;
    headers::each_header(node.table(), node.snapshot(), |_, _| all += 1);
    shown.count(c"Chunks in All", all);
    let skipped = all.saturating_sub(counters.chunks);
    shown.count(c"Chunks Skipped by Index", skipped);
}
