//! Key share locks on a compressed row that is updated. A row's key may be locked by others while we update the rest of it;
//! they go on relying on the key when we have committed. So their locks go over to the new version, a tail row: as its
//! xmax, where heap_update would have put them. The new version is nobody else's business until we commit; until then the
//! compressed row stands for it, whose lock we take first if we touch the new version again.

use crate::pg::key_share;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::Oid;
use std::collections::HashMap;

/// A row of a chunk.
#[derive(Clone, Copy)]
struct Origin {
    chunk: u64,
    row: u32,
}

thread_local! {
    /// Tail rows that this transaction wrote as new versions of compressed rows of which it has locked no more than the row.
    static VERSIONS: PerTransaction<HashMap<(Oid, Tid), Origin>> = PerTransaction::default();
}

/// Notes that the tail row at `at` is the new version of a row of a chunk.
pub fn note_version(table: Table<'_>, at: Tid, chunk: u64, row: u32) {
    let key = (table.oid(), at);
    VERSIONS.with_borrow_mut(|versions| versions.insert(key, Origin { chunk, row }));
}

fn origin(table: Table<'_>, at: Tid) -> Option<Origin> {
    VERSIONS.with_borrow(|versions| {
        if versions.is_empty() {
            return None;
        }
        let key = (table.oid(), at);
        versions.get(&key).copied()
    })
}

/// Notes that the tail row at `at` has got a newer version at `next`.
pub fn note_next_version(table: Table<'_>, at: Tid, next: Tid) {
    if let Some(Origin { chunk, row }) = origin(table, at) {
        note_version(table, next, chunk, row);
    }
}

/// Takes the lock on the compressed row whose new version is at `at`; false if somebody is at it and `wait` is not.
pub fn lock_origin(table: Table<'_>, at: Tid, mode: LockMode, wait: bool) -> bool {
    origin(table, at).is_none_or(|Origin { chunk, row }| {
        lock_tags::take(&Tag::row(table, chunk, row), mode, wait) != Taken::No
    })
}

/// Gives the new versions of rows of a chunk, whose changes have just been written, the key share locks of others. Who comes
/// later finds the changes written, and waits.
pub fn hand_over(table: Table<'_>, chunk: u64) {
    let oid = table.oid();
    let versions: Vec<(Tid, u32)> = VERSIONS.with_borrow(|versions| {
        versions
            .iter()
            .filter(|((table, _), origin)| *table == oid && origin.chunk == chunk)
            .map(|((_, at), origin)| (*at, origin.row))
            .collect()
    });
    for (at, row) in versions {
        let lockers = lock_tags::holders(&Tag::row(table, chunk, row), LockMode::AccessExclusive);
        if !lockers.is_empty() {
            key_share::give(table, at, &lockers);
        }
    }
}
