//! Whether what is new in a table is worth a compact. Compact reads all headers and all indexes of a table, however little is new; rows of
//! the tail cost readers what rows of a heap do. So a few pages of them stay where they are until there are more.

use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::page::{Page, PageCursor};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::visibility_map;
use crate::pg::Buffer;
use varve_columns::tuple::header::{self, BodyKind, StorageTuple, FLAG_TOMBSTONE};
use varve_columns::tuple::note;

/// A table whose changes lie on one page of so many, or fewer, stays as it is; it is larger by no more than that.
const PART: u32 = 64;
/// And on so many pages at the most, since each call reads them.
const MOST_PAGES: u32 = 24;
/// Rows that a note may say are gone. A chunk has a slot for every 256 rows or more, and is worn when a fifth of them is gone.
const FEW_GONE: u32 = 16;

/// Is there nothing new in a table that compact was done with, but rows of the tail on a few pages, and few rows that are gone from chunks? What leaves
/// more behind than it looks, a fresh chunk, many rows that are gone, or something that VACUUM has to take away, is worth a compact.
///
/// `table` must be open, `snapshot` be an active MVCC snapshot.
pub fn is_little(table: Table<'_>, snapshot: Snapshot<'_>) -> bool {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let blocks = table.blocks();
        let most = MOST_PAGES.min(blocks / PART);
        let Some(pages) = visibility_map::changed_pages(table, blocks, most as usize) else {
            return false;
        };
        let mut cursor = PageCursor::new(table);
        pages.into_iter().all(|block| {
            error::check_interrupts();
            cursor.go(block);
            let buffer = cursor.buffer();
            cursor.locked(|page| has_only_rows(table, page, buffer, snapshot))
        })
    }
}

/// Has a page, which is locked, nothing for compact but rows? Chunks on it must be as compact leaves them.
///
/// # Safety
/// `page` must be one of `table`, the one in `buffer`, pinned and locked.
unsafe fn has_only_rows(
    table: Table<'_>,
    page: &Page,
    buffer: Buffer,
    snapshot: Snapshot<'_>,
) -> bool {
    if (1..=page.line_pointers()).any(|offset| page.is_dead(offset)) {
        return false;
    }
    page.tuples().all(|item| {
        // SAFETY: the caller's contract: the page is pinned and locked.
        let (kind, body, is_visible) = unsafe {
            let mut heap_tuple = item.to_heap_tuple(table.oid());
            (
                classify(&item),
                item.body(),
                snapshot.sees(&mut heap_tuple, buffer),
            )
        };
        match kind {
            TupleKind::Row => true,
            TupleKind::Skip => is_visible && few_are_gone(body),
            TupleKind::Header => {
                is_visible
                    && matches!(header::decode(body), Ok(StorageTuple::Header(header))
                        if header.level > 0 && header.deleted == 0 && !header.has(FLAG_TOMBSTONE))
            }
        }
    })
}

/// Is a storage tuple no note, or one of few rows?
fn few_are_gone(body: &[u8]) -> bool {
    header::body_kind(body) != BodyKind::Note
        || note::decode(body, u32::MAX).is_ok_and(|runs| note::count(&runs) <= FEW_GONE)
}
