//! Fetching single rows: by index entry, by TID and snapshot, and checks of TIDs.

use super::scan::{classify_slot, VarveScan};
use crate::chunk::chunk_cache;
use crate::chunk::index_entries::header_of_entry;
use crate::chunk::slot;
use crate::chunk::tuple_kind::TupleKind;
use crate::pg::heap::heap_callback;
use crate::pg::memory;
use crate::pg::relation::Table;
use crate::pg::snapshot::{Snapshot, Stamp};
use crate::pg::tid::{self, Tid};
use crate::table::changes;
use crate::table::crosscheck;
use crate::table::fetched::{remember, Recent, RecentChunk, VarveFetch};
use crate::table::follow;
use crate::table::visible::{visible_row, OpenChunk};
use crate::unique::bypass;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::rc::Rc;

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_begin(
    table: pg_sys::Relation,
) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with an open relation.
    unsafe {
        #[cfg(feature = "pg17")]
        super::search::refuse_partial_index(table);
        super::unique::intercept::intercept(table);
        let fetch: *mut VarveFetch = pg_sys::palloc0(core::mem::size_of::<VarveFetch>()).cast();
        (*fetch).base.rel = table.as_ptr();
        (*fetch).heap = heap_callback!(index_fetch_begin, table.as_ptr());
        (*fetch).added = memory::own(pg_sys::CurrentMemoryContext, Recent::new());
        fetch.cast()
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_reset(fetch: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: called by core with what `index_fetch_begin` returned.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        (*own.added).clear();
        heap_callback!(index_fetch_reset, own.heap);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_fetch_end(fetch: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: as above; the box of `added` goes with its context.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        (*own.added).clear();
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
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by core with a slot of ours.
    unsafe {
        let own = &mut *fetch.cast::<VarveFetch>();
        let table = Table::from_ptr(own.base.rel);
        let at = tid::read(item);
        changes::check_readable(table, snapshot);
        if !at.is_virtual() {
            let heap = own.heap;
            let found = slot::as_heap(slot, || {
                heap_callback!(
                    index_fetch_tuple,
                    heap,
                    item,
                    snapshot.as_ptr(),
                    slot,
                    call_again,
                    all_dead
                )
            });
            return found && classify_slot(slot) == TupleKind::Row;
        }
        *call_again = false;
        if !all_dead.is_null() {
            *all_dead = false;
        }
        if bypass::is_bypassed() && header_of_entry(at).is_some() {
            // nbtree looks for other rows of a key in a series index, and has come to a chunk, which `unique::find` looks into.
            return false;
        }
        let Some((header, row)) = at.row_of() else {
            return false;
        };
        if snapshot.is_dirty() {
            return fetch_unchanged(own, at, snapshot, slot);
        }
        let stamp = snapshot.stamp();
        let recent = &mut *own.added;
        let fits = |chunk: &RecentChunk| chunk.header == header && chunk.snapshot == stamp;
        if !recent.last().is_some_and(fits) {
            match recent.iter().position(fits) {
                Some(known) => recent[known..].rotate_left(1),
                None => match chunk_cache::reader_at(table, header, snapshot) {
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
                slot::store_row(slot, &last.open.reader, row, table.oid());
                true
            }
            _ => false,
        }
    }
}

/// Fetches a row that was found to be there and changed by nobody (`unique::find`).
///
/// # Safety
/// `fetch` must come from `index_fetch_begin`, with its table still open; `snapshot` must be a dirty one, which is written to; `slot` must be a
/// live slot of ours. Within a guarded entry point.
unsafe fn fetch_unchanged(
    fetch: &VarveFetch,
    at: Tid,
    snapshot: Snapshot<'_>,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the caller's contract; a dirty snapshot is its owner's to be written to.
    unsafe {
        snapshot.clear_answer();
        (*snapshot.as_ptr()).speculativeToken = 0;
        let (table, any) = (Table::from_ptr(fetch.base.rel), Snapshot::any());
        let offered = (*fetch.added)
            .last()
            .filter(|chunk| chunk.snapshot == Stamp::NONE);
        let found = match (offered, at.row_of()) {
            (Some(chunk), Some((header, row))) if chunk.header == header => {
                Some((Rc::clone(&chunk.open.reader), row))
            }
            _ => visible_row(table, at, any),
        };
        if let Some((reader, row)) = &found {
            slot::store_row(slot, reader, *row, table.oid());
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
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by core with a slot of ours.
    unsafe {
        let at = tid::read(item);
        if !at.is_virtual() {
            let found = slot::as_heap(slot, || {
                heap_callback!(
                    tuple_fetch_row_version,
                    table.as_ptr(),
                    item,
                    snapshot.as_ptr(),
                    slot
                )
            });
            if found && classify_slot(slot) != TupleKind::Row {
                slot::clear_slot(slot);
                return false;
            }
            return found;
        }
        // Who asks by ctid has read nothing of the table before.
        table.note_reader(snapshot);
        match visible_row(table, at, snapshot) {
            Some((reader, row)) => {
                slot::store_row(slot, &reader, row, table.oid());
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
            Some((header, _)) => header.block < Table::from_ptr(own.base.rs_rd).blocks(),
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
        if let Some(at) = follow::latest(
            Table::from_ptr(base.rs_rd),
            tid::read(item),
            Snapshot::from_ptr(base.rs_snapshot),
        ) {
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
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by core with a slot that holds a row of this table.
    unsafe {
        let at = tid::from_pg(&(*slot).tts_tid);
        if at.is_virtual() {
            visible_row(table, at, snapshot).is_some()
                || crosscheck::sees_row_of_newer(table, at, snapshot)
        } else {
            heap_callback!(
                tuple_satisfies_snapshot,
                table.as_ptr(),
                slot,
                snapshot.as_ptr()
            )
        }
    }
}
