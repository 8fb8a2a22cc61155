//! Sequential, TID range and bitmap scans. A heap scan underneath finds visible tuples; rows go out as
//! they are, a header opens its chunk, pieces are passed over.

use super::search::Search;
use crate::chunk::notes::View;
use crate::chunk::read::Chunk;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::chunk::tuple_kind::{classify, raise, TupleKind};
use crate::pg::error;
use crate::pg::expression_context::guarded;
use crate::pg::heap::heap_callback;
use crate::pg::memory;
use crate::pg::page::PageTuple;
use crate::pg::parallel_scan::ParallelScan;
use crate::pg::relation::Table;
use crate::pg::row_slot::RowSlot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::rc::Rc;

/// What a scan of ours adds to core's scan descriptor.
#[repr(C)]
pub struct VarveScan<'a> {
    pub base: pg_sys::TableScanDescData,
    /// heapam's scan of the same relation, with the same snapshot.
    pub heap: pg_sys::TableScanDesc,
    pub state: *mut ScanState<'a>,
}

#[derive(Default)]
pub struct ScanState<'a> {
    chunk: Option<OpenChunk>,
    search: Search<'a>,
    /// Range of a TID range scan that reaches into compressed rows.
    range: Option<(Tid, Tid)>,
    pub sample: super::sample::SampleState,
    pub analyze: super::analyze::AnalyzeState,
}

/// Kind of the heap tuple in a slot.
///
/// # Safety
/// The slot must hold a heap tuple.
#[inline]
pub unsafe fn classify_slot(slot: *mut pg_sys::TupleTableSlot) -> TupleKind {
    // SAFETY: by contract.
    unsafe {
        let found = &*(*slot::heap_part(slot)).base.tuple;
        classify(&PageTuple::of(found))
    }
}

/// Opens the chunk whose header is in the slot; raises XX001 when it is damaged.
///
/// # Safety
/// The slot must hold a header tuple of `table`, the snapshot must be valid.
pub unsafe fn open_from_slot(
    table: Table<'_>,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: Snapshot<'_>,
) -> Rc<Reader> {
    // SAFETY: by contract.
    unsafe {
        let found = PageTuple::of(&*(*slot::heap_part(slot)).base.tuple);
        match Chunk::open(table, &found, View::Snapshot(snapshot)) {
            Ok(chunk) => Reader::new(chunk),
            Err(damage) => raise(table, &found, &damage),
        }
    }
}

