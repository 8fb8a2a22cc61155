//! Table callbacks for building and validating indexes. Ordinary indexes get the rows of the tail, under
//! the TIDs of their HOT roots; series indexes get chunk headers too. The rules about tuples of running
//! transactions are those of PostgreSQL's heap.

use super::scan::{classify, Found, VarveScan};
use super::series_index::is_series_index;
use super::slot;
use crate::pg::error::{self, Code};
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::pg::tuple;
use crate::storage::read::{Chunk, Reader};
use crate::table::{changes, series};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::HashSet;
use std::rc::Rc;

/// More line pointers than a page has.
const MAX_OFFSETS: usize = 512;

/// What goes into an index, and the executor state that makes its values.
struct Target {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    takes_headers: bool,
    estate: *mut pg_sys::EState,
    context: *mut pg_sys::ExprContext,
    predicate: *mut pg_sys::ExprState,
    slot: *mut pg_sys::TupleTableSlot,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl Target {
    unsafe fn new(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        info: *mut pg_sys::IndexInfo,
    ) -> Target {
        // SAFETY: called from callbacks with open relations.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let mut context = (*estate).es_per_tuple_exprcontext;
            if context.is_null() {
                context = pg_sys::MakePerTupleExprContext(estate);
            }
            let slot = pg_sys::table_slot_create(table, core::ptr::null_mut());
            (*context).ecxt_scantuple = slot;
            Target {
                table,
                index,
                info,
                takes_headers: is_series_index(index),
                estate,
                context,
                predicate: pg_sys::ExecPrepareQual((*info).ii_Predicate, estate),
                slot,
                values: vec![pg_sys::Datum::from(0usize); pg_sys::INDEX_MAX_KEYS as usize],
                nulls: vec![true; pg_sys::INDEX_MAX_KEYS as usize],
            }
        }
    }

    /// Computes the index's values for a row on a pinned page; false where the index leaves it out.
    unsafe fn form(&mut self, item: PageTuple, buffer: pg_sys::Buffer) -> bool {
        // SAFETY: the page is pinned.
        unsafe {
            pg_sys::MemoryContextReset((*self.context).ecxt_per_tuple_memory);
            let mut found = item.to_heap_tuple(relation::oid(self.table));
            let slot = self.slot;
            slot::as_heap(slot, || {
                pg_sys::ExecStoreBufferHeapTuple(&mut found, slot, buffer)
            });
            // The slot points to a descriptor of ours: it must not outlive this call.
            if !self.predicate_holds() {
                slot::clear_slot(slot);
                return false;
            }
            pg_sys::FormIndexDatum(
                self.info,
                slot,
                self.estate,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
            true
        }
    }

    /// Computes expressions and predicate of an index for the rows of a chunk, which it does not take: what they raise for one
    /// of them they raise before the index is there.
    unsafe fn evaluate_rows(&mut self, item: PageTuple) {
        // SAFETY: the page is pinned.
        unsafe {
            if (*self.info).ii_Expressions.is_null() && (*self.info).ii_Predicate.is_null() {
                return;
            }
            let (reader, slot) = (self.open(item), self.slot);
            for row in 0..reader.rows() {
                if reader.chunk.map.contains(row) || changes::entry(&reader.chunk, row).is_some() {
                    continue;
                }
                error::check_interrupts();
                pg_sys::MemoryContextReset((*self.context).ecxt_per_tuple_memory);
                slot::store_row(slot, &reader, row, relation::oid(self.table));
                if self.predicate_holds() {
                    let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
                    pg_sys::FormIndexDatum(self.info, slot, self.estate, values, nulls);
                }
                slot::clear_slot(slot);
            }
        }
    }

    /// Evaluates the predicate of a partial index for the row in the slot.
    unsafe fn predicate_holds(&self) -> bool {
        if self.predicate.is_null() {
            return true;
        }
        // SAFETY: a qual that ExecPrepareQual made ready; a qual is never null.
        unsafe {
            let evaluate = (*self.predicate)
                .evalfunc
                .expect("BUG: predicate is not ready");
            let short_lived = (*self.context).ecxt_per_tuple_memory;
            let mut isnull = false;
            let holds = crate::pg::memory::within(short_lived, || {
                pg_sys::ffi::pg_guard_ffi_boundary(|| {
                    evaluate(self.predicate, self.context, &mut isnull)
                })
            });
            holds.value() as u8 != 0
        }
    }

    /// Opens the chunk of a header tuple on a pinned page.
    unsafe fn open(&self, item: PageTuple) -> Rc<Reader> {
        // SAFETY: the page is pinned.
        unsafe {
            match Chunk::open(self.table, item.tid, item.header, item.len) {
                Ok(chunk) => Reader::new(chunk),
                Err(damage) => {
                    super::scan::raise(self.table, item.tid, item.header, item.len, &damage)
                }
            }
        }
    }

    /// Raises an error where the index promises something about all rows, chunks or not.
    unsafe fn refuse_chunks(&self) {
        // SAFETY: the table is open.
        unsafe {
            if !(*self.info).ii_Unique && (*self.info).ii_ExclusionOps.is_null() {
                return;
            }
            error::raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "cannot create a unique index or exclusion constraint on table \"{}\": it has compressed rows",
                    relation::name(self.table)
                ),
                "Such an index covers rows of the tail only.",
                "Create the constraint before loading: the table then keeps its rows in the tail. Or copy the rows to a new table that has it.",
            )
        }
    }

    unsafe fn finish(self) {
        // SAFETY: made by `new`; the predicate goes with the executor state.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::FreeExecutorState(self.estate);
            (*self.info).ii_ExpressionsState = core::ptr::null_mut();
            (*self.info).ii_PredicateState = core::ptr::null_mut();
        }
    }
}

