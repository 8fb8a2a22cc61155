//! Who changes what is said of a rollup, one at a time: a refresh, retention that takes rows from its source, and who attaches a
//! partition to that. And retention beside those who bring it late rows.

use super::catalog::Rollup;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken, Whole};
use crate::pg::open::Open;
use crate::pg::Oid;

/// Keeps others out until the transaction ends; false where it would have to wait, and may not. Who drops the rollup locks the view
/// first and the stored table then, and is waited for; what is gone has nobody to keep out.
pub fn take(rollup: &Rollup, wait: bool) -> bool {
    if wait {
        lock_tags::lock_relation(rollup.view, LockMode::AccessShare);
    } else if !lock_tags::try_lock_relation(rollup.view, LockMode::AccessShare) {
        return false;
    }
    let Some(stored) = Open::existing_table(rollup.stored, LockMode::RowExclusive) else {
        return true;
    };
    let tag = Tag::whole(stored.rel(), Whole::Refreshing);
    lock_tags::take(&tag, LockMode::Exclusive, wait) != Taken::No
}

/// Keeps those who bring rows late to a source from committing them until the transaction ends: before retention asks which of them have been
/// marked. False where it would have to wait, and may not.
pub fn keep_late_rows(source: Oid, wait: bool) -> bool {
    let tag = Tag::whole_of(source, Whole::Removing);
    lock_tags::take(&tag, LockMode::Exclusive, wait) != Taken::No
}

/// Runs `body`, which marks late rows of a source and asks which times retention has taken, while retention takes none.
pub fn with_late_rows<R>(source: Oid, body: impl FnOnce() -> R) -> R {
    let tag = Tag::whole_of(source, Whole::Removing);
    lock_tags::take(&tag, LockMode::Share, true);
    let result = body();
    lock_tags::release(&tag, LockMode::Share);
    result
}
