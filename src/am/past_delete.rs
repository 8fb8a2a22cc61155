//! Who deletes rows past the table access method, as pglogical's subscriber does by a function of heap's, fails on compressed rows with
//! an error of the storage manager's. No callback is asked then, so the server's log is told before: when it locks the first such row.

use crate::pg::error::{self, Code};
use crate::pg::relation::Table;
use crate::pg::replication;
use crate::pg::tid::{self, Tid};
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    /// Tables of which it has been said.
    static TOLD: RefCell<BTreeSet<u32>> = const { RefCell::new(BTreeSet::new()) };
}

/// Says once of each table what will happen to its deletes, unless a trigger stands in for them.
///
/// # Safety
/// `table` must be open, and `item` be a row's TID.
pub unsafe fn warn(table: Table<'_>, item: pg_sys::ItemPointer) {
    // SAFETY: by contract.
    unsafe {
        let at: Tid = tid::read(item);
        if !at.is_virtual() || !replication::applies_past_tables() || has_delete_trigger(table) {
            return;
        }
        if TOLD.with_borrow_mut(|told| told.insert(table.oid().to_u32())) {
            error::warning_with(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "pglogical cannot delete compressed rows of varve table \"{}\"",
                    table.name()
                ),
                "It deletes past the table access method: its first DELETE of such a row will say \"could not open file … (target block …)\" and stop the subscription. Its INSERT and UPDATE work.",
                "Make the table of the subscriber a heap, subscribe to it by CREATE SUBSCRIPTION, or give it a BEFORE DELETE trigger that deletes the row by SQL, enabled for replicas.",
            );
        }
    }
}

/// Has the table a BEFORE DELETE trigger for rows that fires where changes are applied?
fn has_delete_trigger(table: Table<'_>) -> bool {
    const KIND: u32 =
        pg_sys::TRIGGER_TYPE_ROW | pg_sys::TRIGGER_TYPE_BEFORE | pg_sys::TRIGGER_TYPE_DELETE;
    const FIRES: [u8; 2] = [
        pg_sys::TRIGGER_FIRES_ON_REPLICA,
        pg_sys::TRIGGER_FIRES_ALWAYS,
    ];
    // SAFETY: the list belongs to the open table.
    unsafe {
        let Some(triggers) = table.triggers() else {
            return false;
        };
        let all = core::slice::from_raw_parts(triggers.triggers, triggers.numtriggers as usize);
        all.iter().any(|trigger| {
            trigger.tgtype as u32 & KIND == KIND && FIRES.contains(&(trigger.tgenabled as u8))
        })
    }
}
