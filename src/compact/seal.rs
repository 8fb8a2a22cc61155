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
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tuple::Formed;
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
        let mut cursor = PageCursor::new(table);
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
            cursor.go(block);
            // Of a page of rows with large values the rest is left to the next round.
            let mut all = true;
            let before = rows.rows;
            for tuple in visible_rows(table, &cursor, snapshot) {
                all &= rows.bytes < enough;
                if all && delete_row(table, &tuple, target.command) {
                    push(&mut rows, table, &tuple);
                }
            }
            pages_with_rows += u64::from(rows.rows > before);
            next = next_from(block + u32::from(all)).filter(|&block| block < blocks);
        }
        cursor.release();
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

/// Copies of the rows of a page that the snapshot sees.
///
/// # Safety
/// `table` must be open, `cursor` be on a page of it, and `snapshot` valid.
unsafe fn visible_rows(
    table: Table<'_>,
    cursor: &PageCursor,
    snapshot: Snapshot<'_>,
) -> Vec<Formed> {
    let buffer = cursor.buffer();
    cursor.locked(|page| {
        page.tuples()
            .filter(|item| {
                // SAFETY: the page is pinned and locked.
                unsafe {
                    let mut heap_tuple = item.to_heap_tuple(table.oid());
                    classify(item) == TupleKind::Row && snapshot.sees(&mut heap_tuple, buffer)
                }
            })
            .map(|item| {
                // SAFETY: as above.
                unsafe { Formed::copy(item.to_heap_tuple(table.oid())) }
            })
            .collect()
    })
}

/// Deletes a row as one that moves; false when somebody has locked or changed it.
///
/// # Safety
/// `table` must be open for writing, and something keep the tuple where it was seen.
pub unsafe fn delete_row(table: Table<'_>, tuple: &Formed, command: CommandId) -> bool {
    // SAFETY: by contract.
    unsafe { write::try_delete(table, tuple.tid(), command, false, true) == TM_Result::TM_Ok }
}

/// Adds a row whose tuple was deleted.
///
/// # Safety
/// `tuple` must be of the open `table`.
pub unsafe fn push(rows: &mut RowSet, table: Table<'_>, tuple: &Formed) {
    // SAFETY: the tuple is a row of the table; its toasted values are still there, since the delete
    // is ours.
    unsafe {
        let (values, nulls) = tuple.columns(table.descriptor());
        rows.push(values.as_ptr(), nulls.as_ptr());
    }
}
