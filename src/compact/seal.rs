//! Sealing: rows of the tail become chunks. A row is taken when the round's snapshot sees it and nobody
//! has locked or changed it; it is deleted with the mark of a moved tuple, so that whoever waits for it
//! looks for it in the chunks of the same transaction. Rows go in their physical order: equal rows keep
//! theirs (`follow`).

use super::merge::Done;
use crate::catalog::layout::{self, Layout};
use crate::chunk::encode;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::row_set::RowSet;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::write::{self, Target};
use crate::guc;
use crate::pg::error;
use crate::pg::moved_rows;
use crate::pg::page::{PageCopy, PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::{CommandId, TM_Result};

/// Pages that one round walks over at most.
const ROUND_PAGES: u32 = 1 << 17;

/// May the tail of a table be sealed at all?
pub fn is_allowed(table: Table<'_>, layout: &Layout) -> bool {
    let stays = layout::keeps_rows_in_tail(table) || layout::loses_unique_index(table);
    let has_columns = table.descriptor().len() > 0;
    !stays && (layout.time.is_some() || guc::compresses_everything() && has_columns)
}

/// Seals rows from page `start` on, of `pages` only where these are given (ascending); returns what was done, on how many pages, and the
/// page to go on with, if any.
///
/// `table` must be open with the lock of compact, `snapshot` active.
pub fn round(
    table: Table<'_>,
    layout: &Layout,
    snapshot: Snapshot<'_>,
    start: u32,
    pages: Option<&[u32]>,
) -> (Done, u64, Option<u32>) {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let target = Target::current(table);
        let blocks = table.blocks();
        let mut rows = RowSet::new(table.descriptor());
        let mut tail = Tail::of(table, snapshot, target.command);
        let next_from = |block: u32| match pages {
            None => Some(block),
            Some(pages) => pages
                .get(pages.partition_point(|&page| page < block))
                .copied(),
        };
        let mut next = next_from(start).filter(|&block| block < blocks);
        let enough = guc::batch_memory_bytes();
        let mut pages_with_rows = 0;
        while let Some(block) = next {
            if block - start >= ROUND_PAGES || rows.bytes >= enough {
                break;
            }
            error::check_interrupts();
            let before = rows.rows;
            let all = tail.take(block, enough, &mut rows);
            pages_with_rows += u64::from(rows.rows > before);
            next = next_from(block + u32::from(all)).filter(|&block| block < blocks);
        }
        drop(tail);
        let done = Done {
            chunks: 0,
            freed: rows.rows as u64,
        };
        if rows.rows > 0 {
            let (order, indexes) = (rows.order(layout), SeriesIndexes::open(table));
            encode::write_fresh(&target, &rows, &order, layout, &indexes);
        }
        (done, pages_with_rows, next)
    }
}

/// The rows of the tail, while they are taken page by page.
struct Tail<'a> {
    table: Table<'a>,
    snapshot: Snapshot<'a>,
    command: CommandId,
    cursor: PageCursor<'a>,
    copy: PageCopy,
}

impl<'a> Tail<'a> {
    fn of(table: Table<'a>, snapshot: Snapshot<'a>, command: CommandId) -> Tail<'a> {
        Tail {
            table,
            snapshot,
            command,
            cursor: PageCursor::new(table),
            copy: PageCopy::new(),
        }
    }

    /// Moves the rows of a page to `rows`. Those that nobody has touched are deleted together, the others one by one: of a page of rows with
    /// large values the rest is left to the next round when there is `enough`. Were all taken that could be?
    ///
    /// # Safety
    /// The table must be open for writing, and the snapshot active.
    unsafe fn take(&mut self, block: u32, enough: usize, rows: &mut RowSet) -> bool {
        self.cursor.go(block);
        let (mut all, mut together) = (true, Vec::new());
        // SAFETY: by contract; the snapshot keeps the rows that it sees in their places.
        unsafe {
            let seen = self.seen();
            if !seen.is_empty() {
                together =
                    moved_rows::delete(self.table, block, &seen, self.command, &mut self.copy);
            }
            let mut together = together.into_iter().peekable();
            let copy = self.copy.page();
            for row in seen {
                let is_gone = together.next_if_eq(&row).is_some();
                let tuple = copy
                    .tuple(row)
                    .expect("BUG: a row that was seen is not there");
                all &= is_gone || rows.bytes < enough;
                if is_gone || all && delete_row(self.table, tuple.tid, self.command) {
                    // Its toasted values are still there, since the delete is ours.
                    rows.push_tuple(tuple, self.table.descriptor());
                }
            }
        }
        all
    }

    /// Line pointers of the page's rows that the snapshot sees.
    fn seen(&self) -> Vec<u16> {
        let (table, snapshot, buffer) = (self.table, self.snapshot, self.cursor.buffer());
        self.cursor.locked(|page| {
            let is_seen = |item: &PageTuple<'_>| {
                let mut found = item.to_heap_tuple(table.oid());
                // SAFETY: the page is pinned and locked.
                unsafe { classify(item) == TupleKind::Row && snapshot.sees(&mut found, buffer) }
            };
            let seen = page.tuples().filter(is_seen);
            seen.map(|item| item.tid.offset).collect()
        })
    }
}

/// Deletes a row as one that moves; false when somebody has locked or changed it.
///
/// # Safety
/// `table` must be open for writing, and something keep the tuple where it was seen.
pub unsafe fn delete_row(table: Table<'_>, at: Tid, command: CommandId) -> bool {
    // SAFETY: by contract.
    unsafe { write::try_delete(table, at, command, false, true) == TM_Result::TM_Ok }
}
