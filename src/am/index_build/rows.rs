//! The rows that an index build delivers: page by page, one entry at a time, so that the caller can compute
//! expressions and hand entries on without a frame of ours in between that an error would have to unwind.

use super::visibility::{raise_without_root, Rule, Visibility, VisibilityCheck};
use crate::am::scan::VarveScan;
use crate::am::series_index::is_series_index;
use crate::catalog::layout;
use crate::chunk::dead_header;
use crate::chunk::index_entries;
use crate::chunk::notes::{self, View};
use crate::chunk::read::Chunk;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error::{self, Code};
use crate::pg::memory;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Index;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::table::changes;
use pgrx::pg_sys;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use varve_columns::tuple::header::{self, StorageTuple};

/// Where an index build gets its pages from.
pub enum Blocks {
    Range(core::ops::Range<u32>),
    Parallel(pg_sys::HeapScanDesc, pg_sys::ParallelBlockTableScanDesc),
}

impl Blocks {
    /// # Safety
    /// `scan` must be a parallel scan of ours.
    pub unsafe fn parallel(scan: pg_sys::TableScanDesc) -> Blocks {
        // SAFETY: a parallel scan that `scan_begin` made.
        unsafe {
            let heap: pg_sys::HeapScanDesc = VarveScan::of(scan).heap.cast();
            let shared: pg_sys::ParallelBlockTableScanDesc = (*heap).rs_base.rs_parallel.cast();
            let table = (*heap).rs_base.rs_rd;
            pg_sys::table_block_parallelscan_startblock_init(
                table,
                (*heap).rs_parallelworkerdata.cast(),
                shared,
            );
            Blocks::Parallel(heap, shared)
        }
    }

    /// # Safety
    /// The scan that `parallel` was given must not have ended. Within a guarded entry point.
    unsafe fn next(&mut self) -> Option<u32> {
        match self {
            Blocks::Range(range) => range.next(),
            // SAFETY: the scan lives as long as the build.
            Blocks::Parallel(heap, shared) => unsafe {
                let block = pg_sys::table_block_parallelscan_nextpage(
                    (**heap).rs_base.rs_rd,
                    (**heap).rs_parallelworkerdata.cast(),
                    *shared,
                );
                (block != pg_sys::InvalidBlockNumber).then_some(block)
            },
        }
    }
}

/// What `Rows::step` has come to.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub enum Step {
    Done,
    /// A row is in the slot; its values are not computed yet.
    Row,
    /// The values of an entry for a chunk are there.
    Chunk,
    /// A row of a chunk is in the slot, which the index does not take: what its expressions raise for it they
    /// raise before the index is there.
    Compressed,
}

/// Entries of a chunk that wait to be delivered, and the reader that their values live in.
struct Waiting {
    _reader: Rc<Reader>,
    at: Tid,
    alive: bool,
    entries: VecDeque<index_entries::Entry>,
}

/// The entry being delivered, and what it is made from. Plain values, for callers that hold nothing else.
#[repr(C)]
pub struct Entry {
    pub at: pg_sys::ItemPointerData,
    pub alive: bool,
    pub values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    pub nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
    pub slot: *mut pg_sys::TupleTableSlot,
    pub estate: *mut pg_sys::EState,
    pub context: *mut pg_sys::ExprContext,
    pub predicate: *mut pg_sys::ExprState,
}

/// A walk over a table's pages on behalf of an index. An error abandons it: its memory goes with the
/// context that it was made in, its pin with the transaction.
pub struct Rows<'a> {
    pub entry: Entry,
    index: Index<'a>,
    visibility: VisibilityCheck<'a>,
    blocks: Blocks,
    takes_headers: bool,
    cursor: ManuallyDrop<PageCursor<'a>>,
    /// The page that the cursor is on, its next line pointer, and how many it has.
    page: (u32, u16, u16),
    waiting: Option<Waiting>,
    /// A chunk whose rows expressions are tried on, and the next of them.
    tried: Option<(Rc<Reader>, u32)>,
    /// The tuple that the slot points to.
    tuple: pg_sys::HeapTupleData,
    /// What counts as rows of the table.
    pub counted: f64,
    pub pages_done: u32,
}