/// Where an index build gets its pages from.
enum Blocks {
    Range(core::ops::Range<u32>),
    Parallel(pg_sys::HeapScanDesc, pg_sys::ParallelBlockTableScanDesc),
}

impl Blocks {
    unsafe fn parallel(scan: pg_sys::TableScanDesc) -> Blocks {
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

/// Which tuples a build takes.
enum Rule {
    /// All that somebody may still see, by the horizon.
    Horizon(pg_sys::TransactionId),
    Snapshot(pg_sys::Snapshot),
}

/// What to do with a tuple.
enum Verdict {
    Skip,
    Take {
        alive: bool,
        counts: bool,
    },
    /// Look again when this transaction is over.
    Wait(pg_sys::TransactionId),
}

/// Takes an entry: TID, values, nulls, and whether its tuple is alive.
type Deliver<'a> = dyn FnMut(Tid, &mut [pg_sys::Datum], &mut [bool], bool) + 'a;

struct Build {
    target: Target,
    rule: Rule,
    any_visible: bool,
}

impl Build {
    /// Judges a tuple whose page is pinned and share-locked.
    unsafe fn judge(&mut self, item: PageTuple, buffer: pg_sys::Buffer) -> Verdict {
        // SAFETY: by contract.
        unsafe {
            let mut found = item.to_heap_tuple(relation::oid(self.target.table));
            let horizon = match self.rule {
                Rule::Snapshot(snapshot) => {
                    let seen = pg_sys::HeapTupleSatisfiesVisibility(&mut found, snapshot, buffer);
                    return if seen {
                        Verdict::Take {
                            alive: true,
                            counts: true,
                        }
                    } else {
                        Verdict::Skip
                    };
                }
                Rule::Horizon(horizon) => horizon,
            };
            let hot = tuple::is_hot_updated(item.header);
            match pg_sys::HeapTupleSatisfiesVacuum(&mut found, horizon, buffer) {
                pg_sys::HTSV_Result::HEAPTUPLE_DEAD => Verdict::Skip,
                pg_sys::HTSV_Result::HEAPTUPLE_LIVE => Verdict::Take {
                    alive: true,
                    counts: true,
                },
                pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD if hot => self.broken_chain(),
                pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD => Verdict::Take {
                    alive: false,
                    counts: false,
                },
                pg_sys::HTSV_Result::HEAPTUPLE_INSERT_IN_PROGRESS => self.judge_insert(item),
                _ => self.judge_delete(item, hot),
            }
        }
    }

    /// An old version with a successor on its page that may have other keys: leave it to transactions
    /// that are not allowed to use the index.
    unsafe fn broken_chain(&mut self) -> Verdict {
        // SAFETY: the build owns the IndexInfo.
        unsafe { (*self.target.info).ii_BrokenHotChain = true };
        Verdict::Skip
    }

    unsafe fn judge_insert(&self, item: PageTuple) -> Verdict {
        // SAFETY: the caller's contract.
        unsafe {
            let xmin = tuple::xmin(item.header);
            let own = pg_sys::TransactionIdIsCurrentTransactionId(xmin);
            if !own && !self.any_visible && (*self.target.info).ii_Unique {
                return Verdict::Wait(xmin);
            }
            Verdict::Take {
                alive: true,
                counts: own || self.any_visible,
            }
        }
    }

    unsafe fn judge_delete(&mut self, item: PageTuple, hot: bool) -> Verdict {
        // SAFETY: the caller's contract.
        unsafe {
            if self.any_visible {
                return Verdict::Take {
                    alive: false,
                    counts: true,
                };
            }
            let deleter = tuple::update_xid(item.header);
            if pg_sys::TransactionIdIsCurrentTransactionId(deleter) {
                return if hot {
                    self.broken_chain()
                } else {
                    Verdict::Take {
                        alive: false,
                        counts: false,
                    }
                };
            }
            if hot || (*self.target.info).ii_Unique {
                return Verdict::Wait(deleter);
            }
            Verdict::Take {
                alive: false,
                counts: true,
            }
        }
    }

    /// Judges the tuple at a line pointer, waiting for other transactions where that is the rule.
    unsafe fn decide(
        &mut self,
        cursor: &PageCursor,
        at: Tid,
    ) -> Option<(PageTuple, Verdict, Option<u16>)> {
        loop {
            error::check_interrupts();
            let buffer = cursor.buffer();
            let judged = cursor.locked(|page| {
                let item = page.tuple(at.offset)?;
                // SAFETY: the page is pinned and locked.
                unsafe {
                    let verdict = self.judge(item, buffer);
                    Some((item, verdict, root_of(page.as_ptr(), item)))
                }
            })?;
            let Verdict::Wait(other) = judged.1 else {
                return Some(judged);
            };
            let mut place = tid::to_pg(at);
            // SAFETY: the table is open; no page is locked.
            unsafe {
                pg_sys::XactLockTableWait(
                    other,
                    self.target.table,
                    &mut place,
                    pg_sys::XLTW_Oper::XLTW_InsertIndexUnique,
                );
            }
        }
    }

    /// Delivers the tuples of a pinned page; returns how many count as rows of the table.
    unsafe fn page(&mut self, cursor: &PageCursor, block: u32, deliver: &mut Deliver) -> f64 {
        let mut rows = 0.0;
        let count = cursor.locked(|page| page.line_pointers());
        for offset in 1..=count {
            // SAFETY: the page stays pinned.
            unsafe {
                let Some((item, verdict, root)) = self.decide(cursor, Tid { block, offset }) else {
                    continue;
                };
                let Verdict::Take { alive, counts } = verdict else {
                    continue;
                };
                match classify(item.header, item.len, offset) {
                    Found::Skip => {}
                    Found::Header => {
                        self.target.refuse_chunks();
                        if self.target.takes_headers {
                            let reader = self.target.open(item);
                            rows += f64::from(reader.rows());
                            let (table, index) = (self.target.table, self.target.index);
                            for mut entry in series::header_entries(table, index, &reader) {
                                let at = series::entry_of_header(item.tid);
                                deliver(at, &mut entry.values, &mut entry.nulls, alive);
                            }
                        } else if alive {
                            self.target.evaluate_rows(item);
                        }
                    }
                    Found::Row => {
                        rows += f64::from(u8::from(counts));
                        let Some(offset) = root else {
                            raise_without_root(self.target.table, item.tid)
                        };
                        if self.target.form(item, cursor.buffer()) {
                            let (values, nulls) = (&mut self.target.values, &mut self.target.nulls);
                            deliver(Tid { block, offset }, values, nulls, alive);
                            slot::clear_slot(self.target.slot);
                        }
                    }
                }
            }
        }
        rows
    }
}

/// Line pointer of the HOT chain's root that leads to a tuple of a locked page.
unsafe fn root_of(page: pg_sys::Page, item: PageTuple) -> Option<u16> {
    // SAFETY: the caller's contract.
    unsafe {
        if !tuple::is_heap_only(item.header) {
            return Some(item.tid.offset);
        }
        let mut roots = [0u16; MAX_OFFSETS];
        pg_sys::heap_get_root_tuples(page, roots.as_mut_ptr());
        Some(roots[usize::from(item.tid.offset) - 1]).filter(|&offset| offset != 0)
    }
}

unsafe fn raise_without_root(table: pg_sys::Relation, at: Tid) -> ! {
    // SAFETY: the table is open.
    let name = unsafe { relation::name(table) };
    error::raise(
        Code::ERRCODE_DATA_CORRUPTED,
        format!("failed to find the parent of the heap-only tuple at {at} in table \"{name}\""),
        "",
        "",
    )
}

#[expect(clippy::too_many_arguments, reason = "the table AM's signature")]
#[pg_guard]
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
    // SAFETY: called by core with open relations and, in a parallel build, a scan of ours.
    unsafe {
        crate::table::batch::flush_table(table);
        let callback = callback.expect("BUG: no callback");
        let concurrent = (*info).ii_Concurrent;
        let (mut blocks, snapshot) = if scan.is_null() {
            let end = relation::blocks(table).min(start.saturating_add(count));
            let snapshot = if concurrent {
                pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot())
            } else {
                core::ptr::null_mut()
            };
            (Blocks::Range(start..end), snapshot)
        } else {
            (Blocks::parallel(scan), (*scan).rs_snapshot)
        };
        let rule = if concurrent {
            Rule::Snapshot(snapshot)
        } else {
            Rule::Horizon(pg_sys::GetOldestNonRemovableTransactionId(table))
        };
        let mut build = Build {
            target: Target::new(table, index, info),
            rule,
            any_visible,
        };
        if progress {
            progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, relation::blocks(table));
        }
        let mut cursor = PageCursor::new(table);
        let mut rows = 0.0;
        let mut done = 0;
        while let Some(block) = blocks.next() {
            error::check_interrupts();
            cursor.go(block);
            rows += build.page(&cursor, block, &mut |at, values, nulls, alive| {
                let mut item = tid::to_pg(at);
                pg_sys::ffi::pg_guard_ffi_boundary(|| {
                    callback(
                        index,
                        &mut item,
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                        alive,
                        state,
                    )
                });
            });
            done += 1;
            if progress {
                progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, done);
            }
        }
        cursor.release();
        build.target.finish();
        if !scan.is_null() {
            super::scan::scan_end(scan);
        } else if concurrent {
            pg_sys::UnregisterSnapshot(snapshot);
        }
        rows
    }
}

