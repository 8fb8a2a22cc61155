//! Key share locks of others on a tuple that this transaction has written, as its xmax: where heap_update would have put them.

use super::page::Page;
use super::relation::Table;
use super::tid::Tid;
use super::transaction;
use super::tuple;
use pgrx::pg_sys;

const BUFFER_LOCK_EXCLUSIVE: i32 = 2;

/// Makes `lockers`, of whom there is one at least, hold key share locks on a tuple. Nothing happens where this transaction has not written the
/// tuple, or has written a newer version of it.
///
/// `table` must be open for writing, and have the tuple's page.
pub fn give(table: Table<'_>, at: Tid, lockers: &[pg_sys::TransactionId]) {
    const MULTI: u16 = 0x1000;
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
            Some(found) if is_last_version(found.header()) => {
                tuple::show_lock(found.header(), xmax);
                (*found.header()).t_infomask |= kind;
                pg_sys::GenericXLogFinish(change);
            }
            _ => pg_sys::GenericXLogAbort(change),
        }
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

/// A multixact of them.
fn members(lockers: &[pg_sys::TransactionId]) -> pg_sys::TransactionId {
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
///
/// # Safety
/// `header` must point to a tuple header.
unsafe fn is_last_version(header: pg_sys::HeapTupleHeader) -> bool {
    const LOCK_ONLY_OR_INVALID: u16 = 0x0080 | 0x0800;
    // SAFETY: by contract.
    unsafe {
        transaction::is_current(tuple::xmin(header))
            && ((*header).t_infomask & LOCK_ONLY_OR_INVALID != 0
                || !transaction::is_current(tuple::update_xid(header)))
    }
}
