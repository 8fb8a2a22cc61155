//! Announcements of batches: a lock on the table that those hold who bring chunks with keys, until their transactions end.

use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken, Whole};
use crate::pg::relation::Table;
use crate::pg::transaction;

/// Announces that this transaction brings batches.
pub fn announce(table: Table<'_>) {
    transaction::id();
    let batches = Tag::whole(table, Whole::Batches);
    lock_tags::take(&batches, LockMode::RowExclusive, true);
}

/// Has somebody else announced batches?
pub fn is_announced(table: Table<'_>) -> bool {
    let batches = Tag::whole(table, Whole::Batches);
    if lock_tags::take(&batches, LockMode::Share, false) == Taken::No {
        return true;
    }
    lock_tags::release(&batches, LockMode::Share);
    false
}
