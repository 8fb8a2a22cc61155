//! Where the next version of a header is. Who replaces a header writes that to its last slot, which no note is given: so who comes with the
//! old place need not look for the chunk on all pages of the table. Readers of the old version pass over the slot, since no note is at that
//! place. A header of which the last slot has a note, as earlier versions of this code wrote it, has no room for it.

use super::notes::{self, Writer};
use super::tuple_kind::{classify, TupleKind};
use crate::pg::page::{self, PageCursor};
use crate::pg::page_patch;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use varve_columns::tuple::header;
use varve_columns::tuple::note::{self, SLOT_BYTES};

/// Notes in the header at `old`, which this transaction is about to delete, that the next version of its chunk is at `next`.
///
/// `table` must be open for writing, the old header locked by this transaction.
pub fn set(table: Table<'_>, chunk: u64, old: Tid, next: Tid) {
    // SAFETY: the table is open; the buffer is pinned and locked while the page is changed.
    unsafe {
        if table.is_temporary() {
            return;
        }
        // Nobody fills slots of a header that is locked.
        let Some(slots) = notes::slots_at(table, old, chunk) else {
            return;
        };
        let Some(last) = slots.last_chunk::<SLOT_BYTES>() else {
            return;
        };
        // That of a transaction which was rolled back may be there.
        if notes::is_used(table, chunk, last) {
            return;
        }
        page::locked_for_change(table, old.block, |page, buffer| {
            if let Some(item) = page.tuple(old.offset) {
                let body = item.body();
                let end = body.as_ptr().add(body.len() - SLOT_BYTES);
                let offset = end.offset_from(page.as_ptr().cast::<u8>()) as usize;
                page_patch::overwrite(table, buffer, offset, &note::slot(chunk, next));
            }
        });
    }
}

/// Where the next version of a chunk is, of which the header at `at` was replaced, if that says so: a header of the chunk that is committed, or
/// this transaction's.
pub fn of(table: Table<'_>, chunk: u64, at: Tid) -> Option<Tid> {
    // SAFETY: the table is open; the page is pinned and locked while it is looked at.
    unsafe {
        let slots = notes::slots_at(table, at, chunk)?;
        let last = slots.last_chunk::<SLOT_BYTES>()?;
        let next = note::named(chunk, last).ok().flatten()?;
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned_at(next)?;
        let is_next = cursor.locked(|_| {
            classify(&item) == TupleKind::Header
                && header::chunk_id(item.body()) == chunk
                && matches!(notes::writer(&item), Writer::Committed | Writer::Own)
        });
        (is_next && next != at).then_some(next)
    }
}
