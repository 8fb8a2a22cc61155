//! What the executor calls. Rows come in no order: chunk by chunk, and then those of the tail, or as they lie in the file.

use super::output::Output;
use super::rows::Rows;
use crate::chunk::chunk_cache::Began;
use crate::exec::aggregate::evaluate::Evaluation;
use crate::exec::aggregate::explain::all_chunks;
use crate::exec::aggregate::selection::{Lanes, Selection};
use crate::exec::aggregate::source::{Input, Source};
use crate::exec::aggregate::team::{Member, Team};
use crate::pg::custom_scan::{
    self, Advance, Beginning, CustomScan, Explain, Methods, NodeState, Passing, Projection,
};
use crate::pg::error;
use crate::pg::expression_context::Prepared;
use crate::pg::row_slot::RowSlot;
use std::ffi::CStr;

pub struct Scan {
    rows: Rows,
    output: Output,
    /// A row of the tail.
    slot: RowSlot,
    source: Option<Source>,
    phase: Phase,
    /// The row that is looked at, and what core asks of it; none: nothing.
    row: Option<Row>,
    condition: Prepared,
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

pub fn init() {
    custom_scan::register::<Scan>();
}

impl CustomScan for Scan {
    const NAME: &'static CStr = c"VarveScan";
    const METHODS: &'static Methods = &Methods::passing::<Self>().parallel::<Self>();

    fn begin(node: NodeState, _beginning: Beginning) -> Scan {
        let mut lanes = Lanes::of_node(node);
        // Conditions see the row of the table.
        let row = node.scan_slot();
        // SAFETY: the node begins; its own row is virtual, and has no row yet.
        unsafe {
            let output = Output::new(node, &mut lanes);
            row.show_nulls();
            row.clear_virtual();
            let evaluation = Evaluation {
                context: node.context(),
                row,
            };
            let conditions = node.plan().expressions();
            let selection = Selection::new(node, conditions.iter(), lanes, evaluation);
            Scan {
                rows: Rows::new(selection, output.lanes()),
                output,
                slot: node.table_slot(),
                source: None,
                phase: Phase::Start,
                row: None,
                condition: Prepared::NONE,
                team: Team::alone(),
            }
        }
    }

    fn rescan(&mut self, _node: NodeState) {
        self.output.clear();
        self.stop();
        self.phase = Phase::Start;
    }

    fn end(&mut self, _node: NodeState) {
        self.stop();
    }

    fn explain(&mut self, node: NodeState, explain: Explain) {
        if let Some(reason) = node.plan().private_text().filter(|_| explain.is_verbose()) {
            explain.text(c"Groups Left to Core", reason);
        }
        // SAFETY: they are the plan's.
        unsafe { explain.conditions(c"Filter", node.plan().expressions().iter()) };
        if explain.is_analyze() {
            let counters = &self.rows.selection.counters;
            if explain.is_verbose() {
                all_chunks(node, explain, counters);
            }
            explain.count(c"Chunks", counters.chunks);
            explain.count(c"Chunks Skipped", counters.skipped);
            explain.count(c"Chunks Decoded", counters.decoded);
            explain.count(c"Blocks Decoded", counters.blocks);
            explain.count(c"Tail Rows", counters.tail_rows);
        }
    }
}

impl Member for Scan {
    fn team(&mut self) -> (&mut Team, &mut Selection) {
        (&mut self.team, &mut self.rows.selection)
    }
}

impl Passing for Scan {
    #[inline]
    fn advance(&mut self, node: NodeState) -> Advance {
        // SAFETY: nobody needs what was made of the row before.
        unsafe {
            node.context().see(node.scan_slot());
            node.context().forget();
        }
        loop {
            // SAFETY: within a guarded entry point of the node.
            self.row = unsafe { self.next() };
            if self.row.is_some() {
                return Advance::Row(self.condition);
            }
            match self.phase {
                // SAFETY: as above.
                Phase::Start => unsafe { self.start(node) },
                Phase::Read => {}
                Phase::Done => {
                    self.output.clear();
                    return Advance::End;
                }
            }
        }
    }

    #[inline]
    fn show(&mut self, _node: NodeState) -> (RowSlot, Option<Projection>) {
        let rows = &mut self.rows;
        // SAFETY: within a guarded entry point of the node; the slot shows a row of the table where the row is one of the tail.
        let tid = unsafe {
            match self.row {
                Some(Row::Compressed(row)) => {
                    rows.decode_outputs();
                    self.output
                        .compressed(&rows.selection.lanes, &rows.window, row);
                    rows.tid(row)
                }
                _ => {
                    let (values, nulls) = self.slot.attributes(rows.selection.attributes);
                    self.output.ordinary(values, nulls);
                    Some(self.slot.tid())
                }
            }
        };
        let row = self.output.at(tid.expect("BUG: a row of no chunk"));
        (row, self.output.projection)
    }
}

impl Scan {
    /// Evaluates what is the same for all rows, and opens the source.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    unsafe fn start(&mut self, node: NodeState) {
        // SAFETY: the caller's contract.
        unsafe {
            let selection = &mut self.rows.selection;
            let extent = self.team.extent();
            self.phase = match selection.bind() {
                true => {
                    let began = Began::now();
                    self.source = Some(Source::of_node(node, self.slot, selection, extent, began));
                    Phase::Read
                }
                false => Phase::Done,
            };
        }
    }

    /// The next row of the chunk that is open, or the next row of the tail. None where there is none, or another chunk was opened.
    ///
    /// # Safety
    /// As `start`.
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
                    let (values, nulls) = self.slot.attributes(selection.attributes);
                    for (at, (&value, &isnull)) in values.iter().zip(nulls).enumerate() {
                        selection.evaluation.set(at, (value, isnull));
                    }
                    self.condition = self.rows.rest.ordinary;
                    Some(Row::Ordinary)
                }
            }
        }
    }

    fn stop(&mut self) {
        self.row = None;
        self.rows.leave();
        if let Some(source) = self.source.take() {
            // SAFETY: within a guarded entry point of the node.
            unsafe { source.end() };
        }
    }
}
