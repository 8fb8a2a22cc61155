//! Unique indexes against the rows, of chunks and of the tail alike: no key may be there twice. The keys are sorted by the order of
//! the index; the entries of its btree are not looked at.

use super::key_sort::KeySort;
use super::{Verifier, MOST_FINDINGS};
use crate::catalog::layout;
use crate::chunk::inspect;
use crate::chunk::slot;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::own_slot::OwnSlot;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Index;
use crate::pg::row_slot::RowSlot;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::table::visible::OpenChunk;
use std::rc::Rc;

impl<'a> Verifier<'a> {
    /// Looks for keys that more than one row has.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid.
    pub(super) unsafe fn keys(&mut self) {
        // SAFETY: the table is open.
        unsafe {
            for oid in self.table.index_oids() {
                let index = OpenIndex::open(oid, LockMode::AccessShare);
                let is_btree = index.rel().is_btree();
                if is_btree && layout::is_key_of_columns(index.rel()) && self.holds(index.rel()) {
                    self.key(index.rel());
                }
            }
        }
    }

    /// Is the index valid for what the snapshot sees? A transaction that is not over for it may have made the index, after it had
    /// deleted rows that the snapshot still sees.
    fn holds(&self, index: Index<'_>) -> bool {
        let maker = index.written_by();
        index.form().indisvalid
            && (transaction::is_current(maker) || !self.snapshot.is_running(maker))
    }

    /// Looks for keys of an index that more than one row has.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; `index` must be an open btree of the table, and a key of columns.
    unsafe fn key(&mut self, index: Index<'_>) {
        // SAFETY: table and index are open; the slot is asked for columns of the key only.
        unsafe {
            let own = OwnSlot::of_table(self.table);
            let row = own.get();
            let mut columns: Vec<u16> = layout::index_columns(index);
            columns.iter_mut().for_each(|column| *column -= 1);
            columns.sort_unstable();
            slot::restrict(row.as_ptr(), columns);
            let mut sort = KeySort::begin(self.table, index);
            let deferrable = !index.form().indimmediate;
            self.put_tail(&mut sort, row, deferrable);
            self.put_chunks(&mut sort, row);
            sort.perform();
            let name = index.name();
            while self.findings.len() < MOST_FINDINGS {
                error::check_interrupts();
                let Some((one, other, key)) = sort.next_equal() else {
                    break;
                };
                let which = key.map_or("the same key".to_string(), |key| format!("the key {key}"));
                let detail = format!("the rows at {one} and {other} have {which}");
                self.note("key", &name, detail);
            }
            sort.end();
        }
    }

    /// Visible rows of the tail. Those of the own transaction may have a deferrable key twice until it is checked.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; `sort` must be of a key of the table, and `row` a slot of ours for its rows.
    unsafe fn put_tail(&self, sort: &mut KeySort, row: RowSlot, deferrable: bool) {
        // SAFETY: the table is open, and the page pinned while the slot shows rows of it.
        unsafe {
            let mut cursor = PageCursor::new(self.table);
            for block in 0..self.table.blocks() {
                error::check_interrupts();
                cursor.go(block);
                for item in self.visible_rows(&cursor) {
                    let own = || transaction::is_current(tuple::xmin(item.header()));
                    if deferrable && own() {
                        continue;
                    }
                    let mut found = item.to_heap_tuple(self.table.oid());
                    slot::as_heap(row.as_ptr(), || row.show_tuple(&mut found, cursor.buffer()));
                    sort.put(row);
                    slot::clear_slot(row.as_ptr());
                }
            }
        }
    }

    /// Rows of the tail on a page that the snapshot sees.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; the cursor must have a page of the table pinned.
    unsafe fn visible_rows<'c>(&self, cursor: &'c PageCursor) -> Vec<PageTuple<'c>> {
        let buffer = cursor.buffer();
        cursor.locked(|page| {
            // SAFETY: the page is pinned and locked.
            let is_seen = |item: &PageTuple<'_>| unsafe {
                let mut found = item.to_heap_tuple(self.table.oid());
                classify(item) == TupleKind::Row && self.snapshot.sees(&mut found, buffer)
            };
            page.tuples().filter(is_seen).collect()
        })
    }

    /// Visible rows of all chunks that can be read.
    ///
    /// # Safety
    /// As `put_tail`.
    unsafe fn put_chunks(&self, sort: &mut KeySort, row: RowSlot) {
        let (table, snapshot) = (self.table, self.snapshot);
        // SAFETY: the table is open.
        unsafe {
            inspect::chunks(table, snapshot, |at, result| {
                // What is damaged has been noted.
                let Ok(reader) = result else {
                    return;
                };
                if self.damaged.contains(&at) {
                    return;
                }
                let open = OpenChunk::new(Rc::clone(&reader), snapshot);
                for number in (0..reader.rows()).filter(|&number| !open.is_hidden(number)) {
                    error::check_interrupts();
                    slot::store_row(row.as_ptr(), &reader, number, table.oid());
                    sort.put(row);
                }
                slot::clear_slot(row.as_ptr());
            });
        }
    }
}
