//! Locking a chunk and looking up a row in its newest version. A lock on a compressed row is a lock on
//! its chunk's header, whatever version of it the caller's snapshot sees.

use super::changes::{self, Newest};
use crate::pg::page::PageCursor;
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::storage::read::{Chunk, Reader};
use crate::storage::registry;
use pgrx::pg_sys;
use std::rc::Rc;

/// How to lock.
#[derive(Clone, Copy)]
pub struct Request {
    pub mode: pg_sys::LockTupleMode::Type,
    pub policy: pg_sys::LockWaitPolicy::Type,
}

/// What came of an attempt to lock a chunk.
pub enum Locked {
    /// Locked; this is its newest version.
    Chunk(Rc<Reader>),
    /// All its rows were deleted: by us (true) or by a transaction that has committed.
    Deleted(bool),
    /// The rows that its last version, at this TID, had left live on in chunks that this transaction wrote.
    Moved(Tid, pg_sys::TransactionId),
    WouldBlock,
}

/// Locks the newest version of `seen`'s chunk. Waits, raises or gives up as the policy says.
///
/// # Safety
/// `table` must be open for writing or row locking; `seen` is protected by a snapshot.
pub unsafe fn lock_chunk(table: pg_sys::Relation, seen: &Chunk, request: Request) -> Locked {
    let mut at = match changes::newest(seen) {
        Some(Newest::Gone) => return Locked::Deleted(true),
        Some(Newest::At(tid)) => tid,
        None => seen.tid,
    };
    // SAFETY: by contract; every TID that comes up is checked for a normal line pointer first.
    unsafe {
        loop {
            if PageCursor::new(table)
                .tuple(at, relation::blocks(table))
                .is_none()
            {
                return Locked::Deleted(false);
            }
            let (result, failure) = lock_header(table, at, request);
            match result {
                pg_sys::TM_Result::TM_Ok => {
                    let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
                    let newest = registry::reader_at(table, at, any)
                        .filter(|newest| newest.chunk.header.chunk == seen.header.chunk);
                    let Some(newest) = newest else {
                        return Locked::Deleted(false);
                    };
                    if request.mode == pg_sys::LockTupleMode::LockTupleExclusive {
                        changes::note_locked(&newest.chunk);
                    }
                    return Locked::Chunk(newest);
                }
                pg_sys::TM_Result::TM_WouldBlock => return Locked::WouldBlock,
                pg_sys::TM_Result::TM_Updated if tid::from_pg(&failure.ctid).is_moved_marker() => {
                    match registry::replacement(table, at, failure.xmax) {
                        Some(next) => at = next,
                        None => return Locked::Moved(at, failure.xmax),
                    }
                }
                _ => return Locked::Deleted(false),
            }
        }
    }
}

/// Locks one header tuple.
unsafe fn lock_header(
    table: pg_sys::Relation,
    at: Tid,
    request: Request,
) -> (pg_sys::TM_Result::Type, pg_sys::TM_FailureData) {
    // SAFETY: the caller checked that `at` is a normal line pointer; its snapshot keeps it so.
    unsafe {
        let mut found = pg_sys::HeapTupleData {
            t_self: tid::to_pg(at),
            ..Default::default()
        };
        let mut buffer: pg_sys::Buffer = 0;
        let mut failure = pg_sys::TM_FailureData::default();
        let result = pg_sys::heap_lock_tuple(
            table,
            &mut found,
            pg_sys::GetCurrentCommandId(false) + 1,
            request.mode,
            request.policy,
            false,
            &mut buffer,
            &mut failure,
        );
        pg_sys::ReleaseBuffer(buffer);
        (result, failure)
    }
}

/// State of a row in the newest version of its chunk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowState {
    Live,
    /// Changed by this transaction: by command `.0`, where that is known.
    OwnChange(Option<pg_sys::CommandId>),
    Deleted,
    /// Updated by a transaction that has committed.
    Updated(Tid),
}

/// Looks a row up in a locked chunk.
pub fn row_state(newest: &Chunk, row: u32) -> RowState {
    if let Some(entry) = changes::entry(newest, row) {
        return RowState::OwnChange(Some(entry.command));
    }
    if !newest.map.contains(row) {
        return RowState::Live;
    }
    if changes::gone_before(newest, row) == Some(false) {
        return RowState::OwnChange(None);
    }
    match newest.map.successor(row) {
        Some(next) => RowState::Updated(next),
        None => RowState::Deleted,
    }
}
