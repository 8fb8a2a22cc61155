//! Waiting for other transactions that insert a key.

use super::relation::Table;
use super::tid::{self, Tid};
use pgrx::pg_sys;

/// Waits for the end of a transaction, so that a key can be entered; an error meanwhile names the row at a place of the table.
///
/// # Safety
/// No page may be locked.
pub unsafe fn await_inserter(transaction: pg_sys::TransactionId, table: Table<'_>, at: Tid) {
    let mut item = tid::to_pg(at);
    let why = pg_sys::XLTW_Oper::XLTW_InsertIndex;
    // SAFETY: by contract; the table is open.
    unsafe { pg_sys::XactLockTableWait(transaction, table.as_ptr(), &mut item, why) }
}

/// Waits until a transaction's INSERT … ON CONFLICT has made up its mind.
///
/// # Safety
/// No page may be locked.
pub unsafe fn await_speculation(transaction: pg_sys::TransactionId, token: u32) {
    // SAFETY: by contract.
    unsafe { pg_sys::SpeculativeInsertionWait(transaction, token) }
}