impl<'a> Rows<'a> {
    /// # Safety
    /// The relations must be open; the result lives as long as the current memory context.
    pub unsafe fn begin(
        index: Index<'a>,
        visibility: VisibilityCheck<'a>,
        blocks: Blocks,
    ) -> *mut Rows<'a> {
        // SAFETY: by contract.
        unsafe {
            let (table, info) = (visibility.table, visibility.info);
            let estate = pg_sys::CreateExecutorState();
            let mut context = (*estate).es_per_tuple_exprcontext;
            if context.is_null() {
                context = pg_sys::MakePerTupleExprContext(estate);
            }
            let slot = pg_sys::table_slot_create(table.as_ptr(), core::ptr::null_mut());
            (*context).ecxt_scantuple = slot;
            let entry = Entry {
                at: tid::to_pg(tid::PENDING),
                alive: false,
                values: [pg_sys::Datum::from(0usize); pg_sys::INDEX_MAX_KEYS as usize],
                nulls: [true; pg_sys::INDEX_MAX_KEYS as usize],
                slot,
                estate,
                context,
                predicate: pg_sys::ExecPrepareQual((*info).ii_Predicate, estate),
            };
            let rows = Rows {
                entry,
                index,
                visibility,
                blocks,
                takes_headers: is_series_index(index),
                cursor: ManuallyDrop::new(PageCursor::new(table)),
                page: (0, 1, 0),
                waiting: None,
                tried: None,
                tuple: pg_sys::HeapTupleData::default(),
                counted: 0.0,
                pages_done: 0,
            };
            memory::own(pg_sys::CurrentMemoryContext, rows)
        }
    }

    /// The page that the latest entry came from.
    pub fn block(&self) -> u32 {
        self.page.0
    }

    /// Goes on to the next entry.
    ///
    /// # Safety
    /// As `begin`; the latest entry is done with.
    pub unsafe fn step(&mut self) -> Step {
        // SAFETY: by contract.
        unsafe {
            slot::clear_slot(self.entry.slot);
            pg_sys::MemoryContextReset((*self.entry.context).ecxt_per_tuple_memory);
            loop {
                if self.next_of_chunk() {
                    return Step::Chunk;
                }
                if self.next_to_try() {
                    return Step::Compressed;
                }
                let (block, offset, count) = self.page;
                if offset > count {
                    error::check_interrupts();
                    let Some(block) = self.blocks.next() else {
                        self.cursor.release();
                        return Step::Done;
                    };
                    self.cursor.go(block);
                    self.page = (block, 1, self.cursor.locked(|page| page.line_pointers()));
                    self.pages_done += 1;
                    continue;
                }
                self.page.1 += 1;
                if self.look_at(Tid { block, offset }) {
                    return Step::Row;
                }
            }
        }
    }

    /// Makes the next entry of an open chunk the current one.
    fn next_of_chunk(&mut self) -> bool {
        let Some(waiting) = &mut self.waiting else {
            return false;
        };
        let Some(entry) = waiting.entries.pop_front() else {
            self.waiting = None;
            return false;
        };
        self.entry.values[..entry.values.len()].copy_from_slice(&entry.values);
        self.entry.nulls[..entry.nulls.len()].copy_from_slice(&entry.nulls);
        self.entry.at = tid::to_pg(waiting.at);
        self.entry.alive = waiting.alive;
        true
    }

    /// Looks at a line pointer; true when a row is in the slot.
    ///
    /// # Safety
    /// As `step`; the cursor must be on the page of `at`.
    unsafe fn look_at(&mut self, at: Tid) -> bool {
        // SAFETY: the page stays pinned.
        unsafe {
            let Some((item, seen, root)) = self.visibility.decide(&self.cursor, at) else {
                return false;
            };
            let Visibility::Take { alive, counts } = seen else {
                return false;
            };
            match classify(&item) {
                TupleKind::Skip => false,
                TupleKind::Header => {
                    if !self.visibility.checks {
                        self.refuse_chunks();
                    }
                    self.counted += if counts { self.rows_of(item) } else { 0.0 };
                    if self.takes_headers {
                        if let Some(reader) = self.open_for_entries(item, alive) {
                            self.wait_for(reader, item.tid, alive);
                        }
                    } else if alive && !self.visibility.checks && self.has_expressions() {
                        self.tried = Some((self.open(item), 0));
                    }
                    false
                }
                TupleKind::Row => {
                    self.counted += f64::from(u8::from(counts));
                    let Some(offset) = root else {
                        raise_without_root(self.visibility.table, item.tid)
                    };
                    self.entry.at = tid::to_pg(Tid { offset, ..at });
                    self.entry.alive = alive;
                    self.tuple = item.to_heap_tuple(self.visibility.table.oid());
                    let (tuple, slot) = (&mut self.tuple, self.entry.slot);
                    let buffer = self.cursor.buffer();
                    slot::as_heap(slot, || {
                        pg_sys::ExecStoreBufferHeapTuple(tuple, slot, buffer)
                    });
                    true
                }
            }
        }
    }

    /// Rows of the chunk of a header.
    fn rows_of(&self, item: PageTuple<'_>) -> f64 {
        let Ok(StorageTuple::Header(header)) = header::decode(item.body()) else {
            return 0.0;
        };
        let (table, chunk) = (self.visibility.table, header.chunk);
        let gone = notes::rows_gone(table, chunk, &header.slots, usize::MAX);
        let gone = header.deleted + gone.unwrap_or(0);
        f64::from(header.rows.saturating_sub(gone))
    }

    /// # Safety
    /// `item` must be a header of the table, which stays open as long as the reader is used. Within a guarded entry point.
    unsafe fn open(&self, item: PageTuple<'_>) -> Rc<Reader> {
        let table = self.visibility.table;
        // SAFETY: by contract.
        unsafe {
            let any = Snapshot::any();
            match Chunk::open(table, &item, View::Snapshot(any)) {
                Ok(chunk) => Reader::new(chunk),
                Err(damage) => crate::chunk::tuple_kind::raise(table, &item, &damage),
            }
        }
    }

    /// Opens a header that gets entries. None if nobody can see it.
    ///
    /// # Safety
    /// As `open`.
    unsafe fn open_for_entries(&self, item: PageTuple<'_>, alive: bool) -> Option<Rc<Reader>> {
        // SAFETY: by contract.
        unsafe {
            match self.visibility.rule {
                Rule::Horizon(horizon) if !alive => {
                    let table = self.visibility.table;
                    dead_header::open_deleted(table, &item, horizon).map(Reader::new)
                }
                _ => Some(self.open(item)),
            }
        }
    }

    /// Lets the entries of a chunk be delivered next.
    fn wait_for(&mut self, reader: Rc<Reader>, header: Tid, alive: bool) {
        let gone = &reader.chunk.map;
        let entries =
            index_entries::header_entries(self.visibility.table, self.index, &reader, gone);
        self.waiting = Some(Waiting {
            _reader: reader,
            at: index_entries::entry_of_header(header),
            alive,
            entries: entries.with_steps().collect(),
        });
    }

    /// # Safety
    /// The IndexInfo must be that of the build that runs.
    unsafe fn has_expressions(&self) -> bool {
        // SAFETY: the build's IndexInfo.
        unsafe {
            let info = &*self.visibility.info;
            !info.ii_Expressions.is_null() || !info.ii_Predicate.is_null()
        }
    }

    /// Puts the next row of a chunk that expressions are tried on into the slot.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn next_to_try(&mut self) -> bool {
        let Some((reader, next)) = &mut self.tried else {
            return false;
        };
        while *next < reader.rows() {
            error::check_interrupts();
            let row = *next;
            *next += 1;
            if !reader.chunk.map.contains(row) && changes::change(&reader.chunk, row).is_none() {
                // SAFETY: the slot is one of the table's.
                unsafe {
                    let table = self.visibility.table.oid();
                    slot::store_row(self.entry.slot, reader, row, table);
                }
                return true;
            }
        }
        self.tried = None;
        false
    }

    /// Raises an error where the index promises something about all rows, chunks or not.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn refuse_chunks(&self) {
        // SAFETY: the table is open.
        unsafe {
            let (info, table) = (self.visibility.info, self.visibility.table);
            let is_exclusion = !(*info).ii_ExclusionOps.is_null();
            let is_key = (*info).ii_Unique && !is_exclusion;
            if !is_exclusion && (!is_key || layout::is_plain_key(self.index)) {
                return;
            }
            let message = format!(
                "cannot create a unique index or exclusion constraint on table \"{}\": it has compressed rows",
                table.name()
            );
            let before = "Create the constraint before loading: the table then keeps its rows in the tail. Or copy the rows to a new table that has it.";
            if is_exclusion {
                let detail = "Such a constraint covers rows of the tail only.";
                error::raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, detail, before)
            }
            error::raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                message,
                "A key of compressed rows may have no expression, no predicate, and no NULLS NOT DISTINCT.",
                before,
            )
        }
    }

    /// Ends the walk.
    ///
    /// # Safety
    /// As `begin`; neither entry nor slot may be used any more.
    pub unsafe fn finish(&mut self) {
        self.waiting = None;
        self.tried = None;
        self.cursor.release();
        // SAFETY: made by `begin`; the predicate goes with the executor state.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.entry.slot);
            pg_sys::FreeExecutorState(self.entry.estate);
            (*self.visibility.info).ii_ExpressionsState = core::ptr::null_mut();
            (*self.visibility.info).ii_PredicateState = core::ptr::null_mut();
        }
    }
}
