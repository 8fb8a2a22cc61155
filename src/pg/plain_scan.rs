//! A heap that a node of core's reads from end to end, read without it: the executor takes longer over each row than it takes to look at it.

use super::bare::{self, GetHeapamTableAmRoutine};
use super::custom_scan::Child;
use super::error;
use super::expression::Expressions;
use super::expression_context::{guarded, ExpressionContext};
use super::heap;
use super::node::{cast, items};
use super::page::{PageCursor, PageTuple};
use super::relation::Table;
use super::row_slot::RowSlot;
use super::snapshot::Snapshot;
use super::transaction;
use super::unbound::heap_getnext;
use pgrx::pg_sys::{self, Datum, NodeTag};

/// A node that reads a heap so, of which nobody wants to know what it does.
#[derive(Clone, Copy)]
pub struct PlainScan {
    child: Child,
    /// Of the heap, from 1, the column that was asked for.
    pub column: i32,
}

/// A row of it, while it is looked at.
#[derive(Clone, Copy)]
pub struct PlainRow<'a> {
    tuple: &'a pg_sys::HeapTupleData,
    descriptor: pg_sys::TupleDesc,
}

impl PlainRow<'_> {
    /// A column, from 1, and whether it is null.
    ///
    /// # Safety
    /// The heap must have it.
    #[inline]
    pub unsafe fn value(self, number: i32) -> (Datum, bool) {
        let mut isnull = false;
        let tuple = core::ptr::from_ref(self.tuple).cast_mut();
        // SAFETY: by contract; the tuple's page is pinned while it is looked at.
        let value = unsafe { pg_sys::heap_getattr(tuple, number, self.descriptor, &mut isnull) };
        (value, isnull)
    }
}

impl PlainScan {
    /// None where a node is something else, its conditions ask for more than columns, or what it hands up at a place, from 0, is no column.
    /// Within a guarded entry point.
    pub fn of(child: Child, place: usize) -> Option<PlainScan> {
        let node = child.as_ptr();
        // SAFETY: the node has begun; a node's tag says what it is.
        unsafe {
            let scan: *mut pg_sys::ScanState = cast(node.cast(), NodeTag::T_SeqScanState)?;
            let plan = (*node).plan;
            let is_heap = (*(*scan).ss_currentRelation).rd_tableam == GetHeapamTableAmRoutine();
            let is_watched = !(*node).instrument.is_null();
            let checks_rows = !(*(*node).state).es_epq_active.is_null();
            if !is_heap || is_watched || checks_rows || (*plan).parallel_aware {
                return None;
            }
            let entry = items::<pg_sys::TargetEntry>((*plan).targetlist).nth(place)?;
            let value = cast::<pg_sys::Var>((*entry).expr.cast(), NodeTag::T_Var)?;
            let mut columns = core::ptr::null_mut();
            let table = (*plan.cast::<pg_sys::Scan>()).scanrelid;
            pg_sys::pull_varattnos((*plan).qual.cast(), table, &mut columns);
            let first = bare::bms_next_member(columns, -1);
            let is_system = first >= 0 && first + pg_sys::FirstLowInvalidHeapAttributeNumber <= 0;
            let column = (*value).varattno.into();
            (column > 0 && !is_system).then_some(PlainScan { child, column })
        }
    }

    fn scan(self) -> *mut pg_sys::ScanState {
        self.child.as_ptr().cast()
    }

