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
    /// Its rows live on in other chunks.
    Moved,
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
            let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
            let (result, moved) = match PageCursor::new(table).tuple(at, relation::blocks(table)) {
                Some(_) => lock_header(table, at, request),
                None => (pg_sys::TM_Result::TM_Updated, true),
            };
            match result {
                pg_sys::TM_Result::TM_Ok => {
                    let newest = registry::reader_at(table, at, any)
                        .filter(|newest| newest.chunk.header.chunk == seen.header.chunk);
                    if let Some(newest) = newest {
                        if request.mode == pg_sys::LockTupleMode::LockTupleExclusive {
                            changes::note_locked(&newest.chunk);
                        }
                        return Locked::Chunk(newest);
                    }
                }
                pg_sys::TM_Result::TM_WouldBlock => return Locked::WouldBlock,
                pg_sys::TM_Result::TM_Deleted => return Locked::Deleted(false),
                pg_sys::TM_Result::TM_Updated if !moved => return Locked::Deleted(false),
                _ => {}
            }
            // A newer version took its place, or a merge took it away.
            match registry::find_header(table, seen.header.chunk, at) {
                Some(next) => at = next,
                None => return Locked::Moved,
            }
        }
    }
}

/// Locks one header tuple; also says whether it carries the mark of a moved tuple.
unsafe fn lock_header(
    table: pg_sys::Relation,
    at: Tid,
    request: Request,
) -> (pg_sys::TM_Result::Type, bool) {
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
        (result, tid::from_pg(&failure.ctid).is_moved_marker())
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
