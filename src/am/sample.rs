//! TABLESAMPLE: the method is asked for tail rows by page and line pointer, and for compressed rows by
//! the block and offset of their virtual TIDs, so each row has the chance that the method gives it.

use super::scan::{classify_slot, VarveScan};
use crate::chunk::chunk_cache;
use crate::chunk::slot;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::heap::heap_callback;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{Tid, MAX_OFFSET};
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use pgrx::prelude::*;

#[derive(Default)]
pub struct SampleState {
    /// Headers on the current page whose rows are still to be sampled.
    headers: Vec<Tid>,
    tail_done: bool,
    chunk: Option<SampledChunk>,
}

struct SampledChunk {
    open: OpenChunk,
    first: Tid,
    last: Tid,
    /// Virtual block that the method is being asked about.
    block: u32,
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_sample_next_block(
    scan: pg_sys::TableScanDesc,
    sample: *mut pg_sys::SampleScanState,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let state = &mut own.state().sample;
        *state = SampleState::default();
        if !heap_callback!(scan_sample_next_block, own.heap, sample) {
            return false;
        }
        let block = (*own.heap.cast::<pg_sys::HeapScanDescData>()).rs_cblock;
        let mut cursor = PageCursor::new(Table::from_ptr(own.base.rs_rd));
        cursor.go(block);
        state.headers = cursor.locked(|page| {
            page.tuples()
                .filter(|item| classify(item) == TupleKind::Header)
                .map(|item| item.tid)
                .collect()
        });
        true
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_sample_next_tuple(
    scan: pg_sys::TableScanDesc,
    sample: *mut pg_sys::SampleScanState,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core for a scan of ours with a slot of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let state = &mut own.state().sample;
        let heap = own.heap;
        while !state.tail_done {
            if !slot::as_heap(slot, || {
                heap_callback!(scan_sample_next_tuple, heap, sample, slot)
            }) {
                state.tail_done = true;
            } else if classify_slot(slot) == TupleKind::Row {
                return true;
            }
        }
        loop {
            if let Some(chunk) = &mut state.chunk {
                if let Some(row) = chunk.next(sample) {
                    let table = Table::from_ptr(own.base.rs_rd).oid();
                    slot::store_row(slot, &chunk.open.reader, row, table);
                    return true;
                }
                state.chunk = None;
            }
            let Some(at) = state.headers.pop() else {
                slot::clear_slot(slot);
                return false;
            };
            let snapshot = own.base.rs_snapshot;
            state.chunk = chunk_cache::reader_at(
                Table::from_ptr(own.base.rs_rd),
                at,
                Snapshot::from_ptr(snapshot),
            )
            .map(|reader| {
                let last = reader.rows().saturating_sub(1);
                SampledChunk {
                    first: Tid::of_row(at, 0),
                    last: Tid::of_row(at, last),
                    block: Tid::of_row(at, 0).block,
                    open: OpenChunk::new(reader, Snapshot::from_ptr(snapshot)),
                }
            });
        }
    }
}

impl SampledChunk {
    /// The next row that the method picks and the snapshot sees.
    ///
    /// # Safety
    /// `sample` must be that of the scan that runs, whose method core has begun. Within a guarded entry point.
    unsafe fn next(&mut self, sample: *mut pg_sys::SampleScanState) -> Option<u32> {
        // SAFETY: core set the method up before the scan.
        unsafe {
            let pick = (*(*sample).tsmroutine)
                .NextSampleTuple
                .expect("BUG: a sampling method without tuples");
            while self.block <= self.last.block {
                error::check_interrupts();
                let most = if self.block == self.last.block {
                    self.last.offset
                } else {
                    MAX_OFFSET
                };
                let offset = pg_sys::ffi::pg_guard_ffi_boundary(|| pick(sample, self.block, most));
                if offset == 0 {
                    self.block += 1;
                    continue;
                }
                let at = Tid {
                    block: self.block,
                    offset,
                };
                if at < self.first || at > self.last {
                    continue;
                }
                if let Some((_, row)) = at.row_of() {
                    if !self.open.is_hidden(row) {
                        return Some(row);
                    }
                }
            }
            None
        }
    }
}