fn progress_param(parameter: u32, value: u32) {
    // SAFETY: writes a counter of this backend.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
}

/// The TIDs that an index has already, in order.
struct Known {
    sort: *mut pg_sys::Tuplesortstate,
    next: Option<Tid>,
}

impl Known {
    unsafe fn new(sort: *mut pg_sys::Tuplesortstate) -> Known {
        let mut known = Known { sort, next: None };
        // SAFETY: by the caller's contract a sorted list of TIDs.
        unsafe { known.pull() };
        known
    }

    unsafe fn pull(&mut self) {
        let mut value = pg_sys::Datum::from(0usize);
        let mut isnull = false;
        // SAFETY: the caller's contract. Core codes a TID as (block << 16) | offset.
        unsafe {
            #[cfg(any(feature = "pg14", feature = "pg15"))]
            let found = pg_sys::tuplesort_getdatum(
                self.sort,
                true,
                &mut value,
                &mut isnull,
                core::ptr::null_mut(),
            );
            #[cfg(not(any(feature = "pg14", feature = "pg15")))]
            let found = pg_sys::tuplesort_getdatum(
                self.sort,
                true,
                false,
                &mut value,
                &mut isnull,
                core::ptr::null_mut(),
            );
            self.next = found.then(|| Tid {
                block: (value.value() >> 16) as u32,
                offset: value.value() as u16,
            });
        }
    }