    /// Its conditions.
    pub fn conditions(self) -> Expressions<'static> {
        // SAFETY: the node has begun, so it has a plan, which outlives it.
        unsafe { Expressions::from_ptr((*(*self.child.as_ptr()).plan).qual) }
    }

    /// Where it evaluates expressions.
    pub fn context(self) -> ExpressionContext {
        // SAFETY: a scan that has begun has it.
        unsafe { ExpressionContext::from_ptr((*self.child.as_ptr()).ps_ExprContext) }
    }

    /// The row that its expressions see.
    pub fn slot(self) -> RowSlot {
        // SAFETY: as above.
        unsafe { RowSlot::from_ptr((*self.scan()).ss_ScanTupleSlot) }
    }

    /// The heap.
    pub fn table(self) -> Table<'static> {
        // SAFETY: a scan that has begun has it open, and its node outlives this.
        unsafe { Table::from_ptr((*self.scan()).ss_currentRelation) }
    }

    /// Shows each row of the heap that the statement's snapshot sees to `visit`, until that says false; whether it never did. Within a guarded
    /// entry point.
    ///
    /// # Safety
    /// What `visit` owns must be owned outside of it: errors of PostgreSQL's jump over it.
    #[inline]
    pub unsafe fn each(self, mut visit: impl FnMut(PlainRow<'_>) -> bool) -> bool {
        // SAFETY: by contract; the snapshot is registered as long as the node runs.
        unsafe {
            let snapshot = Snapshot::from_ptr((*(*self.child.as_ptr()).state).es_snapshot);
            match self.is_read_by_pages(snapshot) {
                true => self.each_by_pages(snapshot, &mut visit),
                false => self.each_by_scan(snapshot, &mut visit),
            }
        }
    }

    /// May the pages be read without core's scan? It takes three times as many instructions for a row. It is left what it alone does: what serializable
    /// transactions have read, snapshots that get too old, and the ring of buffers for a large heap.
    fn is_read_by_pages(self, snapshot: Snapshot<'_>) -> bool {
        // SAFETY: read while a statement runs.
        let (keeps_snapshots, most) = unsafe {
            #[cfg(feature = "pg15")]
            let keeps = pg_sys::old_snapshot_threshold < 0;
            #[cfg(feature = "pg17")]
            let keeps = true;
            (keeps, pg_sys::NBuffers as u32 / 4)
        };
        let is_plain = snapshot.is_mvcc() && !transaction::is_serializable();
        is_plain && keeps_snapshots && self.table().blocks() <= most
    }

    /// # Safety
    /// As `each`, where `is_read_by_pages`.
    unsafe fn each_by_pages(
        self,
        snapshot: Snapshot<'_>,
        visit: &mut impl FnMut(PlainRow<'_>) -> bool,
    ) -> bool {
        let table = self.table();
        let descriptor = table.descriptor().as_ptr();
        let mut cursor = PageCursor::new(table);
        let mut read = 0;
        for block in 0..table.blocks() {
            error::check_interrupts();
            cursor.go(block);
            cursor.prune();
            let rows = rows_of(&cursor, snapshot);
            read += rows.len();
            for row in rows {
                let tuple = &row.to_heap_tuple(table.oid());
                if !visit(PlainRow { tuple, descriptor }) {
                    return false;
                }
            }
        }
        heap::count_scan(table, read);
        true
    }

    /// # Safety
    /// As `each`.
    unsafe fn each_by_scan(
        self,
        snapshot: Snapshot<'_>,
        visit: &mut impl FnMut(PlainRow<'_>) -> bool,
    ) -> bool {
        // SAFETY: by contract; the table is open, the snapshot registered.
        unsafe {
            let table = (*self.scan()).ss_currentRelation;
            let descriptor = (*table).rd_att;
            let methods = (*table).rd_tableam;
            let begin = (*methods).scan_begin.expect("BUG: no scan_begin");
            let end = (*methods).scan_end.expect("BUG: no scan_end");
            guarded(|| {
                use pg_sys::ScanOptions::*;
                let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
                let (keys, parallel) = (core::ptr::null_mut(), core::ptr::null_mut());
                let scan = begin(table, snapshot.as_ptr(), 0, keys, parallel, flags);
                let mut is_read = true;
                while is_read {
                    let tuple = heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
                    let Some(tuple) = tuple.as_ref() else {
                        break;
                    };
                    is_read = visit(PlainRow { tuple, descriptor });
                }
                end(scan);
                is_read
            })
        }
    }
}

/// The rows of a page that a snapshot sees.
fn rows_of<'c>(cursor: &'c PageCursor, snapshot: Snapshot<'_>) -> Vec<PageTuple<'c>> {
    let (oid, buffer) = (cursor.relation().oid(), cursor.buffer());
    cursor.locked(|page| {
        // A standby may not have replayed yet what a page says of everybody's snapshots.
        let sees_all = page.is_all_visible() && !snapshot.is_of_standby();
        let plainly = snapshot.plainly();
        let mut rows = Vec::with_capacity(page.line_pointers().into());
        for item in page.tuples() {
            // SAFETY: the page is pinned and locked.
            let is_seen = sees_all
                || unsafe {
                    plainly.sees(item.header())
                        || snapshot.sees(&mut item.to_heap_tuple(oid), buffer)
                };
            if is_seen {
                rows.push(item);
            }
        }
        rows
    })
}
