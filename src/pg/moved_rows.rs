//! Deleting rows that move into a chunk, those of a page at a time. Each tuple gets what `heap_delete` would write to it; but the page is locked
//! once, and one record of the log says it all. Logical decoding sees nothing of it.

use super::heap;
use super::page::{self, PageCopy, PRUNABLE_BY};
use super::page_patch::Patch;
use super::relation::Table;
use super::transaction;
use super::tuple;
use pgrx::pg_sys::{self, InvalidTransactionId};

/// Where the head of a tuple has what a delete changes.
const CHANGED_START: usize = 4;

/// Deletes those of `rows`, by their line pointers, that nobody has locked or changed, and of which no value lies elsewhere; returns these, in
/// the same order. `copy` gets the page as it was before. None of a page that the visibility map has: `heap_delete` sees to that.
///
/// # Safety
/// `table` must be open for writing, and `rows` be rows on the page `block` of it which a snapshot sees that is active; this transaction
/// must have written none of them, and not be serializable.
pub unsafe fn delete(
    table: Table<'_>,
    block: u32,
    rows: &[u16],
    command: pg_sys::CommandId,
    copy: &mut PageCopy,
) -> Vec<u16> {
    let writer = transaction::id();
    transaction::may_be_in_multixacts();
    let mut deleted = Vec::with_capacity(rows.len());
    page::locked_for_change(table, block, |page, buffer| {
        copy.take(page);
        if page.is_all_visible() {
            return;
        }
        let mut patch = Patch::default();
        for &row in rows {
            let Some(item) = page.tuple(row) else {
                continue;
            };
            let header = item.header();
            // SAFETY: the page is locked.
            unsafe {
                if !tuple::is_untouched(header) || tuple::has_external(header) {
                    continue;
                }
                let head = tuple::moved_head(header, writer, command);
                patch.add(page.offset_of(item) + CHANGED_START, &head);
            }
            deleted.push(row);
        }
        if !deleted.is_empty() {
            let before = page.prunable_by();
            if before == InvalidTransactionId || transaction::precedes(writer, before) {
                patch.add(PRUNABLE_BY, &writer.into_inner().to_ne_bytes());
            }
            // SAFETY: the page is locked for changes; what is written lies in its header, and in heads of tuples.
            unsafe { patch.apply(table, buffer) };
        }
    });
    heap::count_deleted(table, deleted.len());
    deleted
}
