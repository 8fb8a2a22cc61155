//! Who changes what is said of a rollup, one at a time: a refresh, retention that takes rows from its source, and who attaches a
//! partition to that.

use super::catalog::Rollup;
use crate::pg::lock_tags::{self, Tag, Taken, Whole};
use crate::pg::relation::Open;
use pgrx::pg_sys;

/// Keeps others out until the transaction ends; false where it would have to wait, and may not.
pub fn take(rollup: &Rollup, wait: bool) -> bool {
    let stored = Open::living_table(rollup.stored, pg_sys::RowExclusiveLock);
    // SAFETY: the table is open.
    let tag = unsafe { Tag::whole(stored.rel(), Whole::Refreshing) };
    lock_tags::take(&tag, pg_sys::ExclusiveLock, wait) != Taken::No
}
