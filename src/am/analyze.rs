//! ANALYZE: a sampled page gives its tail rows as heap does; of each chunk whose header is on it some
//! rows are shown, spread over the chunk, and all are counted.

use super::scan::{classify_slot, VarveScan};
use super::slot;
use crate::pg::heap::heap_callback;
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::storage::kind::Found;
use crate::storage::registry;
use crate::table::open::OpenChunk;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Rows of a chunk that ANALYZE gets to see at least.
const SHOWN_ROWS: u32 = 256;
/// Rows that core samples per unit of `default_statistics_target`.
const SAMPLED_ROWS: f64 = 300.0;

/// Rows of a chunk of `rows` to show: all of them as long as core would sample the whole table.
unsafe fn shown_rows(table: pg_sys::Relation, rows: u32) -> u32 {
    // SAFETY: called with the open relation of a scan.
    let share = unsafe {
        let (mut pages, mut total, mut visible) = (0, 0.0, 0.0);
        let widths = core::ptr::null_mut();
        super::ddl::relation_estimate_size(table, widths, &mut pages, &mut total, &mut visible);
        SAMPLED_ROWS * f64::from(pg_sys::default_statistics_target) / total.max(1.0)
    };
    ((f64::from(rows) * share).min(f64::from(rows)) as u32).max(SHOWN_ROWS)
}

#[derive(Default)]
pub struct AnalyzeState {
    page_done: bool,
    headers: Vec<Tid>,
    /// The chunk being shown, its next row, and the distance to the one after.
    chunk: Option<(OpenChunk, u32, u32)>,
}

#[cfg(any(feature = "pg14", feature = "pg15", feature = "pg16"))]
#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_block(
    scan: pg_sys::TableScanDesc,
    block: pg_sys::BlockNumber,
    strategy: pg_sys::BufferAccessStrategy,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        own.state().analyze = AnalyzeState::default();
        heap_callback!(scan_analyze_next_block, own.heap, block, strategy)
    }
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_block(
    scan: pg_sys::TableScanDesc,
    stream: *mut pg_sys::ReadStream,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        own.state().analyze = AnalyzeState::default();
        heap_callback!(scan_analyze_next_block, own.heap, stream)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_tuple(
    scan: pg_sys::TableScanDesc,
    oldest: pg_sys::TransactionId,
    live: *mut f64,
    dead: *mut f64,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core for a scan of ours with a slot of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let state = &mut own.state().analyze;
        let heap = own.heap;
        // Heap keeps its page locked from call to call: headers are opened when it is through.
        while !state.page_done {
            let found = slot::as_heap(slot, || {
                heap_callback!(scan_analyze_next_tuple, heap, oldest, live, dead, slot)
            });
            if !found {
                state.page_done = true;
                break;
            }
            match classify_slot(slot) {
                Found::Row => return true,
                Found::Skip => *live -= 1.0,
                Found::Header => {
                    *live -= 1.0;
                    let found = &*(*slot::heap_part(slot)).base.tuple;
                    state.headers.push(tid::from_pg(&found.t_self));
                }
            }
        }
        slot::clear_slot(slot);
        loop {
            if let Some((open, next, step)) = &mut state.chunk {
                while *next < open.reader.rows() {
                    let row = *next;
                    *next += *step;
                    if !open.is_hidden(row) {
                        slot::store_row(slot, &open.reader, row, relation::oid(own.base.rs_rd));
                        return true;
                    }
                }
                state.chunk = None;
            }
            let Some(at) = state.headers.pop() else {
                return false;
            };
            let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
            if let Some(reader) = registry::reader_at(own.base.rs_rd, at, any) {
                let rows = reader.rows();
                *live += f64::from(rows - reader.chunk.header.deleted);
                *dead += f64::from(reader.chunk.header.deleted);
                let step = rows.div_ceil(shown_rows(own.base.rs_rd, rows)).max(1);
                let start = at.block.wrapping_mul(2_654_435_761) % step;
                let mut self_snapshot = registry::dirty_snapshot();
                let open = OpenChunk::new(reader, &mut self_snapshot);
                state.chunk = Some((open, start, step));
            }
        }
    }
}
