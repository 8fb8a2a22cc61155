//! Where the node reads: chunks and rows of the tail, by a sequential scan of the table, or at places that a series index names.

use super::conditions::Bounded;
use super::parallel::{Found, Shared};
use super::places;
use super::selection::Selection;
use crate::am::scan::{Pages, Part};
use crate::chunk::chunk_cache::{self, Began, Passed, Passing};
use crate::chunk::reader::Reader;
use crate::chunk::told::Told;
use crate::pg::custom_scan::NodeState;
use crate::pg::memory::{self, Context};
use crate::pg::relation::Table;
use crate::pg::row_slot::RowSlot;
use crate::pg::snapshot::Snapshot;
use crate::pg::table_fetch::RowFetch;
use crate::pg::tid::Tid;
use crate::table::changes;
use crate::table::visible::OpenChunk;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// A running scan.
pub struct Source {
    way: Way,
    met: Met,
    table: Table<'static>,
    snapshot: Snapshot<'static>,
    slot: RowSlot,
    /// Pages of the table, asked for behind the places: what these name is on one of them.
    blocks: u32,
    passing: Passing,
    /// Where headers are asked before their chunks are opened.
    told: Option<Told>,
    /// Of the chunk that was come upon last, at a place.
    last: Option<Rc<Reader>>,
    /// What the scan or fetch has, which a node that begins again many times must not gather.
    memory: Context,
}

/// What was found at its places so far.
#[derive(Default)]
struct Met {
    chunks: usize,
    rows_of_chunks: u64,
    rows_of_tail: u64,
}

impl Met {
    fn add_chunk(&mut self, rows: u32) {
        self.chunks += 1;
        self.rows_of_chunks += u64::from(rows);
    }
}

enum Way {
    Pages(Pages),
    Places {
        places: Places,
        fetch: RowFetch<'static>,
    },
}

impl Way {
    /// Headers in the order in which they lie: those of a page come together, and pages as the processor expects them.
    fn sort_by_place(&mut self) {
        if let Way::Places {
            places: Places::Own { headers, .. },
            ..
        } = self
        {
            headers.as_mut_slice().sort_unstable();
        }
    }
}

enum Places {
    Own {
        headers: std::vec::IntoIter<Tid>,
        rows: std::vec::IntoIter<Tid>,
    },
    /// Other processes take some of them.
    Shared(*mut Shared),
}

impl Places {
    /// # Safety
    /// As `Shared::next_header`, where places are shared.
    unsafe fn next_header(&mut self) -> Option<Tid> {
        match self {
            Places::Own { headers, .. } => headers.next(),
            // SAFETY: the callers' contract.
            Places::Shared(shared) => unsafe { Shared::next_header(*shared) },
        }
    }

    /// The header that comes next, if nobody else may take it.
    fn upcoming(&self) -> Option<Tid> {
        match self {
            Places::Own { headers, .. } => headers.as_slice().first().copied(),
            Places::Shared(_) => None,
        }
    }

    /// # Safety
    /// As `Shared::next_row`, where places are shared.
    unsafe fn next_row(&mut self) -> Option<Tid> {
        match self {
            Places::Own { rows, .. } => rows.next(),
            // SAFETY: the callers' contract.
            Places::Shared(shared) => unsafe { Shared::next_row(*shared) },
        }
    }
}

/// What a source reads.
pub enum Extent {
    /// All that conditions leave.
    All,
    /// The same, where they leave few of the first keys, and other processes read others.
    Range,
    /// All there is, in any order: headers tell what is asked, where they know it, of so many of the first columns.
    Total(usize),
    /// What other processes have not taken.
    Shared(*mut Shared),
}

/// What the source comes upon.
pub enum Input {
    /// A row of the tail, which the slot shows.
    Row,
    Chunk(OpenChunk),
}

impl Source {
    /// The source of a node whose conditions are bound, and which began then.
    ///
    /// # Safety
    /// `slot` must be one for rows of the node's table, and what is shared initialized by the leader. Inside a guarded entry point.
    pub unsafe fn of_node(
        node: NodeState,
        slot: RowSlot,
        selection: &Selection,
        extent: Extent,
        began: Began,
    ) -> Source {
        let (table, snapshot) = (node.table(), node.snapshot());
        let context = selection.evaluation.context;
        // SAFETY: by contract; nobody needs what conditions were made of.
        unsafe {
            let memory = memory::small(node.query_memory(), c"varve source");
            let is_range = matches!(extent, Extent::Range);
            let told = match extent {
                Extent::Total(columns) => Some(Told::of_first(columns)),
                _ => None,
            };
            let by_headers = told.is_some();
            let is_shared = is_range || matches!(extent, Extent::Shared(_));
            let mut way = memory::within(memory, || match extent {
                Extent::All | Extent::Total(_) | Extent::Range => {
                    let conditions = selection.on_columns();
                    let scratch = context.memory();
                    Source::begin(table, snapshot, &conditions, is_range, scratch)
                }
                Extent::Shared(shared) => Source::shared(table, shared, snapshot),
            });
            if by_headers {
                way.sort_by_place();
            }
            context.forget();
            Source {
                way,
                met: Met::default(),
                table,
                snapshot,
                slot,
                blocks: table.blocks(),
                passing: Passing {
                    began,
                    by_headers,
                    is_shared,
                    next: None,
                },
                told,
                last: None,
                memory,
            }
        }
    }

