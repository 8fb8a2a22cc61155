//! A unique index that is built on a table with chunks. btree sees to it that no two rows of the tail have one key; here all
//! rows, compressed ones too, go through the sort of an index build once more, which raises its own error for two that are
//! equal. What it sorts is thrown away.

use crate::am::scan;
use crate::catalog::{chunk_marker, layout};
use crate::chunk::slot;
use crate::pg::error;
use crate::pg::nbtree;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::unbound::{tuplesort_performsort, tuplesort_putindextuplevalues};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// What a verification works with. Plain values: an error of the sort jumps over the frame that holds them.
#[repr(C)]
struct Work {
    sort: *mut pg_sys::Tuplesortstate,
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    item: pg_sys::ItemPointerData,
    values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
}

/// Raises an error where two rows of the table have the same key in a unique index, one of them or both in chunks. By
/// `snapshot`; without one nobody else can change the table.
///
/// # Safety
/// Both must be open, and the caller's frames hold nothing that needs dropping.
pub unsafe fn verify(table: Table<'_>, index: Index<'_>, snapshot: Snapshot<'_>) {
    // SAFETY: by contract; no value here needs dropping.
    unsafe {
        let work = begin(table.as_ptr(), index.as_ptr(), snapshot.as_ptr());
        if work.is_null() {
            return;
        }
        while next(index.as_ptr(), work) {
            let (values, nulls) = (&raw mut (*work).values, &raw mut (*work).nulls);
            let item = &raw mut (*work).item;
            tuplesort_putindextuplevalues(
                (*work).sort,
                index.as_ptr(),
                item,
                values.cast(),
                nulls.cast(),
            );
        }
        tuplesort_performsort((*work).sort);
        end(work);
    }
}

/// Null where there is nothing to verify.
#[pg_guard]
unsafe extern "C-unwind" fn begin(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
) -> *mut Work {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by `verify`, with open relations. Workers of a parallel build leave this to their leader.
    unsafe {
        let concerned = index.form().indisunique
            && pg_sys::ParallelWorkerNumber < 0
            && chunk_marker::is_marked(table)
            && layout::is_plain_key(index);
        if !concerned {
            return core::ptr::null_mut();
        }
        let snapshot = if snapshot.is_none() {
            Snapshot::now()
        } else {
            snapshot
        };
        let work: *mut Work = pg_sys::palloc0(core::mem::size_of::<Work>()).cast();
        (*work).sort = begin_sort(table, index);
        let (none, alone) = (core::ptr::null_mut(), core::ptr::null_mut());
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
        (*work).scan = scan::scan_begin(table.as_ptr(), snapshot.as_ptr(), 0, none, alone, flags);
        (*work).slot = pg_sys::table_slot_create(table.as_ptr(), core::ptr::null_mut());
        work
    }
}

/// # Safety
/// Both must be open, and `index` be a unique one of btree of that table. Within a guarded entry point.
unsafe fn begin_sort(table: Table<'_>, index: Index<'_>) -> *mut pg_sys::Tuplesortstate {
    let alone = core::ptr::null_mut();
    // SAFETY: the caller's contract.
    unsafe {
        let memory = pg_sys::maintenance_work_mem;
        pg_sys::tuplesort_begin_index_btree(
            table.as_ptr(),
            index.as_ptr(),
            true,
            false,
            memory,
            alone,
            0,
        )
    }
}

/// Goes on to the next row.
#[pg_guard]
unsafe extern "C-unwind" fn next(index: pg_sys::Relation, work: *mut Work) -> bool {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: made by `begin`; the index is over columns only.
    unsafe {
        error::check_interrupts();
        let (work, forward) = (&mut *work, pg_sys::ScanDirection::ForwardScanDirection);
        if !scan::scan_getnextslot(work.scan, forward, work.slot) {
            return false;
        }
        slot::deform_all(work.slot);
        let columns = layout::all_index_columns(index);
        for (at, column) in columns.iter().enumerate() {
            let column = usize::from(*column) - 1;
            work.values[at] = *(*work.slot).tts_values.add(column);
            work.nulls[at] = *(*work.slot).tts_isnull.add(column);
        }
        let count = columns.len();
        nbtree::expect_short(index, &mut work.values[..count], &mut work.nulls[..count]);
        // Columns that are only carried along do not matter.
        let keys = index.form().indnkeyatts as usize;
        work.nulls[keys..].fill(true);
        work.item = (*work.slot).tts_tid;
        true
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(work: *mut Work) {
    // SAFETY: made by `begin`.
    unsafe {
        scan::scan_end((*work).scan);
        pg_sys::ExecDropSingleTupleTableSlot((*work).slot);
        pg_sys::tuplesort_end((*work).sort);
        pg_sys::pfree(work.cast());
    }
}
