//! Telling all other sessions at once, and learning whether anybody has told something: by the queue of invalidation messages, which each
//! session reads before it relies on its caches. A message says that a file's handles are to be closed; nobody needs to know which.

use super::relation::Table;
use super::transaction::{Access, PerTransaction};
use pgrx::pg_sys;

unsafe extern "C" {
    static SharedInvalidMessageCounter: u64;
}

thread_local! {
    /// There is something to tell before this transaction ends.
    static IS_DUE: PerTransaction<bool> = PerTransaction::default();
}

/// Tells every session something about a relation, now and whatever becomes of this transaction.
pub fn tell(relation: Table<'_>) {
    // SAFETY: the table is open. The queue's lock orders the message behind all that this process has written before.
    unsafe {
        #[cfg(feature = "pg15")]
        let file = pg_sys::RelFileNodeBackend {
            node: (*relation.as_ptr()).rd_node,
            backend: (*relation.as_ptr()).rd_backend,
        };
        #[cfg(feature = "pg17")]
        let file = pg_sys::RelFileLocatorBackend {
            locator: (*relation.as_ptr()).rd_locator,
            backend: (*relation.as_ptr()).rd_backend,
        };
        pg_sys::CacheInvalidateSmgr(file);
    }
}

/// Has `tell_due` tell something: of many things that a transaction does, once.
pub fn is_due() {
    IS_DUE.replace(true);
}

/// Tells every session something before this transaction commits, or is prepared, if there is anything to tell. It names no file: whose
/// handles are closed loses the page that his next row goes to.
pub fn tell_due() {
    if IS_DUE.with_borrow(|&due| due) {
        IS_DUE.replace(false);
        // SAFETY: as above; nobody has such a file open. Zeroes stand for none.
        unsafe { pg_sys::CacheInvalidateSmgr(core::mem::zeroed()) };
    }
}

/// A number that is another one once any session has told something since.
///
/// # Safety
/// Inside a transaction, where a lock may be taken.
pub unsafe fn heard() -> u64 {
    // SAFETY: by contract; only this process writes its counter.
    unsafe {
        pg_sys::AcceptInvalidationMessages();
        SharedInvalidMessageCounter
    }
}
