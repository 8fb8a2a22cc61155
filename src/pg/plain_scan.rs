//! A heap that a node of core's reads from end to end, read without it: the executor takes longer over each row than it takes to look at it.

use super::bare::{self, GetHeapamTableAmRoutine};
use super::custom_scan::Child;
use super::error;
use super::expression::Expressions;
use super::expression_context::{guarded, ExpressionContext};
use super::heap;
use super::node::{cast, items};
use super::page::{Page, PageCursor, PageTuple};
use super::relation::Table;
use super::row_slot::RowSlot;
use super::snapshot::Snapshot;
use super::stored_value::StoredColumn;
use super::transaction;
use super::unbound::heap_getnext;
use super::varlena::short_body;
use pgrx::pg_sys::{self, Datum, NodeTag};

/// A node that reads a heap so, of which nobody wants to know what it does.
#[derive(Clone, Copy)]
pub struct PlainScan {
    child: Child,
    /// The column of the heap, from 0, that was asked for.
    pub column: usize,
}

/// A row of it, while it is looked at.
#[derive(Clone, Copy)]
pub struct PlainRow<'a> {
    tuple: PageTuple<'a>,
    descriptor: pg_sys::TupleDesc,
}

impl<'a> PlainRow<'a> {
    /// The bytes of a column's text, where it is short and lies where most rows have it.
    ///
    /// # Safety
    /// It must be a column of the heap, of texts.
    #[inline]
    pub unsafe fn short_text(self, column: StoredColumn) -> Option<&'a [u8]> {
        // SAFETY: by contract; the tuple's page is pinned while it is looked at.
        unsafe { short_body(column.place(self.tuple)?) }
    }

    /// A column's value, and whether it is null.
    ///
    /// # Safety
    /// It must be a column of the heap.
    #[inline]
    pub unsafe fn value(self, column: StoredColumn) -> (Datum, bool) {
        // SAFETY: by contract; the tuple's page is pinned while it is looked at.
        unsafe { column.value(self.tuple, self.descriptor) }
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
            let column = usize::try_from((*value).varattno).ok()?.checked_sub(1)?;
            (!is_system).then_some(PlainScan { child, column })
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
    /// What `visit` owns must be owned outside of it: errors of PostgreSQL's jump over it. It may be called with the row's page locked, so it is
    /// brief, and reads no other page.
    #[inline]
    pub unsafe fn each(self, mut visit: impl FnMut(PlainRow<'_>) -> bool) -> bool {
        // SAFETY: by contract; the snapshot is registered as long as the node runs.
        unsafe {
            let snapshot = Snapshot::from_ptr((*(*self.child.as_ptr()).state).es_snapshot);
            let pages = self.table().blocks();
            match self.is_read_by_pages(snapshot, pages) {
                true => self.each_by_pages(snapshot, pages, &mut visit),
                false => self.each_by_scan(snapshot, &mut visit),
            }
        }
    }

    /// May the pages be read without core's scan? It takes three times as many instructions for a row. It is left what it alone does: what serializable
    /// transactions have read, snapshots that get too old, and the ring of buffers for a large heap.
    fn is_read_by_pages(self, snapshot: Snapshot<'_>, pages: u32) -> bool {
        // SAFETY: read while a statement runs.
        let (keeps_snapshots, most) = unsafe {
            #[cfg(feature = "pg15")]
            let keeps = pg_sys::old_snapshot_threshold < 0;
            #[cfg(feature = "pg17")]
            let keeps = true;
            (keeps, pg_sys::NBuffers as u32 / 4)
        };
        let is_plain = snapshot.is_mvcc() && !transaction::is_serializable();
        is_plain && keeps_snapshots && pages <= most
    }

    /// # Safety
    /// As `each`, where `is_read_by_pages`.
    unsafe fn each_by_pages(
        self,
        snapshot: Snapshot<'_>,
        pages: u32,
        visit: &mut impl FnMut(PlainRow<'_>) -> bool,
    ) -> bool {
        let table = self.table();
        let descriptor = table.descriptor().as_ptr();
        let mut cursor = PageCursor::new(table);
        let mut read = 0;
        for block in 0..pages {
            error::check_interrupts();
            cursor.go(block);
            cursor.prune();
            let is_read = cursor.locked(|page| {
                for tuple in seen(page, &cursor, snapshot) {
                    read += 1;
                    if !visit(PlainRow { tuple, descriptor }) {
                        return false;
                    }
                }
                true
            });
            if !is_read {
                return false;
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
                    let tuple = PageTuple::of(tuple);
                    is_read = visit(PlainRow { tuple, descriptor });
                }
                end(scan);
                is_read
            })
        }
    }
}

/// The rows of a page that a snapshot sees. It is the one that the cursor has locked.
#[inline]
fn seen<'a>(
    page: &'a Page<'_>,
    cursor: &PageCursor<'_>,
    snapshot: Snapshot<'a>,
) -> impl Iterator<Item = PageTuple<'a>> + 'a {
    let (oid, buffer) = (cursor.relation().oid(), cursor.buffer());
    // A standby may not have replayed yet what a page says of everybody's snapshots.
    let sees_all = page.is_all_visible() && !snapshot.is_of_standby();
    let plainly = snapshot.plainly();
    page.tuples().filter(move |item| {
        // SAFETY: the page is pinned and locked.
        sees_all
            || unsafe {
                plainly.sees(item.header()) || snapshot.sees(&mut item.to_heap_tuple(oid), buffer)
            }
    })
}