    /// Line pointers of `block` that the index knows. Blocks are asked for in ascending order.
    unsafe fn of_block(&mut self, block: u32, counted: &mut f64) -> HashSet<u16> {
        let mut offsets = HashSet::new();
        while let Some(at) = self.next.filter(|at| at.block <= block) {
            *counted += 1.0;
            if at.block == block {
                offsets.insert(at.offset);
            }
            // SAFETY: the caller's contract.
            unsafe { self.pull() };
        }
        offsets
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn index_validate_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    // SAFETY: called by core with open relations and a sorted list of TIDs.
    unsafe {
        let state = &mut *state;
        let mut known = Known::new(state.tuplesort);
        let mut build = Build {
            target: Target::new(table, index, info),
            rule: Rule::Snapshot(snapshot),
            any_visible: false,
        };
        let check = if (*info).ii_Unique {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
        } else {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
        };
        let mut cursor = PageCursor::new(table);
        let blocks = relation::blocks(table);
        progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, blocks);
        for block in 0..blocks {
            error::check_interrupts();
            cursor.go(block);
            let mut there = known.of_block(block, &mut state.itups);
            // Entries of one chunk come and go together.
            let mut fresh = HashSet::new();
            let inserted = &mut state.tups_inserted;
            state.htups += build.page(&cursor, block, &mut |at, values, nulls, _| {
                let real = series::header_of_entry(at).unwrap_or(at);
                if !fresh.contains(&real.offset) && !there.insert(real.offset) {
                    return;
                }
                fresh.insert(real.offset);
                *inserted += 1.0;
                insert(table, index, info, (at, real), values, nulls, check);
            });
            progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, block + 1);
        }
        cursor.release();
        build.target.finish();
    }
}

/// Adds an entry that is missing.
unsafe fn insert(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    (entry, real): (Tid, Tid),
    values: &mut [pg_sys::Datum],
    nulls: &mut [bool],
    check: pg_sys::IndexUniqueCheck::Type,
) {
    // SAFETY: the caller's contract.
    unsafe {
        if entry != real {
            crate::pg::nbtree::insert(table, index, values, nulls, entry);
            return;
        }
        let mut item = tid::to_pg(entry);
        pg_sys::index_insert(
            index,
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &mut item,
            table,
            check,
            false,
            info,
        );
    }
}
