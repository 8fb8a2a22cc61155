//! VACUUM FULL and CLUSTER: chunks are copied to the new file first (`compact::rewrite`), then tail rows go
//! through core's rewriteheap.c, which appends to it, in the order of the index where there is one.

use super::series_index::build::AsBtree;
use crate::catalog::layout;
use crate::chunk::raw::{Cutoffs, RawPages};
use crate::chunk::slot;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::compact::rewrite::{self, Version};
use crate::pg::error;
use crate::pg::page::PageCursor;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::pg::unbound::{
    begin_heap_rewrite, end_heap_rewrite, rewrite_heap_dead_tuple, rewrite_heap_tuple, RewriteState,
};
use crate::table::flush;
use pgrx::pg_sys;
use pgrx::prelude::*;
use rustc_hash::FxHashMap;
use varve_columns::tuple::header;

/// Calls a function of core that pgrx does not wrap: its errors become panics.
macro_rules! guarded {
    ($call:expr) => {
        pg_sys::ffi::pg_guard_ffi_boundary(|| $call)
    };
}

// Phases and counters of pg_stat_progress_cluster, commands/progress.h.
const PROGRESS_PHASE: i32 = 1;
const PROGRESS_TUPLES_SCANNED: i32 = 3;
const PROGRESS_TUPLES_WRITTEN: i32 = 4;
const PROGRESS_TOTAL_BLOCKS: i32 = 5;
const PROGRESS_BLOCKS_SCANNED: i32 = 6;
const PHASE_SCAN_HEAP: i64 = 1;
const PHASE_SORT: i64 = 3;
const PHASE_WRITE: i64 = 4;

fn report(counter: i32, value: i64) {
    // SAFETY: writes this backend's own entry.
    unsafe { pg_sys::pgstat_progress_update_param(counter, value) }
}

#[derive(Default)]
struct Counts {
    copied: f64,
    vacuumed: f64,
    recently_dead: f64,
}

#[pg_guard]
#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
pub unsafe extern "C-unwind" fn relation_copy_for_cluster(
    old: pg_sys::Relation,
    new: pg_sys::Relation,
    index: pg_sys::Relation,
    use_sort: bool,
    oldest: pg_sys::TransactionId,
    freeze: *mut pg_sys::TransactionId,
    multi: *mut pg_sys::MultiXactId,
    tuples: *mut f64,
    vacuumed: *mut f64,
    recently_dead: *mut f64,
) {
    // SAFETY: open, or valid, until core's call returns.
    let old = unsafe { Table::from_ptr(old) };
    // SAFETY: open, or valid, until core's call returns.
    let new = unsafe { Table::from_ptr(new) };
    // SAFETY: open, or valid, until core's call returns.
    let index = (!index.is_null()).then(|| unsafe { Index::from_ptr(index) });
    // SAFETY: called by core with both relations locked exclusively; `new` is empty and of our method.
    unsafe {
        let mut counts = Counts::default();
        flush::before_rewrite(old);
        report(PROGRESS_PHASE, PHASE_SCAN_HEAP);
        copy_chunks(
            old,
            new,
            oldest,
            Cutoffs {
                relfrozenxid: old.class().relfrozenxid,
                relminmxid: old.class().relminmxid,
                freeze: *freeze,
                multi: *multi,
            },
            &mut counts,
        );
        let mut rows = Rows {
            old,
            new,
            oldest,
            rewrite: guarded!(begin_heap_rewrite(
                old.as_ptr(),
                new.as_ptr(),
                oldest,
                *freeze,
                *multi
            )),
            counts: &mut counts,
        };
        // nbtree's order can be sorted for; any other has to be read from the index.
        let is_sortable = |index: Index| {
            let method = index.class().relam;
            use_sort || method == pg_sys::BTREE_AM_OID || method == layout::index_am()
        };
        match index {
            Some(index) if is_sortable(index) => rows.copy_sorted(index),
            Some(index) => rows.copy_from_index(index),
            None => rows.scan(|rows, found| rows.rewrite(found)),
        }
        let rewrite = rows.rewrite;
        guarded!(end_heap_rewrite(rewrite));
        *tuples += counts.copied;
        *vacuumed += counts.vacuumed;
        *recently_dead += counts.recently_dead;
    }
}

