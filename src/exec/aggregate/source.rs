//! Where the node reads: chunks and rows of the tail, by a sequential scan of the table, or at places that a series index names.

use super::conditions::Bounded;
use super::evaluate::guarded;
use super::parallel::{Found, Shared};
use super::places;
use super::selection::Selection;
use crate::am::scan::{self, Part};
use crate::chunk::chunk_cache::{self, Began};
use crate::chunk::reader::Reader;
use crate::pg::memory;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// A running scan.
pub struct Source {
    way: Way,
    met: Met,
    table: Table<'static>,
    snapshot: Snapshot<'static>,
    slot: *mut pg_sys::TupleTableSlot,
    /// Pages of the table, asked for behind the places: what these name is on one of them.
    blocks: u32,
    began: Began,
    /// Of the chunk that was come upon last, at a place.
    last: Option<Rc<Reader>>,
    /// What the scan or fetch has, which a node that begins again many times must not gather.
    memory: pg_sys::MemoryContext,
}

/// What was found at its places so far.
#[derive(Default)]
struct Met {
    chunks: usize,
    rows_of_chunks: u64,
    rows_of_tail: u64,
}

enum Way {
    Pages(pg_sys::TableScanDesc),
    Places {
        places: Places,
        fetch: *mut pg_sys::IndexFetchTableData,
    },
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
    unsafe fn next_header(&mut self) -> Option<Tid> {
        match self {
            Places::Own { headers, .. } => headers.next(),
            // SAFETY: the callers' contract.
            Places::Shared(shared) => unsafe { Shared::next_header(*shared) },
        }
    }

    unsafe fn next_row(&mut self) -> Option<Tid> {
        match self {
            Places::Own { rows, .. } => rows.next(),
            // SAFETY: the callers' contract.
            Places::Shared(shared) => unsafe { Shared::next_row(*shared) },
        }
    }
}

/// What the source comes upon.
pub enum Input {
    /// A row of the tail, which the slot shows.
    Row,
    Chunk(OpenChunk),
}

impl Source {
    /// The source of a node whose conditions are bound: all of its own, or what processes share.
    ///
    /// # Safety
    /// `node` must be a node of ours that runs, `slot` one for rows of its table, `shared` null or what the leader has initialized. Inside a
    /// guarded entry point.
    pub unsafe fn of_node(
        node: *mut pg_sys::CustomScanState,
        slot: *mut pg_sys::TupleTableSlot,
        selection: &Selection,
        shared: *mut Shared,
    ) -> Source {
        // SAFETY: by contract.
        unsafe {
            let table = (*node).ss.ss_currentRelation;
            let estate = (*node).ss.ps.state;
            let snapshot = (*estate).es_snapshot;
            let scratch = (*selection.evaluation.context).ecxt_per_tuple_memory;
            let memory = memory::small((*estate).es_query_cxt, c"varve source");
            let way = memory::within(memory, || match shared.is_null() {
                true => Source::begin(
                    Table::from_ptr(table),
                    Snapshot::from_ptr(snapshot),
                    &selection.on_columns(),
                    scratch,
                ),
                false => {
                    Source::shared(Table::from_ptr(table), shared, Snapshot::from_ptr(snapshot))
                }
            });
            pg_sys::MemoryContextReset(scratch);
            Source {
                way,
                met: Met::default(),
                table: Table::from_ptr(table),
                snapshot: Snapshot::from_ptr(snapshot),
                slot,
                blocks: Table::from_ptr(table).blocks(),
                began: Began::now(),
                last: None,
                memory,
            }
        }
    }

    /// Where the processes of a parallel query have to look, and the bytes that telling them takes. The leader asks before it starts them.
    ///
    /// # Safety
    /// `node` must be a node of ours that has begun; inside a guarded entry point.
    pub unsafe fn places_of(
        node: *mut pg_sys::CustomScanState,
        selection: &mut Selection,
    ) -> (Found, usize) {
        // SAFETY: by contract.
        unsafe {
            let table = (*node).ss.ss_currentRelation;
            let snapshot = (*(*node).ss.ps.state).es_snapshot;
            let memory = (*selection.evaluation.context).ecxt_per_tuple_memory;
            let found = match selection.bind() {
                true => Source::find(
                    Table::from_ptr(table),
                    Snapshot::from_ptr(snapshot),
                    &selection.on_columns(),
                    memory,
                ),
                // No process looks anywhere.
                false => Found::Pages,
            };
            pg_sys::MemoryContextReset(memory);
            let bytes = found.bytes(Table::from_ptr(table), Snapshot::from_ptr(snapshot));
            (found, bytes)
        }
    }

