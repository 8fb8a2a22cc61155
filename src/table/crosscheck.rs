//! Cascades of foreign keys and ON CONFLICT in REPEATABLE READ and SERIALIZABLE: they look for rows as they are at the moment, and
//! may only go on with those that the transaction's own snapshot, the crosscheck, sees as well. A row's header version tells too
//! much for that: it is a new one whenever another row of the chunk is changed. A row that is there has been since its chunk was
//! written, so what matters is whether the crosscheck sees any version of the chunk.

use super::visible;
use crate::chunk::inspect;
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::TupleKind;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::Oid;
use rustc_hash::FxHashSet;
use std::collections::HashMap;
use varve_columns::tuple::header;

thread_local! {
    /// The chunks of tables' files that the crosscheck sees. It is the same for the whole transaction, and what that writes itself
    /// needs no look in here.
    static SEEN: PerTransaction<HashMap<(Oid, Oid), FxHashSet<u64>>> = PerTransaction::default();
}

/// Does `crosscheck` see a row that the caller knows by the TID `known`, and that is `row` of the chunk of `newest`? So it does
/// where there is none.
///
/// # Safety
/// `table` must be open, `crosscheck` null or the transaction's snapshot, `known` protected by another.
pub unsafe fn passes(
    table: Table<'_>,
    known: Tid,
    newest: &Reader,
    row: u32,
    crosscheck: Snapshot<'_>,
) -> bool {
    crosscheck.is_none()
        || !known.is_virtual() && sees_tuple(table, known, crosscheck)
        || visible::visible_row(table, Tid::of_row(newest.chunk.tid, row), crosscheck).is_some()
        || sees_chunk(table, newest.chunk.header.chunk, crosscheck)
}

/// Does the transaction's snapshot see a row that is there, but in a version of its chunk's header that it does not see?
///
/// `table` must be open, `snapshot` valid, `at` the TID of a compressed row that is there.
pub fn sees_row_of_newer(table: Table<'_>, at: Tid, snapshot: Snapshot<'_>) -> bool {
    let is_of_transaction = snapshot.is_mvcc() && transaction::keeps_its_snapshot();
    let any = Snapshot::any();
    is_of_transaction
        && visible::visible_row(table, at, any)
            .is_some_and(|(newest, _)| sees_chunk(table, newest.chunk.header.chunk, snapshot))
}

/// A row of the tail, which was sealed when it was about to be changed.
fn sees_tuple(table: Table<'_>, at: Tid, crosscheck: Snapshot<'_>) -> bool {
    // SAFETY: the table is open, the snapshot valid; the page is pinned and locked while it is looked at.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let Some((cursor, item)) = cursor.pinned(at, table.blocks()) else {
            return false;
        };
        let buffer = cursor.buffer();
        let mut found = item.to_heap_tuple(table.oid());
        cursor.locked(|_| crosscheck.sees(&mut found, buffer))
    }
}

fn sees_chunk(table: Table<'_>, chunk: u64, crosscheck: Snapshot<'_>) -> bool {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let key = (table.oid(), table.file_number());
        let known = SEEN.with_borrow(|seen| Some(seen.get(&key)?.contains(&chunk)));
        known.unwrap_or_else(|| {
            let mut chunks = FxHashSet::default();
            inspect::visible_tuples(table, crosscheck, |kind, item| {
                if kind == TupleKind::Header {
                    chunks.insert(header::chunk_id(item.body()));
                }
            });
            let sees = chunks.contains(&chunk);
            SEEN.with_borrow_mut(|seen| seen.insert(key, chunks));
            sees
        })
    }
}
