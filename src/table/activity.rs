//! What others are doing to a chunk, as its header's tuple tells: who looks for a key asks, and locks nothing.

use crate::pg::page::{self, PageCursor};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::pg::{LockTupleMode, TM_Result, TransactionId};

/// What others are doing to a chunk.
pub enum Activity {
    None,
    /// A transaction in progress has replaced or deleted the header, or locked it to change rows.
    By(TransactionId),
    /// The header has been replaced or deleted.
    Over,
}

/// What others are doing to the chunk whose header is at `at`.
///
/// # Safety
/// `table` must be open, and the tuple protected by a snapshot.
pub unsafe fn activity(table: Table<'_>, at: Tid) -> Activity {
    let mut ended = None;
    loop {
        let Some((state, xmax)) = modification(table, at) else {
            return Activity::Over;
        };
        match state {
            TM_Result::TM_BeingModified => match by_changers(xmax) {
                // Seen once more, after he has ended, it would be over if he had changed it: he has only locked it, and others share it.
                Activity::Over if ended == Some(xmax) => return Activity::None,
                Activity::Over => ended = Some(xmax),
                activity => return activity,
            },
            TM_Result::TM_Updated | TM_Result::TM_Deleted | TM_Result::TM_SelfModified => {
                return Activity::Over
            }
            _ => return Activity::None,
        }
    }
}

/// A transaction of somebody else that keeps the header at `at` from being locked in this mode; None where nobody does.
///
/// # Safety
/// As `activity`.
pub unsafe fn blocker(
    table: Table<'_>,
    at: Tid,
    mode: LockTupleMode::Type,
) -> Option<TransactionId> {
    let (state, xmax) = modification(table, at)?;
    if state != TM_Result::TM_BeingModified {
        return None;
    }
    let others = match xmax {
        tuple::Xmax::None => Vec::new(),
        tuple::Xmax::Sharer(other) | tuple::Xmax::One(other) => vec![other],
        tuple::Xmax::Members(multi, only_locks) => {
            transaction::conflicting_members(multi, only_locks, mode)
        }
    };
    others
        .into_iter()
        .find(|&other| !transaction::is_current(other) && transaction::is_in_progress(other))
}

/// Whether a header is being modified, and by whom; None where no tuple is.
fn modification(table: Table<'_>, at: Tid) -> Option<(TM_Result::Type, tuple::Xmax)> {
    // SAFETY: the page is pinned and locked while it is looked at.
    unsafe {
        if !table.has_block(at.block) {
            return None;
        }
        let mut cursor = PageCursor::new(table);
        cursor.go(at.block);
        let buffer = cursor.buffer();
        cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            let command = transaction::command(false) + 1;
            let state = page::changeable(table, item, command, buffer);
            Some((state, tuple::xmax(item.header())))
        })
    }
}

/// What those are doing who have a header to themselves, or had when it was looked at.
fn by_changers(xmax: tuple::Xmax) -> Activity {
    let changers = match xmax {
        tuple::Xmax::None | tuple::Xmax::Sharer(_) => Vec::new(),
        tuple::Xmax::One(changer) => vec![changer],
        // Those whom a share lock would wait for.
        tuple::Xmax::Members(multi, only_locks) => {
            transaction::conflicting_members(multi, only_locks, LockTupleMode::LockTupleShare)
        }
    };
    let mut activity = Activity::None;
    for changer in changers {
        if transaction::is_current(changer) {
            continue;
        }
        if transaction::is_in_progress(changer) {
            return Activity::By(changer);
        }
        if transaction::did_commit(changer) {
            activity = Activity::Over;
        }
    }
    activity
}
