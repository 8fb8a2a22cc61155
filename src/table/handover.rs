//! Key share locks on a compressed row that is updated. A row's key may be locked by others while we update the rest of it;
//! they go on relying on the key when we have committed. So their locks go over to the new version, a tail row: as its
//! xmax, where heap_update would have put them. The new version is nobody else's business until we commit; until then the
//! compressed row stands for it, whose lock we take first if we touch the new version again.

use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken};
use crate::pg::page::Page;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple;
use pgrx::pg_sys;
use std::collections::HashMap;

const BUFFER_LOCK_EXCLUSIVE: i32 = 2;

/// A row of a chunk.
#[derive(Clone, Copy)]
struct Origin {
    chunk: u64,
    row: u32,
}

thread_local! {
    /// Tail rows that this transaction wrote as new versions of compressed rows of which it has locked no more than the row.
    static VERSIONS: PerTransaction<HashMap<(pg_sys::Oid, Tid), Origin>> = PerTransaction::default();
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
            lock_for(table, at, &lockers);
        }
    }
}

/// Makes `lockers` hold key share locks on a tail row that this transaction has written.
fn lock_for(table: Table<'_>, at: Tid, lockers: &[pg_sys::TransactionId]) {
    const KEY_SHARE: u16 = 0x0010;
    const LOCK_ONLY: u16 = 0x0080;
    const MULTI: u16 = 0x1000;
    const XMAX_BITS: u16 = 0x0010 | 0x0040 | 0x0080 | 0x0400 | 0x0800 | 0x1000;
    const KEYS_UPDATED: u16 = 0x2000;
    // SAFETY: the table is open; the buffer is pinned and locked while the page's copy is changed.
    unsafe {
        let (xmax, kind) = match lockers {
            [one] => (*one, 0),
            _ => (members(lockers), MULTI),
        };
        let buffer = pg_sys::ReadBuffer(table.as_ptr(), at.block);
        pg_sys::LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
        let change = pg_sys::GenericXLogStart(table.as_ptr());
        let page = Page::of(
            pg_sys::GenericXLogRegisterBuffer(change, buffer, 0),
            at.block,
        );
        match page.tuple(at.offset) {
            Some(found) if is_last_version(found.header) => {
                let header = found.header;
                (*header).t_infomask &= !XMAX_BITS;
                (*header).t_infomask |= KEY_SHARE | LOCK_ONLY | kind;
                (*header).t_infomask2 &= !KEYS_UPDATED;
                (*header).t_choice.t_heap.t_xmax = xmax;
                pg_sys::GenericXLogFinish(change);
            }
            _ => pg_sys::GenericXLogAbort(change),
        }
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

unsafe fn members(lockers: &[pg_sys::TransactionId]) -> pg_sys::TransactionId {
    // SAFETY: the array lives during the call.
    unsafe {
        pg_sys::MultiXactIdSetOldestMember();
        let mut members: Vec<_> = lockers
            .iter()
            .map(|&xid| pg_sys::MultiXactMember {
                xid,
                status: pg_sys::MultiXactStatus::MultiXactStatusForKeyShare,
            })
            .collect();
        pg_sys::MultiXactIdCreateFromMembers(members.len() as i32, members.as_mut_ptr())
    }
}

/// Did we write the tuple, and no newer version of it?
unsafe fn is_last_version(header: pg_sys::HeapTupleHeader) -> bool {
    const LOCK_ONLY_OR_INVALID: u16 = 0x0080 | 0x0800;
    // SAFETY: the caller's contract.
    unsafe {
        transaction::is_current(tuple::xmin(header))
            && ((*header).t_infomask & LOCK_ONLY_OR_INVALID != 0
                || !transaction::is_current(tuple::update_xid(header)))
    }
}
