//! Scans with a dirty snapshot: how the apply worker of logical replication looks for a row that has no key.
//! A dirty snapshot judges each tuple at the moment that the scan comes to it, so a row that a sealer or
//! merger moves behind the scan would not be met at all, and its change be lost. Such a scan therefore goes
//! over the table by an ordinary snapshot first, which sees each row once; what it meets may have changed
//! since, but then the caller's lock finds that out, and it searches again. Rows of transactions in progress
//! come after that, by the dirty snapshot itself.

#[cfg(feature = "pg17")]
use crate::catalog::keys;
#[cfg(feature = "pg17")]
use crate::ingest::batch;
#[cfg(feature = "pg17")]
use crate::pg::error::{self, Code};
#[cfg(feature = "pg17")]
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use pgrx::pg_sys;

/// The two passes of one scan.
#[derive(Default)]
pub enum Search<'a> {
    /// Not a scan of this kind.
    #[default]
    No,
    /// By a registered snapshot.
    Committed(Snapshot<'a>),
    /// By the caller's own.
    Dirty,
}

impl<'a> Search<'a> {
    pub fn begin(snapshot: Snapshot<'_>) -> Search<'a> {
        // SAFETY: the snapshot is valid.
        unsafe {
            let is_dirty = snapshot.is_dirty();
            if is_dirty {
                Search::Committed(Snapshot::from_ptr(pg_sys::RegisterSnapshot(
                    pg_sys::GetLatestSnapshot(),
                )))
            } else {
                Search::No
            }
        }
    }

    /// The snapshot of the present pass, `own` being the caller's.
    pub fn snapshot(&self, own: Snapshot<'a>) -> Snapshot<'a> {
        match self {
            Search::Committed(latest) => *latest,
            Search::No | Search::Dirty => own,
        }
    }

    /// Before each row of the first pass: the caller reads from its snapshot who has the row in hand.
    ///
    /// `own` must be the caller's snapshot.
    pub fn clear_answer(&self, own: Snapshot<'_>) {
        if matches!(self, Search::Committed(_)) {
            own.clear_answer();
        }
    }

    /// Ends the first pass; false where that was not the present one.
    pub fn go_on(&mut self) -> bool {
        let was_first = matches!(self, Search::Committed(_));
        if was_first {
            self.end();
            *self = Search::Dirty;
        }
        was_first
    }

    /// Lets go of the snapshot.
    pub fn end(&mut self) {
        if let Search::Committed(latest) = core::mem::take(self) {
            // SAFETY: registered by `begin`.
            unsafe { pg_sys::UnregisterSnapshot(latest.as_ptr()) }
        }
    }
}

/// Does the apply worker use a key of the table, which finds compressed rows as well?
#[cfg(feature = "pg17")]
fn finds_by_key(table: Table<'_>) -> bool {
    // SAFETY: the table is open; asking for the indexes sets both OIDs.
    unsafe {
        table.index_oids();
        (*table.as_ptr()).rd_pkindex != pg_sys::InvalidOid
            || (*table.as_ptr()).rd_replidindex != pg_sys::InvalidOid
    }
}

/// From version 16 on the apply worker may look for a row by any btree or hash index, without asking the
/// planner. Raises an error where such an index has rows of the tail only.
///
/// # Safety
/// `table` must be open; an index scan of it begins.
#[cfg(feature = "pg17")]
pub unsafe fn refuse_partial_index(table: Table<'_>) {
    // SAFETY: by contract.
    unsafe {
        let is_apply = batch::depth() == 0 && pg_sys::IsLogicalWorker();
        if !is_apply || finds_by_key(table) || !keys::may_have_chunks(table) {
            return;
        }
        error::raise(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "logical replication cannot find rows of table \"{}\" by an index",
                table.name()
            ),
            "Its btree and hash indexes do not have compressed rows.",
            "Drop these indexes of the subscriber's table; a series index can stay.",
        )
    }
}