/// Copies all chunks of which some header version is not dead to everybody.
///
/// # Safety
/// Both must be open and locked exclusively; `new` must have the columns of `old`, and an empty file that is new in this transaction. `oldest`
/// must be the horizon of `old`. Within a guarded entry point.
unsafe fn copy_chunks(
    old: Table<'_>,
    new: Table<'_>,
    oldest: pg_sys::TransactionId,
    cutoffs: Cutoffs,
    counts: &mut Counts,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut chunks: Vec<Vec<Version>> = Vec::new();
        let mut cursor = PageCursor::new(old);
        for block in 0..old.blocks() {
            error::check_interrupts();
            cursor.go(block);
            let buffer = cursor.buffer();
            cursor.locked(|page| {
                for item in page.tuples() {
                    let kind = classify(&item);
                    if kind == TupleKind::Row {
                        continue;
                    }
                    let mut found = item.to_heap_tuple(old.oid());
                    let state = state_of(&mut found, oldest, buffer, counts);
                    if kind != TupleKind::Header || state == State::Dead {
                        continue;
                    }
                    let id = header::chunk_id(item.body());
                    let at = *known.entry(id).or_insert(chunks.len());
                    if at == chunks.len() {
                        chunks.push(Vec::new());
                    }
                    let is_settled = transaction::precedes(tuple::xmin(item.header()), oldest);
                    chunks[at].push(Version {
                        at: item.tid,
                        state: match state {
                            State::Live if is_settled => rewrite::State::Settled,
                            State::Live => rewrite::State::Live,
                            _ => rewrite::State::Deleted,
                        },
                    });
                }
            });
        }
        cursor.release();
        let mut pages = RawPages::begin(new, cutoffs);
        for versions in &chunks {
            let rows = rewrite::copy_chunk(old, new, versions, oldest, &mut pages);
            counts.copied += f64::from(rows);
        }
        pages.finish();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Dead,
    /// Somebody may still see it, or it is not certain yet that nobody does.
    RecentlyDead,
    Live,
}

/// Whether a tuple on a locked page must be copied; counts it where it is dead or soon will be.
///
/// # Safety
/// `found` must be on the page in `buffer`, which is pinned and locked, of a table that is locked exclusively.
unsafe fn state_of(
    found: *mut pg_sys::HeapTupleData,
    oldest: pg_sys::TransactionId,
    buffer: pg_sys::Buffer,
    counts: &mut Counts,
) -> State {
    // SAFETY: the caller's contract. Nobody else can be at work under our lock: what is in progress is
    // this transaction's own.
    match unsafe { pg_sys::HeapTupleSatisfiesVacuum(found, oldest, buffer) } {
        pg_sys::HTSV_Result::HEAPTUPLE_DEAD => {
            counts.vacuumed += 1.0;
            State::Dead
        }
        pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD
        | pg_sys::HTSV_Result::HEAPTUPLE_DELETE_IN_PROGRESS => {
            counts.recently_dead += 1.0;
            State::RecentlyDead
        }
        _ => State::Live,
    }
}

/// Tail rows on their way to the new file.
struct Rows<'a> {
    old: Table<'a>,
    new: Table<'a>,
    oldest: pg_sys::TransactionId,
    rewrite: *mut RewriteState,
    counts: &'a mut Counts,
}