    /// Where the processes of a parallel query have to look. The leader asks before it starts them.
    ///
    /// # Safety
    /// The selection must be the node's; inside a guarded entry point.
    pub unsafe fn places_of(node: NodeState, selection: &mut Selection) -> Found {
        let (table, snapshot) = (node.table(), node.snapshot());
        let context = selection.evaluation.context;
        // SAFETY: by contract; nobody needs what conditions were made of.
        unsafe {
            let found = match selection.bind() {
                true => {
                    let conditions = selection.on_columns();
                    let scratch = context.memory();
                    let found = Source::find(table, snapshot, &conditions, false, scratch);
                    found.map_or(Found::Pages, Found::Places)
                }
                // No process looks anywhere.
                false => Found::Pages,
            };
            context.forget();
            found
        }
    }

    /// # Safety
    /// `table` must be open, `snapshot` registered. What is made of conditions lives in `scratch`. Inside a guarded entry point.
    unsafe fn begin(
        table: Table<'static>,
        snapshot: Snapshot<'_>,
        conditions: &[(&Bounded, usize)],
        is_range: bool,
        scratch: Context,
    ) -> Way {
        // SAFETY: by contract.
        unsafe {
            match Source::find(table, snapshot, conditions, is_range, scratch) {
                Some(found) => Way::Places {
                    places: Places::Own {
                        headers: found.headers.into_iter(),
                        rows: found.rows.into_iter(),
                    },
                    fetch: RowFetch::begin(table),
                },
                None => Way::Pages(Pages::begin(table, snapshot, None)),
            }
        }
    }

    /// Where a source has to look; None: on all pages.
    ///
    /// # Safety
    /// As `begin`.
    unsafe fn find(
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        conditions: &[(&Bounded, usize)],
        is_range: bool,
        scratch: Context,
    ) -> Option<places::Places> {
        let find = || {
            // SAFETY: by contract.
            unsafe { places::find(table, snapshot, conditions, is_range) }
        };
        // SAFETY: by contract.
        unsafe { memory::within(scratch, find) }
    }

    /// The way to places that it shares with other processes.
    ///
    /// # Safety
    /// As `begin`; the leader has initialized what is shared.
    unsafe fn shared(table: Table<'static>, shared: *mut Shared, snapshot: Snapshot<'_>) -> Way {
        // SAFETY: by contract.
        unsafe {
            match Shared::pages(shared) {
                Some(pages) => Way::Pages(Pages::begin(table, snapshot, Some(pages))),
                None => Way::Places {
                    places: Places::Shared(shared),
                    fetch: RowFetch::begin(table),
                },
            }
        }
    }

    /// The share of the rows at its own places that it has looked at, if those that are left have as many as those that were met.
    pub fn progress(&self) -> Option<f64> {
        let Way::Places {
            places: Places::Own { headers, rows },
            ..
        } = &self.way
        else {
            return None;
        };
        let of_chunks = self.met.rows_of_chunks as f64;
        let of_each = of_chunks / self.met.chunks.max(1) as f64;
        let met = of_chunks + self.met.rows_of_tail as f64;
        let left = headers.len() as f64 * of_each + rows.len() as f64;
        Some(met / (met + left).max(1.0))
    }

    /// The next row of the tail or chunk that the snapshot sees.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn next(&mut self) -> Option<Input> {
        // SAFETY: by contract.
        unsafe { self.next_unless(|_, _| false) }
    }

    /// The same, but a chunk is opened only where `answer` says, of what its header tells of all rows, that this is not enough.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn next_unless(
        &mut self,
        mut answer: impl FnMut(&Told, Table<'_>) -> bool,
    ) -> Option<Input> {
        // SAFETY: by contract.
        unsafe {
            self.leave();
            let (places, fetch) = match &mut self.way {
                Way::Pages(scan) => {
                    return Some(match scan.next(self.slot)? {
                        Part::Row => Input::Row,
                        Part::Chunk(open) => Input::Chunk(open),
                    });
                }
                Way::Places { places, fetch } => (places, fetch),
            };
            while let Some(at) = places.next_header() {
                crate::pg::error::check_interrupts();
                let (table, snapshot) = (self.table, self.snapshot);
                let passing = Passing {
                    next: places.upcoming(),
                    ..self.passing
                };
                let tell = |body: &[u8]| {
                    let told = self.told.as_mut()?;
                    let is_enough = changes::are_none() && told.read(body) && answer(told, table);
                    is_enough.then(|| told.rows())
                };
                let passed =
                    chunk_cache::reader_in_passing(table, self.blocks, at, snapshot, passing, tell);
                match passed {
                    Some(Passed::Told(rows)) => {
                        self.met.add_chunk(rows);
                    }
                    Some(Passed::Opened(reader)) if !reader.chunk.header.has(FLAG_TOMBSTONE) => {
                        self.met.add_chunk(reader.chunk.header.rows);
                        self.last = Some(Rc::clone(&reader));
                        return Some(Input::Chunk(OpenChunk::new(reader, self.snapshot)));
                    }
                    _ => {}
                }
            }
            while let Some(at) = places.next_row() {
                crate::pg::error::check_interrupts();
                if fetch.row(at, self.snapshot, self.slot) {
                    self.met.rows_of_tail += 1;
                    return Some(Input::Row);
                }
            }
            None
        }
    }

    /// The chunk that was come upon last is done with.
    ///
    /// # Safety
    /// The table must be open; inside a guarded entry point.
    unsafe fn leave(&mut self) {
        if let Some(last) = self.last.take() {
            // SAFETY: the caller's contract.
            unsafe { chunk_cache::leave(self.table, &last, self.passing.began) };
        }
    }

    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn end(mut self) {
        // SAFETY: by contract.
        unsafe {
            self.leave();
            self.slot.clear();
            match self.way {
                Way::Pages(scan) => scan.end(),
                Way::Places { fetch, .. } => fetch.end(),
            }
            self.memory.delete();
        }
    }
}
