//! Deferred triggers, those of constraints above all, remember rows by their TIDs until the transaction ends. What a heap's own
//! transaction has deleted stays where it is until then. A compressed row's TID is that of a header, which anybody replaces who
//! changes another row of the chunk, and the TID of a row that was sealed is that of a tuple which another transaction has deleted:
//! both may be vacuumed, and something else be put in their places. A snapshot that the transaction keeps prevents that.

use crate::pg::relation::Table;
use crate::pg::snapshot;
use crate::pg::transaction::{Access, PerTransaction};

thread_local! {
    /// Gone with the transaction that registered it, if it is not released before.
    static KEPT: PerTransaction<Option<snapshot::Kept>> = PerTransaction::default();
}

/// A compressed row of the table was changed: sees to it that triggers find it when they are due.
///
/// # Safety
/// `table` must be open; to be called with the snapshot active by which the row was found.
pub unsafe fn keep_for_triggers(table: Table<'_>) {
    if KEPT.with_borrow(Option::is_some) {
        return;
    }
    // A later snapshot of the transaction protects nothing that this one does not.
    if has_deferrable_triggers(table) {
        KEPT.replace(snapshot::Kept::active());
    }
}

fn has_deferrable_triggers(table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    unsafe {
        let Some(found) = table.triggers() else {
            return false;
        };
        if !(found.trig_delete_after_row || found.trig_update_after_row) {
            return false;
        }
        let count = found.numtriggers as usize;
        let triggers = core::slice::from_raw_parts(found.triggers, count);
        triggers.iter().any(|trigger| trigger.tgdeferrable)
    }
}

/// The transaction is about to commit, or to be prepared: its triggers have run.
pub fn release() {
    if let Some(kept) = KEPT.take() {
        kept.release();
    }
}