impl<'s> VarveScan<'s> {
    /// # Safety
    /// `scan` must come from `scan_begin`.
    pub unsafe fn of<'a>(scan: pg_sys::TableScanDesc) -> &'a mut VarveScan<'a> {
        // SAFETY: by contract.
        unsafe { &mut *scan.cast() }
    }

    /// # Safety
    /// As above; the state lives as long as the scan.
    pub unsafe fn state<'a>(&self) -> &'a mut ScanState<'s> {
        // SAFETY: by contract.
        unsafe { &mut *self.state }
    }

    /// Core may give the scan another snapshot after its start.
    ///
    /// # Safety
    /// The scan must come from `scan_begin` and not have ended; its snapshot must be valid.
    unsafe fn sync_snapshot(&mut self) {
        // SAFETY: the heap scan lives as long as ours.
        unsafe { (*self.heap).rs_snapshot = self.snapshot().as_ptr() }
    }

    /// The snapshot that rows are judged by.
    ///
    /// # Safety
    /// As `sync_snapshot`.
    unsafe fn snapshot(&self) -> Snapshot<'_> {
        // SAFETY: by contract of `of`.
        unsafe {
            self.state()
                .search
                .snapshot(Snapshot::from_ptr(self.base.rs_snapshot))
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_begin(
    table: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    nkeys: i32,
    key: *mut pg_sys::ScanKeyData,
    parallel: pg_sys::ParallelTableScanDesc,
    flags: u32,
) -> pg_sys::TableScanDesc {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by core with an open relation.
    unsafe {
        crate::ingest::batch::flush_before_scan(table, snapshot);
        crate::table::changes::check_readable(table, snapshot);
        let scan: *mut VarveScan = pg_sys::palloc0(core::mem::size_of::<VarveScan>()).cast();
        let inner = flags & !(pg_sys::ScanOptions::SO_TEMP_SNAPSHOT);
        let search = Search::begin(snapshot);
        (*scan).heap = pg_sys::heap_beginscan(
            table.as_ptr(),
            search.snapshot(snapshot).as_ptr(),
            0,
            core::ptr::null_mut(),
            parallel,
            inner,
        );
        (*scan).base = *(*scan).heap;
        (*scan).base.rs_snapshot = snapshot.as_ptr();
        (*scan).base.rs_flags = flags;
        (*scan).base.rs_nkeys = nkeys;
        if nkeys > 0 {
            let bytes = core::mem::size_of::<pg_sys::ScanKeyData>() * nkeys as usize;
            (*scan).base.rs_key = pg_sys::palloc(bytes).cast();
            if !key.is_null() {
                core::ptr::copy_nonoverlapping(key, (*scan).base.rs_key, nkeys as usize);
            }
        }
        let state = ScanState {
            search,
            ..Default::default()
        };
        (*scan).state = memory::own(pg_sys::CurrentMemoryContext, state);
        scan.cast()
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_end(scan: pg_sys::TableScanDesc) {
    // SAFETY: called by core once for a scan of ours. The state's box goes with its context; what it
    // holds goes now.
    unsafe {
        let own = VarveScan::of(scan);
        own.state().search.end();
        *own.state() = ScanState::default();
        pg_sys::heap_endscan(own.heap);
        if own.base.rs_flags & pg_sys::ScanOptions::SO_TEMP_SNAPSHOT != 0 {
            pg_sys::UnregisterSnapshot(own.base.rs_snapshot);
        }
        pg_sys::pfree(scan.cast());
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_rescan(
    scan: pg_sys::TableScanDesc,
    key: *mut pg_sys::ScanKeyData,
    set_params: bool,
    allow_strat: bool,
    allow_sync: bool,
    allow_pagemode: bool,
) {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        crate::ingest::batch::flush_before_scan(
            Table::from_ptr(own.base.rs_rd),
            Snapshot::from_ptr(own.base.rs_snapshot),
        );
        own.state().search.end();
        *own.state() = ScanState {
            search: Search::begin(Snapshot::from_ptr(own.base.rs_snapshot)),
            ..Default::default()
        };
        own.sync_snapshot();
        if !key.is_null() && own.base.rs_nkeys > 0 {
            core::ptr::copy_nonoverlapping(key, own.base.rs_key, own.base.rs_nkeys as usize);
        }
        pg_sys::heap_rescan(
            own.heap,
            core::ptr::null_mut(),
            set_params,
            allow_strat,
            allow_sync,
            allow_pagemode,
        );
    }
}

/// The next row in `direction`, from the open chunk or from the heap scan.
///
/// # Safety
/// `own` must come from `scan_begin` and not have ended; its snapshot must be valid. `slot` must be a live slot of ours for rows of its table,
/// and `pull` store nothing there but the next tuple of the heap scan. Within a guarded entry point.
unsafe fn next_row(
    own: &mut VarveScan,
    slot: *mut pg_sys::TupleTableSlot,
    forward: bool,
    pull: impl Fn(pg_sys::TableScanDesc, *mut pg_sys::TupleTableSlot) -> bool,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let table = Table::from_ptr(own.base.rs_rd);
        // The state is asked for anew each time: the snapshot is in it too.
        own.state()
            .search
            .clear_answer(Snapshot::from_ptr(own.base.rs_snapshot));
        loop {
            if let Some(open) = &mut own.state().chunk {
                if let Some(row) = open.step(forward) {
                    slot::store_row(slot, &open.reader, row, table.oid());
                    return true;
                }
                own.state().chunk = None;
            }
            let heap = own.heap;
            if !slot::as_heap(slot, || pull(heap, slot)) {
                if !own.state().search.go_on() {
                    return false;
                }
                own.sync_snapshot();
                pg_sys::heap_rescan(heap, core::ptr::null_mut(), true, true, false, false);
                continue;
            }
            match classify_slot(slot) {
                TupleKind::Row => return true,
                TupleKind::Skip => error::check_interrupts(),
                TupleKind::Header => {
                    let reader = open_from_slot(table, slot, own.snapshot());
                    let mut open = OpenChunk::new(reader, own.snapshot());
                    if open.is_empty() {
                        continue;
                    }
                    if !forward {
                        open.row = i64::from(open.reader.rows());
                    }
                    own.state().chunk = Some(open);
                }
            }
        }
    }
}

/// What a scan comes upon, for those who read chunks by column.
pub enum Part {
    /// A row of the tail; the slot shows it.
    Row,
    Chunk(OpenChunk),
}

/// A forward scan of all of a table, or of what other processes leave of it, for those who read chunks by column.
pub struct Pages(pg_sys::TableScanDesc);

impl Pages {
    /// It lives in the current memory context. Within a guarded entry point.
    pub fn begin(table: Table<'_>, snapshot: Snapshot<'_>, shared: Option<ParallelScan>) -> Pages {
        use pg_sys::ScanOptions::*;
        let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
        let keys = core::ptr::null_mut();
        let shared = shared.map_or(core::ptr::null_mut(), ParallelScan::as_ptr);
        let (table, snapshot) = (table.as_ptr(), snapshot.as_ptr());
        // SAFETY: the table is open, the snapshot valid.
        Pages(unsafe { guarded(|| scan_begin(table, snapshot, 0, keys, shared, flags)) })
    }

    /// The next row of the tail or chunk. Within a guarded entry point.
    ///
    /// # Safety
    /// `slot` must be one for rows of the table, which is still open.
    pub unsafe fn next(&mut self, slot: RowSlot) -> Option<Part> {
        let slot = slot.as_ptr();
        // SAFETY: by contract; the scan has begun.
        unsafe {
            let own = VarveScan::of(self.0);
            let heap = own.heap;
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while slot::as_heap(slot, || pg_sys::heap_getnextslot(heap, forward, slot)) {
                match classify_slot(slot) {
                    TupleKind::Row => return Some(Part::Row),
                    TupleKind::Skip => error::check_interrupts(),
                    TupleKind::Header => {
                        let reader =
                            open_from_slot(Table::from_ptr((*heap).rs_rd), slot, own.snapshot());
                        return Some(Part::Chunk(OpenChunk::new(reader, own.snapshot())));
                    }
                }
            }
            slot::clear_slot(slot);
            None
        }
    }

    /// Within a guarded entry point.
    pub fn end(self) {
        // SAFETY: the scan has begun, and ends once.
        unsafe { guarded(|| scan_end(self.0)) }
    }
}

/// Do the scan keys accept the row in the slot?
///
/// # Safety
/// `own` must come from `scan_begin`, with keys for columns of its table; `slot` must be live and hold a row of that. Within a guarded entry
/// point.
unsafe fn keys_accept(own: &VarveScan, slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: core set up `rs_nkeys` keys.
    unsafe {
        (0..own.base.rs_nkeys as usize).all(|at| {
            let key = &mut *own.base.rs_key.add(at);
            if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
                return false;
            }
            let mut isnull = false;
            let value = slot::attribute(slot, key.sk_attno, &mut isnull);
            !isnull
                && pg_sys::FunctionCall2Coll(
                    &mut key.sk_func,
                    key.sk_collation,
                    value,
                    key.sk_argument,
                )
                .value()
                    != 0
        })
    }
}

/// Called for each row. A guard would cost as much as a step within a chunk, which raises no error and has none.
pub unsafe extern "C-unwind" fn scan_getnextslot(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core for a scan of ours with a slot of ours.
    unsafe {
        step_in_chunk(VarveScan::of(scan), direction, slot) || next_slot(scan, direction, slot)
    }
}

/// Shows the next row of the open chunk, if all that this takes is to point the slot at it.
///
/// # Safety
/// `own` must come from `scan_begin` and not have ended; `slot` must be a live slot of ours. It raises no error, so it needs no guard.
#[inline]
unsafe fn step_in_chunk(
    own: &mut VarveScan,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by `scan_getnextslot` alone.
    unsafe {
        let ScanState { chunk, search, .. } = own.state();
        let Some(open) = chunk else {
            return false;
        };
        let row = open.row + 1;
        let plain = direction != pg_sys::ScanDirection::BackwardScanDirection
            && own.base.rs_nkeys == 0
            && matches!(search, Search::No);
        let found = plain
            && row < i64::from(open.reader.rows())
            && !open.is_hidden(row as u32)
            && slot::move_to_row(slot, &open.reader, row as u32);
        if found {
            open.row = row;
        }
        found
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn next_slot(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by `scan_getnextslot` alone.
    unsafe {
        let own = VarveScan::of(scan);
        let forward = direction != pg_sys::ScanDirection::BackwardScanDirection;
        loop {
            let found = next_row(own, slot, forward, |heap, slot| {
                pg_sys::heap_getnextslot(heap, direction, slot)
            });
            if !found {
                slot::clear_slot(slot);
                return false;
            }
            if own.base.rs_nkeys == 0 || keys_accept(own, slot) {
                return true;
            }
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_set_tidrange(
    scan: pg_sys::TableScanDesc,
    min: pg_sys::ItemPointer,
    max: pg_sys::ItemPointer,
) {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let (from, to) = (tid::read(min), tid::read(max));
        own.state().chunk = None;
        if to.is_virtual() || to.block == pg_sys::InvalidBlockNumber {
            own.state().range = Some((from, to));
        } else {
            own.state().range = None;
            pg_sys::heap_set_tidrange(own.heap, min, max);
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_getnextslot_tidrange(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core for a scan of ours with a slot of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let Some((from, to)) = own.state().range else {
            // Only real TIDs are wanted.
            loop {
                let heap = own.heap;
                let found = slot::as_heap(slot, || {
                    pg_sys::heap_getnextslot_tidrange(heap, direction, slot)
                });
                if !found {
                    slot::clear_slot(slot);
                    return false;
                }
                if classify_slot(slot) == TupleKind::Row {
                    return true;
                }
                error::check_interrupts();
            }
        };
        let forward = direction != pg_sys::ScanDirection::BackwardScanDirection;
        while next_row(own, slot, forward, |heap, slot| {
            pg_sys::heap_getnextslot(heap, direction, slot)
        }) {
            let at = tid::from_pg(&(*slot).tts_tid);
            if at >= from && at <= to {
                return true;
            }
        }
        slot::clear_slot(slot);
        false
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_bitmap_next_block(
    scan: pg_sys::TableScanDesc,
    page: *mut pg_sys::TBMIterateResult,
) -> bool {
    // SAFETY: called by core for a scan of ours. Only real TIDs are in bitmaps.
    unsafe {
        let own = VarveScan::of(scan);
        own.sync_snapshot();
        heap_callback!(scan_bitmap_next_block, own.heap, page)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_bitmap_next_tuple(
    scan: pg_sys::TableScanDesc,
    page: *mut pg_sys::TBMIterateResult,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as above. Lossy pages show storage tuples too, which no ordinary index knows.
    unsafe {
        let own = VarveScan::of(scan);
        let heap = own.heap;
        while slot::as_heap(slot, || {
            heap_callback!(scan_bitmap_next_tuple, heap, page, slot)
        }) {
            if classify_slot(slot) == TupleKind::Row {
                return true;
            }
        }
        false
    }
}
