//! Table callbacks for building and validating indexes. Ordinary indexes get the rows of the tail, under
//! the TIDs of their HOT roots; series indexes get chunk headers too.
//!
//! The callbacks carry no `#[pg_guard]`, and compute expressions and predicates by direct calls: an error in
//! them must reach core as it was raised, with its context and any SQLSTATE. It jumps over these frames, so
//! they hold plain values only; all other work is done in guarded functions.

mod rows;
mod validate;
mod visibility;

pub use validate::index_validate_scan;

use super::unique::{build, enter};
use crate::catalog::chunk_marker;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::unbound::FormIndexDatum;
use crate::unique::known;
use pgrx::pg_sys;
use pgrx::prelude::*;
use rows::{Blocks, Entry, Rows, Step};
use visibility::{Rule, VisibilityCheck};

pub unsafe extern "C-unwind" fn index_build_range_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    _allow_sync: bool,
    any_visible: bool,
    progress: bool,
    start: pg_sys::BlockNumber,
    count: pg_sys::BlockNumber,
    callback: pg_sys::IndexBuildCallback,
    state: *mut core::ffi::c_void,
    scan: pg_sys::TableScanDesc,
) -> f64 {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: called with open relations and, in a parallel build, a scan of ours; no value here
    // needs dropping.
    unsafe {
        let mut snapshot = core::ptr::null_mut();
        let rows = begin(
            table.as_ptr(),
            index.as_ptr(),
            info,
            any_visible,
            start,
            count,
            scan,
            &mut snapshot,
        );
        if !(*info).ii_Concurrent && !is_check(scan) && !known::are_unique() {
            build::verify(table, index, Snapshot::NONE);
        }
        if is_check(scan) && !enter::has_btree(index.as_ptr(), table.as_ptr()) {
            // It may have entries, and needs none.
            return end(rows, scan, snapshot);
        }
        let entry: *mut Entry = &mut (*rows).entry;
        let mut done = 0;
        loop {
            let step = next(rows);
            if progress && (*rows).pages_done != done {
                done = (*rows).pages_done;
                progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, done);
            }
            if step == Step::Done {
                break;
            }
            if step != Step::Chunk && !form(info, entry) || step == Step::Compressed {
                continue;
            }
            if let Some(callback) = callback {
                let values = (*entry).values.as_mut_ptr();
                let nulls = (*entry).nulls.as_mut_ptr();
                let alive = (*entry).alive;
                callback(
                    index.as_ptr(),
                    &mut (*entry).at,
                    values,
                    nulls,
                    alive,
                    state,
                );
            }
        }
        end(rows, scan, snapshot)
    }
}

/// Is a serial scan given, as by amcheck, which compares the entries of an index that is there? A build gives none, or a parallel one.
///
/// # Safety
/// `scan` must be null, or come from `scan_begin` and not have ended.
unsafe fn is_check(scan: pg_sys::TableScanDesc) -> bool {
    // SAFETY: null, or a scan that `scan_begin` made.
    unsafe { !scan.is_null() && (*scan).rs_parallel.is_null() }
}

/// Computes the values of a row that is in the slot; false where the index leaves it out.
///
/// # Safety
/// `entry` must be of a walk that `begin` has begun for `info`, with a row in its slot. Errors jump over the caller's frames, which must hold
/// nothing that needs dropping.
unsafe fn form(info: *mut pg_sys::IndexInfo, entry: *mut Entry) -> bool {
    // SAFETY: the predicate was made by ExecPrepareQual; a qual is never null.
    unsafe {
        let predicate = (*entry).predicate;
        if !predicate.is_null() {
            let short_lived = (*(*entry).context).ecxt_per_tuple_memory;
            let old = pg_sys::MemoryContextSwitchTo(short_lived);
            let mut isnull = false;
            let evaluate = (*predicate).evalfunc;
            let holds =
                evaluate.is_some_and(|f| f(predicate, (*entry).context, &mut isnull).value() != 0);
            pg_sys::MemoryContextSwitchTo(old);
            if !holds {
                return false;
            }
        }
        let values = (*entry).values.as_mut_ptr();
        let nulls = (*entry).nulls.as_mut_ptr();
        FormIndexDatum(info, (*entry).slot, (*entry).estate, values, nulls);
        true
    }
}

#[expect(clippy::too_many_arguments, reason = "what the callback was given")]
#[pg_guard]
unsafe extern "C-unwind" fn begin(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    any_visible: bool,
    start: pg_sys::BlockNumber,
    count: pg_sys::BlockNumber,
    scan: pg_sys::TableScanDesc,
    snapshot: *mut pg_sys::Snapshot,
) -> *mut Rows<'static> {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: called by `index_build_range_scan` with what it was given: the IndexInfo is that of the build, the scan null or one of ours.
    unsafe {
        crate::ingest::batch::flush_table(table);
        let checks = is_check(scan);
        if pg_sys::ParallelWorkerNumber < 0 && !checks {
            chunk_marker::mark_if_alone(table);
        }
        let concurrent = (*info).ii_Concurrent;
        let range = || start..table.blocks().min(start.saturating_add(count));
        let blocks = if scan.is_null() {
            if concurrent {
                *snapshot = pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot());
            }
            Blocks::Range(range())
        } else {
            *snapshot = (*scan).rs_snapshot;
            if checks {
                Blocks::Range(range())
            } else {
                Blocks::parallel(scan)
            }
        };
        let rule = if concurrent {
            Rule::Snapshot(Snapshot::from_ptr(*snapshot))
        } else {
            Rule::Horizon(pg_sys::GetOldestNonRemovableTransactionId(table.as_ptr()))
        };
        let visibility = VisibilityCheck {
            table,
            info,
            rule,
            any_visible,
            checks,
        };
        progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, table.blocks());
        Rows::begin(index, visibility, blocks)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn next(rows: *mut Rows) -> Step {
    // SAFETY: made by `begin`.
    unsafe { (*rows).step() }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(
    rows: *mut Rows,
    scan: pg_sys::TableScanDesc,
    snapshot: pg_sys::Snapshot,
) -> f64 {
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: as above; a scan that was given comes with its own snapshot, and is ended here in any case.
    unsafe {
        (*rows).finish();
        if !scan.is_null() {
            super::scan::scan_end(scan);
        } else if !snapshot.is_none() {
            pg_sys::UnregisterSnapshot(snapshot.as_ptr());
        }
        (*rows).counted
    }
}

fn progress_param(parameter: u32, value: u32) {
    // SAFETY: writes a counter of this backend.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
}
