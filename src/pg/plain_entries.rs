//! Entries of rows that somebody writes without core, in indexes that say nothing of which rows there may be.

use super::executor;
use super::lock_mode::LockMode;
use super::open::OpenIndex;
use super::relation::{Index, Table};
use super::tid;
use super::tuple::Formed;
use super::unbound::FormIndexDatum;
use pgrx::pg_sys;

struct Ordinary {
    index: OpenIndex,
    info: *mut pg_sys::IndexInfo,
    predicate: *mut pg_sys::ExprState,
}

/// What expressions and predicates of indexes are evaluated with.
struct Evaluation {
    estate: *mut pg_sys::EState,
    context: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
    /// Functions may ask for a snapshot, and there was none.
    pushed: bool,
}

/// Open indexes of a table, none of them unique.
pub struct OrdinaryIndexes<'a> {
    table: Table<'a>,
    indexes: Vec<Ordinary>,
    evaluation: Option<Evaluation>,
}

impl<'a> OrdinaryIndexes<'a> {
    /// Opens those that `are_ordinary` for inserting, if they are ready for it, valid or not. The table must be open for writing.
    pub fn open(table: Table<'a>, are_ordinary: impl Fn(Index<'_>) -> bool) -> OrdinaryIndexes<'a> {
        // SAFETY: the table is open.
        unsafe {
            let mut open = table.index_oids();
            open.retain(|&oid| {
                let index = OpenIndex::open(oid, LockMode::RowExclusive);
                are_ordinary(index.rel()) && index.rel().form().indisready
            });
            if open.is_empty() {
                return OrdinaryIndexes {
                    table,
                    indexes: Vec::new(),
                    evaluation: None,
                };
            }
            let evaluation = Evaluation::begin(table);
            let ordinary = |oid| {
                let index = OpenIndex::open(oid, LockMode::RowExclusive);
                let info = pg_sys::BuildIndexInfo(index.rel().as_ptr());
                let predicate = pg_sys::ExecPrepareQual((*info).ii_Predicate, evaluation.estate);
                Ordinary {
                    index,
                    info,
                    predicate,
                }
            };
            OrdinaryIndexes {
                table,
                indexes: open.into_iter().map(ordinary).collect(),
                evaluation: Some(evaluation),
            }
        }
    }

    /// Enters a row of the tail.
    ///
    /// # Safety
    /// `row` must be a row of the table, with its place.
    pub unsafe fn enter(&self, row: &Formed) {
        let tuple = row.as_ptr();
        let Some(evaluation) = &self.evaluation else {
            return;
        };
        // SAFETY: by contract; the indexes are open for writing.
        unsafe {
            pg_sys::ExecForceStoreHeapTuple(tuple, evaluation.slot, false);
            for ordinary in &self.indexes {
                if evaluation.holds(ordinary.predicate) {
                    let (mut values, mut nulls) = evaluation.entry(ordinary.info);
                    let mut item = tid::to_pg(tid::from_pg(&(*tuple).t_self));
                    pg_sys::index_insert(
                        ordinary.index.rel().as_ptr(),
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                        &mut item,
                        self.table.as_ptr(),
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                        false,
                        ordinary.info,
                    );
                }
            }
            executor::clear_tuple(evaluation.slot);
            pg_sys::MemoryContextReset((*evaluation.context).ecxt_per_tuple_memory);
        }
    }
}

/// Values and nulls of an index entry.
type Entry = (
    [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    [bool; pg_sys::INDEX_MAX_KEYS as usize],
);

impl Evaluation {
    fn begin(table: Table<'_>) -> Evaluation {
        // SAFETY: the table is open.
        unsafe {
            let pushed = !pg_sys::ActiveSnapshotSet();
            if pushed {
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            }
            let estate = pg_sys::CreateExecutorState();
            let context = pg_sys::MakePerTupleExprContext(estate);
            let heap = &raw const pg_sys::TTSOpsHeapTuple;
            let slot = pg_sys::MakeSingleTupleTableSlot(table.descriptor().as_ptr(), heap);
            (*context).ecxt_scantuple = slot;
            Evaluation {
                estate,
                context,
                slot,
                pushed,
            }
        }
    }

    /// Does a partial index have the row?
    ///
    /// # Safety
    /// `predicate` must be null, or prepared with this, and the slot show a row; within a guarded entry point.
    unsafe fn holds(&self, predicate: *mut pg_sys::ExprState) -> bool {
        let mut isnull = false;
        // SAFETY: the predicate was prepared for this context; one that is not there holds.
        unsafe {
            predicate.is_null()
                || executor::evaluate(predicate, self.context, &mut isnull).value() != 0
        }
    }

    /// The entry of the slot's row in an index. What it points to lives until the memory of the row is reset.
    ///
    /// # Safety
    /// `info` must be of an open index of the table, and the slot show a row; within a guarded entry point.
    unsafe fn entry(&self, info: *mut pg_sys::IndexInfo) -> Entry {
        let mut entry: Entry = (
            [pg_sys::Datum::from(0usize); pg_sys::INDEX_MAX_KEYS as usize],
            [true; pg_sys::INDEX_MAX_KEYS as usize],
        );
        let (values, nulls) = (entry.0.as_mut_ptr(), entry.1.as_mut_ptr());
        // SAFETY: the index is of the slot's table; errors become panics at the boundary.
        unsafe {
            let previous = pg_sys::MemoryContextSwitchTo((*self.context).ecxt_per_tuple_memory);
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                FormIndexDatum(info, self.slot, self.estate, values, nulls);
            });
            pg_sys::MemoryContextSwitchTo(previous);
        }
        entry
    }
}

#[cfg(feature = "pg17")]
impl Drop for Ordinary {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the index is open still; it may have kept pages for the next row.
            unsafe { pg_sys::index_insert_cleanup(self.index.rel().as_ptr(), self.info) }
        }
    }
}

impl Drop for Evaluation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by `begin`.
            unsafe {
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
                pg_sys::FreeExecutorState(self.estate);
                if self.pushed {
                    pg_sys::PopActiveSnapshot();
                }
            }
        }
    }
}
