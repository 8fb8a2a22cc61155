//! What the server counts of a table.

use pgrx::pg_sys;

/// Rows that were inserted since the last VACUUM or ANALYZE: those that sessions have reported, a second late, and those that this
/// one is still to report. `None` where nothing is counted.
///
/// # Safety
/// `table` must be open.
pub unsafe fn inserts_since_vacuum(table: pg_sys::Relation) -> Option<f64> {
    // SAFETY: by contract; what is pending belongs to this backend.
    unsafe {
        let reported = reported_inserts((*table).rd_id)?;
        let pending = (*table).pgstat_info.as_ref().map_or(0, |pending| {
            #[cfg(feature = "pg15")]
            let committed = pending.t_counts.t_tuples_inserted;
            #[cfg(not(feature = "pg15"))]
            let committed = pending.counts.tuples_inserted;
            let (mut sum, mut level) = (committed, pending.trans);
            while let Some(open) = level.as_ref() {
                sum += open.tuples_inserted;
                level = open.upper;
            }
            sum
        });
        Some((reported + pending).max(0) as f64)
    }
}

unsafe fn reported_inserts(table: pg_sys::Oid) -> Option<i64> {
    use pg_sys::PgStat_FetchConsistency::{
        PGSTAT_FETCH_CONSISTENCY_NONE, PGSTAT_FETCH_CONSISTENCY_SNAPSHOT,
    };
    // SAFETY: the entry is a copy. Without the setting the transaction would keep it, and show it to queries of its own later on.
    unsafe {
        let setting = pg_sys::pgstat_fetch_consistency;
        if setting == PGSTAT_FETCH_CONSISTENCY_SNAPSHOT as i32 {
            return None;
        }
        pg_sys::pgstat_fetch_consistency = PGSTAT_FETCH_CONSISTENCY_NONE as i32;
        let _restored = Restored(setting);
        let entry = pg_sys::pgstat_fetch_stat_tabentry(table).as_ref()?;
        #[cfg(feature = "pg15")]
        let since = (entry.inserts_since_vacuum, entry.changes_since_analyze);
        #[cfg(not(feature = "pg15"))]
        let since = (entry.ins_since_vacuum, entry.mod_since_analyze);
        Some(since.0.min(since.1))
    }
}

/// Sets `stats_fetch_consistency` back, after errors too.
struct Restored(i32);

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: a variable of this backend.
        unsafe { pg_sys::pgstat_fetch_consistency = self.0 };
    }
}
