//! Fetching single rows: by index entry, by TID and snapshot, and checks of TIDs.

use super::scan::{classify_slot, VarveScan};
use super::slot;
use crate::pg::heap::heap_callback;
use crate::pg::memory;
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::storage::kind::Found;
use crate::storage::reader::Reader;
use crate::storage::registry;
use crate::table::changes;
use crate::table::crosscheck;
use crate::table::follow;
use crate::table::open::{visible_row, OpenChunk};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::rc::Rc;

#[repr(C)]
struct VarveFetch {
    base: pg_sys::IndexFetchTableData,
    heap: *mut pg_sys::IndexFetchTableData,
    /// The chunks of the latest compressed rows, the last one last, good for the same snapshot.
    recent: *mut Vec<RecentChunk>,
}

/// Chunks that a fetch keeps open: an ordered scan goes back and forth between those that overlap.
pub const RECENT_CHUNKS: usize = 32;
/// What they may take, besides a block of each column of each of them.
const RECENT_BYTES: usize = 32 << 20;

struct RecentChunk {
    header: Tid,
    snapshot: (pg_sys::Snapshot, pg_sys::CommandId),
    open: Rc<OpenChunk>,
}

/// Adds a chunk that is none of the recent ones.
fn remember(recent: &mut Vec<RecentChunk>, chunk: RecentChunk) {
    if recent.len() == RECENT_CHUNKS {
        // The scan may hold on to it.
        recent.remove(0).open.reader.shrink();
    }
    let bytes = recent.iter().map(|chunk| chunk.open.reader.kept_bytes());
    if bytes.sum::<usize>() > RECENT_BYTES {
        recent.iter().for_each(|chunk| chunk.open.reader.trim());
    }
    recent.push(chunk);
}

/// Lets a fetch know a chunk that an index scan has opened for the same snapshot, and returns rows of.
///
/// # Safety
/// `fetch` must come from `index_fetch_begin`, `snapshot` must be the scan's.
pub unsafe fn offer(
    fetch: *mut pg_sys::IndexFetchTableData,
    snapshot: pg_sys::Snapshot,
    open: &Rc<OpenChunk>,
) {
    // SAFETY: by contract.
    unsafe {
        let chunk = RecentChunk {
            header: open.reader.chunk.tid,
            snapshot: (snapshot, (*snapshot).curcid),
            open: Rc::clone(open),
        };
        let recent = &mut *(*fetch.cast::<VarveFetch>()).recent;
        recent.retain(|known| known.header != chunk.header);
        remember(recent, chunk);
    }
}

/// Lets a fetch forget a chunk that an index scan has left.
///
/// # Safety
/// As `offer`.
pub unsafe fn leave(fetch: *mut pg_sys::IndexFetchTableData, open: &OpenChunk) {
    // SAFETY: by contract.
    let recent = unsafe { &mut *(*fetch.cast::<VarveFetch>()).recent };
    recent.retain(|known| known.header != open.reader.chunk.tid);
}