    /// # Safety
    /// `table` must be open, `snapshot` registered. What is made of conditions lives in `scratch`. Inside a guarded entry point.
    unsafe fn begin(
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        conditions: &[(&Bounded, usize)],
        scratch: pg_sys::MemoryContext,
    ) -> Way {
        // SAFETY: by contract.
        unsafe {
            match Source::find(table, snapshot, conditions, scratch) {
                Found::Places(found) => Way::Places {
                    places: Places::Own {
                        headers: found.headers.into_iter(),
                        rows: found.rows.into_iter(),
                    },
                    fetch: begin_fetch(table),
                },
                Found::Pages => Way::Pages(begin_pages(table, snapshot, core::ptr::null_mut())),
            }
        }
    }

    /// Where a source has to look.
    ///
    /// # Safety
    /// As `begin`.
    unsafe fn find(
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        conditions: &[(&Bounded, usize)],
        scratch: pg_sys::MemoryContext,
    ) -> Found {
        // SAFETY: by contract.
        let found =
            unsafe { memory::within(scratch, || places::find(table, snapshot, conditions)) };
        found.map_or(Found::Pages, Found::Places)
    }

    /// The way to places that it shares with other processes.
    ///
    /// # Safety
    /// As `begin`; the leader has initialized what is shared.
    unsafe fn shared(table: Table<'_>, shared: *mut Shared, snapshot: Snapshot<'_>) -> Way {
        // SAFETY: by contract.
        unsafe {
            match Shared::pages(shared) {
                Some(pages) => Way::Pages(begin_pages(table, snapshot, pages)),
                None => Way::Places {
                    places: Places::Shared(shared),
                    fetch: begin_fetch(table),
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
        unsafe {
            self.leave();
            let (places, fetch) = match &mut self.way {
                Way::Pages(scan) => {
                    return Some(match scan::next_part(*scan, self.slot)? {
                        Part::Row => Input::Row,
                        Part::Chunk(open) => Input::Chunk(open),
                    });
                }
                Way::Places { places, fetch } => (places, *fetch),
            };
            while let Some(at) = places.next_header() {
                crate::pg::error::check_interrupts();
                let (table, snapshot, began) = (self.table, self.snapshot, self.began);
                let reader =
                    chunk_cache::reader_in_passing(table, self.blocks, at, snapshot, began);
                let reader = reader.filter(|reader| !reader.chunk.header.has(FLAG_TOMBSTONE));
                if let Some(reader) = reader {
                    self.met.chunks += 1;
                    self.met.rows_of_chunks += u64::from(reader.chunk.header.rows);
                    self.last = Some(Rc::clone(&reader));
                    return Some(Input::Chunk(OpenChunk::new(reader, self.snapshot)));
                }
            }
            let get = (*(*self.table.as_ptr()).rd_tableam).index_fetch_tuple;
            let get = get.expect("BUG: no index_fetch_tuple");
            while let Some(at) = places.next_row() {
                crate::pg::error::check_interrupts();
                let mut item = tid::to_pg(at);
                let (snapshot, slot) = (self.snapshot, self.slot);
                // Under an MVCC snapshot no more than one version of a chain is seen.
                let (mut again, mut dead) = (false, false);
                if guarded(|| {
                    get(
                        fetch,
                        &mut item,
                        snapshot.as_ptr(),
                        slot,
                        &mut again,
                        &mut dead,
                    )
                }) {
                    self.met.rows_of_tail += 1;
                    return Some(Input::Row);
                }
            }
            None
        }
    }

    /// The chunk that was come upon last is done with.
    unsafe fn leave(&mut self) {
        if let Some(last) = self.last.take() {
            // SAFETY: the caller's contract.
            unsafe { chunk_cache::leave(self.table, &last, self.began) };
        }
    }

    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn end(mut self) {
        // SAFETY: by contract.
        unsafe {
            self.leave();
            crate::pg::executor::clear_tuple(self.slot);
            match self.way {
                Way::Pages(scan) => guarded(|| scan::scan_end(scan)),
                Way::Places { fetch, .. } => {
                    let end = (*(*self.table.as_ptr()).rd_tableam).index_fetch_end;
                    let end = end.expect("BUG: no index_fetch_end");
                    guarded(|| end(fetch));
                }
            }
            pg_sys::MemoryContextDelete(self.memory);
        }
    }
}

unsafe fn begin_pages(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    parallel: pg_sys::ParallelTableScanDesc,
) -> pg_sys::TableScanDesc {
    use pg_sys::ScanOptions::*;
    let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
    let keys = core::ptr::null_mut();
    // SAFETY: the callers' contract.
    unsafe {
        guarded(|| scan::scan_begin(table.as_ptr(), snapshot.as_ptr(), 0, keys, parallel, flags))
    }
}

unsafe fn begin_fetch(table: Table<'_>) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: the callers' contract; a table access method has the callback.
    unsafe {
        let begin = (*(*table.as_ptr()).rd_tableam).index_fetch_begin;
        let begin = begin.expect("BUG: no index_fetch_begin");
        guarded(|| begin(table.as_ptr()))
    }
}
