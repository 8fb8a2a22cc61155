//! What the server counts of a table.

use super::relation::Table;
use pgrx::pg_sys;

/// Rows that were inserted since the last VACUUM or ANALYZE: those that sessions have reported, a second late, and those that this
/// one is still to report. `None` where nothing is counted.
pub fn inserts_since_vacuum(table: Table<'_>) -> Option<f64> {
    // SAFETY: the table is open.
    unsafe {
        let entry = reported((*table.as_ptr()).rd_id)?;
        #[cfg(feature = "pg15")]
        let since = (entry.inserts_since_vacuum, entry.changes_since_analyze);
        #[cfg(not(feature = "pg15"))]
        let since = (entry.ins_since_vacuum, entry.mod_since_analyze);
        Some((since.0.min(since.1) + pending(table).inserted).max(0) as f64)
    }
}

/// Rows of the table: what the last VACUUM or ANALYZE has found, and what came and went since or was reported since. `None` where nothing
/// is counted.
pub fn live_rows(table: Table<'_>) -> Option<f64> {
    // SAFETY: the table is open.
    unsafe {
        let pending = pending(table);
        let reported = reported((*table.as_ptr()).rd_id).map(|entry| {
            #[cfg(feature = "pg15")]
            return entry.n_live_tuples;
            #[cfg(not(feature = "pg15"))]
            return entry.live_tuples;
        });
        if reported.is_none() && pending.inserted == 0 {
            return None;
        }
        Some((reported.unwrap_or(0) + pending.alive).max(0) as f64)
    }
}

/// What this session is still to report of a table.
#[derive(Default)]
struct Pending {
    inserted: i64,
    /// Those that came less those that went.
    alive: i64,
}

fn pending(table: Table<'_>) -> Pending {
    // SAFETY: the table is open; what is pending belongs to this backend.
    unsafe {
        let Some(pending) = (*table.as_ptr()).pgstat_info.as_ref() else {
            return Pending::default();
        };
        #[cfg(feature = "pg15")]
        let (inserted, alive) = (
            pending.t_counts.t_tuples_inserted,
            pending.t_counts.t_delta_live_tuples,
        );
        #[cfg(not(feature = "pg15"))]
        let (inserted, alive) = (
            pending.counts.tuples_inserted,
            pending.counts.delta_live_tuples,
        );
        let (mut sum, mut level) = (Pending { inserted, alive }, pending.trans);
        while let Some(open) = level.as_ref() {
            sum.inserted += open.tuples_inserted;
            sum.alive += open.tuples_inserted - open.tuples_deleted;
            level = open.upper;
        }
        sum
    }
}

/// What sessions have reported of a table; None where nothing is counted, or where the transaction would keep the answer.
///
/// # Safety
/// The current memory context must live as long as the entry is used.
unsafe fn reported<'a>(table: pg_sys::Oid) -> Option<&'a pg_sys::PgStat_StatTabEntry> {
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
        pg_sys::pgstat_fetch_stat_tabentry(table).as_ref()
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

/// Counts rows as inserted, or fewer, for autovacuum and the views of statistics.
pub fn count_inserts(table: Table<'_>, rows: i64) {
    // SAFETY: the table is open.
    unsafe { pg_sys::pgstat_count_heap_insert(table.as_ptr(), rows) }
}
