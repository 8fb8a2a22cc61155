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

/// Sets the number of rows that the server takes a table to have, in place of what a VACUUM has just reported: it counts tuples. It is
/// reported when the transaction has ended.
pub fn set_live_rows(table: Table<'_>, rows: f64) {
    let Some(reported) = live_rows(table) else {
        return;
    };
    // SAFETY: the table is open.
    let Some(pending) = (unsafe { counts(table) }) else {
        return;
    };
    let more = (rows - reported).round() as i64;
    #[cfg(feature = "pg15")]
    let live = &mut pending.t_counts.t_delta_live_tuples;
    #[cfg(not(feature = "pg15"))]
    let live = &mut pending.counts.delta_live_tuples;
    *live += more;
}

/// What this session counts of a table; None where nothing is counted.
///
/// # Safety
/// The table must be open as long as it is used.
pub(super) unsafe fn counts<'a>(table: Table<'_>) -> Option<&'a mut pg_sys::PgStat_TableStatus> {
    // SAFETY: by contract.
    unsafe {
        let relation = table.as_ptr();
        if (*relation).pgstat_info.is_null() && (*relation).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(relation);
        }
        (*relation).pgstat_info.as_mut()
    }
}

/// As long as this is there, nobody counts rows of a table that the transaction inserts and deletes: they are not new, and they do not go.
pub struct Uncounted<'a> {
    table: Table<'a>,
    /// Rows inserted, updated and deleted before.
    before: [i64; 3],
}

impl<'a> Uncounted<'a> {
    pub fn begin(table: Table<'a>) -> Uncounted<'a> {
        let counted = changes(table).map(|counted| counted.map(|count| *count));
        Uncounted {
            table,
            before: counted.unwrap_or_default(),
        }
    }
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        // A transaction that fails counts nothing as alive.
        if std::thread::panicking() {
            return;
        }
        if let Some(counted) = changes(self.table) {
            for (count, before) in counted.into_iter().zip(self.before) {
                *count = before;
            }
        }
    }
}

/// Rows that the innermost transaction has inserted, updated and deleted, where it has counted any.
fn changes(table: Table<'_>) -> Option<[&mut i64; 3]> {
    // SAFETY: the table is open; what is pending belongs to this backend.
    unsafe {
        let of_transaction = (*table.as_ptr()).pgstat_info.as_ref()?.trans.as_mut()?;
        Some([
            &mut of_transaction.tuples_inserted,
            &mut of_transaction.tuples_updated,
            &mut of_transaction.tuples_deleted,
        ])
    }
}