/// Lets a fetch know the chunk of a row that was found to be there and changed by nobody (`keys::find`). It is fetched next, if at all.
///
/// # Safety
/// `fetch` must come from `index_fetch_begin`.
pub unsafe fn offer_unchanged(fetch: *mut pg_sys::IndexFetchTableData, reader: Rc<Reader>) {
    // SAFETY: by contract.
    unsafe {
        let none = core::ptr::null_mut();
        let chunk = RecentChunk {
            header: reader.chunk.tid,
            snapshot: (none, 0),
            open: Rc::new(OpenChunk::new(reader, none)),
        };
        remember(&mut *(*fetch.cast::<VarveFetch>()).recent, chunk);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_begin(
    table: pg_sys::Relation,
) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: called by core with an open relation.
    unsafe {
        #[cfg(not(any(feature = "pg14", feature = "pg15")))]
        super::search::refuse_partial_index(table);
        super::keys::arm(table);
        let fetch: *mut VarveFetch = pg_sys::palloc0(core::mem::size_of::<VarveFetch>()).cast();
        (*fetch).base.rel = table;
        (*fetch).heap = heap_callback!(index_fetch_begin, table);
        (*fetch).recent = memory::own(pg_sys::CurrentMemoryContext, Vec::new());
        fetch.cast()
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_reset(fetch: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: called by core with what `index_fetch_begin` returned.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        (*own.recent).clear();
        heap_callback!(index_fetch_reset, own.heap);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_end(fetch: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: as above; the box of `recent` goes with its context.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        (*own.recent).clear();
        heap_callback!(index_fetch_end, own.heap);
        pg_sys::pfree(fetch.cast());
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_tuple(
    fetch: *mut pg_sys::IndexFetchTableData,
    item: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    call_again: *mut bool,
    all_dead: *mut bool,
) -> bool {
    // SAFETY: called by core with a slot of ours.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        let table = own.base.rel;
        let at = tid::read(item);
        changes::check_readable(table, snapshot);
        if !at.is_virtual() {
            let heap = own.heap;
            let found = slot::as_heap(slot, || {
                heap_callback!(
                    index_fetch_tuple,
                    heap,
                    item,
                    snapshot,
                    slot,
                    call_again,
                    all_dead
                )
            });
            return found && classify_slot(slot) == Found::Row;
        }
        *call_again = false;
        if !all_dead.is_null() {
            *all_dead = false;
        }
        let Some((header, row)) = at.row_of() else {
            return false;
        };
        if (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY {
            return fetch_unchanged(own, at, snapshot, slot);
        }
        let stamp = (snapshot, (*snapshot).curcid);
        let recent = &mut *own.recent;
        let fits = |chunk: &RecentChunk| chunk.header == header && chunk.snapshot == stamp;
        if !recent.last().is_some_and(fits) {
            match recent.iter().position(fits) {
                Some(known) => recent[known..].rotate_left(1),
                None => match registry::reader_at(table, header, snapshot) {
                    Some(reader) => {
                        let chunk = RecentChunk {
                            header,
                            snapshot: stamp,
                            open: Rc::new(OpenChunk::new(reader, snapshot)),
                        };
                        remember(recent, chunk);
                    }
                    None => return false,
                },
            }
        }
        match recent.last() {
            Some(last) if row < last.open.reader.rows() && !last.open.is_hidden(row) => {
                slot::store_row(slot, &last.open.reader, row, relation::oid(table));
                true
            }
            _ => false,
        }
    }
}

/// Fetches a row that was found to be there and changed by nobody (`keys::find`).
unsafe fn fetch_unchanged(
    fetch: &VarveFetch,
    at: Tid,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the caller's contract; a dirty snapshot is its owner's to be written to.
    unsafe {
        (*snapshot).xmin = pg_sys::InvalidTransactionId;
        (*snapshot).xmax = pg_sys::InvalidTransactionId;
        (*snapshot).speculativeToken = 0;
        let (table, any) = (
            fetch.base.rel,
            core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData),
        );
        let offered = (*fetch.recent)
            .last()
            .filter(|chunk| chunk.snapshot.0.is_null());
        let found = match (offered, at.row_of()) {
            (Some(chunk), Some((header, row))) if chunk.header == header => {
                Some((Rc::clone(&chunk.open.reader), row))
            }
            _ => visible_row(table, at, any),
        };
        if let Some((reader, row)) = &found {
            slot::store_row(slot, reader, *row, relation::oid(table));
        }
        found.is_some()
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_fetch_row_version(
    table: pg_sys::Relation,
    item: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core with a slot of ours.
    unsafe {
        let at = tid::read(item);
        if !at.is_virtual() {
            let found = slot::as_heap(slot, || {
                heap_callback!(tuple_fetch_row_version, table, item, snapshot, slot)
            });
            if found && classify_slot(slot) != Found::Row {
                slot::clear_slot(slot);
                return false;
            }
            return found;
        }
        match visible_row(table, at, snapshot) {
            Some((reader, row)) => {
                slot::store_row(slot, &reader, row, relation::oid(table));
                true
            }
            None => false,
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_tid_valid(
    scan: pg_sys::TableScanDesc,
    item: pg_sys::ItemPointer,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let at = tid::read(item);
        match at.row_of() {
            Some((header, _)) => header.block < relation::blocks(own.base.rs_rd),
            None => !at.is_virtual() && heap_callback!(tuple_tid_valid, own.heap, item),
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_get_latest_tid(
    scan: pg_sys::TableScanDesc,
    item: pg_sys::ItemPointer,
) {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let base = &VarveScan::of(scan).base;
        if let Some(at) = follow::latest(base.rs_rd, tid::read(item), base.rs_snapshot) {
            *item = tid::to_pg(at);
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tuple_satisfies_snapshot(
    table: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: called by core with a slot that holds a row of this table.
    unsafe {
        let at = tid::from_pg(&(*slot).tts_tid);
        if at.is_virtual() {
            visible_row(table, at, snapshot).is_some()
                || crosscheck::sees_row_of_newer(table, at, snapshot)
        } else {
            heap_callback!(tuple_satisfies_snapshot, table, slot, snapshot)
        }
    }
}
