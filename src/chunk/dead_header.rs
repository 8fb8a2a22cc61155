//! Headers that nobody can see any more, whose index entries need not be read again. A chunk of which single rows are changed leaves one
//! behind with every some forty changes, until VACUUM.

use super::notes::View;
use super::read::Chunk;
use super::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple, TupleState};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::TransactionId;
use varve_columns::tuple::header::{self, StorageTuple, FLAG_TOMBSTONE};

/// Is the header that an index entry names dead to all snapshots? The answer may be no where it is yes.
///
/// # Safety
/// `table` must be open, and the entry's page pinned: so the place is not used for anything else meanwhile.
pub unsafe fn is_dead(table: Table<'_>, header: Tid) -> bool {
    // SAFETY: by contract; the page is pinned, and locked while its tuple is looked at.
    unsafe {
        if !table.has_block(header.block) {
            return false;
        }
        let mut cursor = PageCursor::new(table);
        cursor.go(header.block);
        cursor.locked(|page| match page.tuple(header.offset) {
            Some(item) => classify(&item) == TupleKind::Header && cursor.is_surely_dead(item),
            // Its tuple was pruned away; the line pointer stays until VACUUM has removed the entries.
            None => page.is_dead(header.offset),
        })
    }
}

/// Opens a deleted header that the horizon says somebody may still see; None if nobody can.
///
/// The horizon compares ids, and who deletes the chunk's payload later may have the older one: a first transaction takes its id, a second one
/// replaces the header and commits, the first one deletes all rows. Under a horizon between the two ids the payload is dead, or pruned, and
/// the first header is not. Who cannot see the payload cannot see that header either.
///
/// # Safety
/// `table` must stay open as long as the chunk is used, and `item` be a header of it.
pub unsafe fn open_deleted(
    table: Table<'_>,
    item: &PageTuple<'_>,
    horizon: TransactionId,
) -> Option<Chunk> {
    // SAFETY: by contract; the snapshot sees everything, and lives as long as the server.
    unsafe {
        let any = Snapshot::any();
        let chunk = Chunk::open(table, item, View::Snapshot(any)).ok()?;
        let notes = chunk.notes.seen.iter().map(|note| note.tid);
        // A tombstone has no rows, and goes without the payload.
        let payload: &[Tid] = match chunk.header.has(FLAG_TOMBSTONE) {
            true => &[],
            false => &chunk.statics.payload.tids,
        };
        let mut cursor = PageCursor::new(table);
        let mut is_there = |at: Tid| {
            error::check_interrupts();
            cursor.pinned_at(at).is_some_and(|(cursor, item)| {
                let state = cursor.locked(|page| cursor.state_of(page, item, horizon));
                is_part_of(&item, chunk.header.chunk) && state != TupleState::Dead
            })
        };
        let all = payload.iter().copied().chain(notes).all(&mut is_there);
        all.then_some(chunk)
    }
}

/// Is it a piece or a note of this chunk? The place of one that is gone may be another's.
fn is_part_of(item: &PageTuple<'_>, id: u64) -> bool {
    item.attribute_count() == 0
        && match header::decode(item.body()) {
            Ok(StorageTuple::Piece(piece)) => piece.chunk == id,
            Ok(StorageTuple::Note { chunk }) => chunk == id,
            _ => false,
        }
}