impl Rows<'_> {
    /// Shows every tail row that must be copied to `take`.
    ///
    /// # Safety
    /// `old` and `new` must be open and locked exclusively, and `rewrite` have begun from the one to the other, and not ended. `take` may not
    /// keep the tuple. Within a guarded entry point.
    unsafe fn scan(&mut self, mut take: impl FnMut(&mut Self, pg_sys::HeapTuple)) {
        // SAFETY: the table is open; the slot is of heap's own type.
        unsafe {
            let ops = core::ptr::addr_of!(pg_sys::TTSOpsBufferHeapTuple);
            let slot = pg_sys::MakeSingleTupleTableSlot(self.old.descriptor().as_ptr(), ops);
            let any = Snapshot::any();
            let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN | pg_sys::ScanOptions::SO_ALLOW_STRAT;
            let none = core::ptr::null_mut();
            let scan = pg_sys::heap_beginscan(
                self.old.as_ptr(),
                any.as_ptr(),
                0,
                none,
                core::ptr::null_mut(),
                flags,
            );
            report(PROGRESS_TOTAL_BLOCKS, i64::from(self.old.blocks()));
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while pg_sys::heap_getnextslot(scan, forward, slot) {
                error::check_interrupts();
                let found = (*slot::heap_part(slot)).base.tuple;
                let at = crate::pg::tid::from_pg(&(*found).t_self);
                report(PROGRESS_BLOCKS_SCANNED, i64::from(at.block) + 1);
                if self.must_copy(slot) {
                    take(self, found);
                }
            }
            pg_sys::heap_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        }
    }

    /// Is the tuple in the slot a row that somebody may still see?
    ///
    /// # Safety
    /// As `scan`; the slot must hold a tuple of `old`, on a pinned page.
    unsafe fn must_copy(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: the slot holds a tuple on a pinned page.
        unsafe {
            let found = (*slot::heap_part(slot)).base.tuple;
            let buffer = (*slot::heap_part(slot)).buffer;
            if super::scan::classify_slot(slot) != TupleKind::Row {
                return false;
            }
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state = state_of(found, self.oldest, buffer, self.counts);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            if state != State::Dead {
                self.counts.copied += 1.0;
                report(PROGRESS_TUPLES_SCANNED, self.counts.copied as i64);
                return true;
            }
            let rewrite = self.rewrite;
            if guarded!(rewrite_heap_dead_tuple(rewrite, found)) {
                self.counts.vacuumed += 1.0;
                self.counts.recently_dead -= 1.0;
            }
            false
        }
    }

    /// Writes one row, without the values of dropped columns.
    ///
    /// # Safety
    /// As `scan`; `found` must be a row of `old`, on a pinned page or in memory.
    unsafe fn rewrite(&mut self, found: pg_sys::HeapTuple) {
        // SAFETY: the tuple is of the old table, whose columns are those of the new one.
        unsafe {
            let descriptor = self.new.descriptor();
            let natts = descriptor.len();
            let mut values = vec![pg_sys::Datum::from(0usize); natts];
            let mut nulls = vec![true; natts];
            pg_sys::heap_deform_tuple(
                found,
                self.old.descriptor().as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            for (null, attribute) in nulls.iter_mut().zip(descriptor.attributes()) {
                *null |= attribute.attisdropped;
            }
            let copy = pg_sys::heap_form_tuple(
                descriptor.as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            let rewrite = self.rewrite;
            guarded!(rewrite_heap_tuple(rewrite, found, copy));
            pg_sys::heap_freetuple(copy);
            report(PROGRESS_TUPLES_WRITTEN, self.counts.copied as i64);
        }
    }

    /// Copies the rows in the order of an index, by sorting them.
    ///
    /// # Safety
    /// As `scan`; `index` must be open, and one of `old` with nbtree's pages and operator classes.
    unsafe fn copy_sorted(&mut self, index: Index<'_>) {
        // SAFETY: the index has nbtree's pages and operator classes.
        unsafe {
            // A series index has nbtree's pages and procedures; the sort insists on the name too.
            let _name = AsBtree::begin(index);
            let sort = pg_sys::tuplesort_begin_cluster(
                self.old.descriptor().as_ptr(),
                index.as_ptr(),
                pg_sys::maintenance_work_mem,
                core::ptr::null_mut(),
                0,
            );
            self.scan(|_, found| pg_sys::tuplesort_putheaptuple(sort, found));
            report(PROGRESS_PHASE, PHASE_SORT);
            pg_sys::tuplesort_performsort(sort);
            report(PROGRESS_PHASE, PHASE_WRITE);
            loop {
                error::check_interrupts();
                let found = pg_sys::tuplesort_getheaptuple(sort, true);
                if found.is_null() {
                    break;
                }
                self.rewrite(found);
            }
            pg_sys::tuplesort_end(sort);
        }
    }

    /// Copies the rows in the order of an index, by reading it.
    ///
    /// # Safety
    /// As `scan`; `index` must be open, and one of `old` that can be read in order.
    unsafe fn copy_from_index(&mut self, index: Index<'_>) {
        // SAFETY: the slot is of the table's type; index scans of a table show rows only.
        unsafe {
            let slot = pg_sys::table_slot_create(self.old.as_ptr(), core::ptr::null_mut());
            let any = Snapshot::any();
            let scan =
                pg_sys::index_beginscan(self.old.as_ptr(), index.as_ptr(), any.as_ptr(), 0, 0);
            pg_sys::index_rescan(scan, core::ptr::null_mut(), 0, core::ptr::null_mut(), 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while pg_sys::index_getnext_slot(scan, forward, slot) {
                error::check_interrupts();
                if self.must_copy(slot) {
                    let found = (*slot::heap_part(slot)).base.tuple;
                    self.rewrite(found);
                }
            }
            pg_sys::index_endscan(scan);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        }
    }
}
