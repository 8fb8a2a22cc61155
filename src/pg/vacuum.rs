//! Heap's own vacuum of one open table.

use super::activity;
use super::relation::{Index, Table};
use pgrx::pg_sys;

/// May empty pages be cut off the end of a table's file? `vacuum_truncate` says so, to VACUUM and to us. Cutting takes a lock that standbys
/// take too, and cancel their queries for, whatever `hot_standby_feedback` says.
pub fn may_truncate(table: Table<'_>) -> bool {
    // SAFETY: options of a table, of any access method, are these.
    unsafe {
        let options: *const pg_sys::StdRdOptions = (*table.as_ptr()).rd_options.cast();
        options
            .as_ref()
            .is_none_or(|options| options.vacuum_truncate)
    }
}

/// Vacuums the table and its indexes. Empty pages at the end of the file stay (`file_end`).
///
/// `table` must be open with ShareUpdateExclusiveLock, in a transaction that has changed nothing, with an active snapshot, in a memory
/// context that is reset afterwards.
#[expect(
    clippy::needless_update,
    reason = "later versions of the server have more fields"
)]
pub fn run(table: Table<'_>) {
    let mut params = pg_sys::VacuumParams {
        options: pg_sys::VACOPT_VACUUM,
        freeze_min_age: -1,
        freeze_table_age: -1,
        multixact_freeze_min_age: -1,
        multixact_freeze_table_age: -1,
        is_wraparound: false,
        log_min_duration: -1,
        index_cleanup: pg_sys::VacOptValue::VACOPTVALUE_ENABLED,
        truncate: pg_sys::VacOptValue::VACOPTVALUE_DISABLED,
        nworkers: -1,
        ..Default::default()
    };
    // SAFETY: the table is open.
    unsafe {
        let strategy = pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_VACUUM);
        pg_sys::heap_vacuum_rel(table.as_ptr(), &mut params, strategy);
    }
}

/// Tells `pg_class` how many rows a table has, and how many pages as of now.
///
/// `table` must be open with ShareUpdateExclusiveLock.
pub fn store_rows(table: Table<'_>, rows: f64) {
    let mut all_visible = 0;
    // SAFETY: the table is open.
    unsafe {
        pg_sys::visibilitymap_count(table.as_ptr(), &mut all_visible, core::ptr::null_mut());
        store_statistics(table, table.blocks(), rows.round(), all_visible);
    }
}

/// As `store_rows`, of rows that were counted just now: views of statistics say so too.
pub fn store_counted(table: Table<'_>, rows: f64) {
    store_rows(table, rows);
    activity::set_live_rows(table, rows);
}

/// Writes `relpages`, `reltuples` and `relallvisible`, in place and at once.
pub fn store_statistics(table: Table<'_>, pages: u32, rows: f64, all_visible: u32) {
    let has_index = !table.index_oids().is_empty();
    // SAFETY: the table is open.
    unsafe { write(table.as_ptr(), (pages, rows, all_visible), has_index) }
}

/// Writes what `statistics` returns, and leaves the rest of the relation's row as it is.
///
/// # Safety
/// `relation` must be open, with ShareUpdateExclusiveLock on it or on its table.
unsafe fn write(
    relation: pg_sys::Relation,
    (pages, rows, all_visible): (u32, f64, u32),
    has_index: bool,
) {
    // SAFETY: the caller has the relation open.
    unsafe {
        pg_sys::vac_update_relstats(
            relation,
            pages,
            rows,
            all_visible,
            has_index,
            pg_sys::InvalidTransactionId,
            pg_sys::MultiXactId::from(0),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            false,
        );
    }
}

/// The number of an index that has no meaning for one, its `relallvisible`: 0 unless `store_mark` wrote another, and nobody has built or
/// vacuumed the index since.
pub fn mark(index: pg_sys::Oid) -> u32 {
    statistics_of(index).2 as u32
}

/// Writes it, in place and at once.
///
/// The table of `index` must be open with ShareUpdateExclusiveLock.
pub fn store_mark(index: Index<'_>, mark: u32) {
    let (pages, rows, _) = statistics_of(index.oid());
    // SAFETY: the index is open.
    unsafe { write(index.as_ptr(), (pages as u32, rows.into(), mark), false) }
}

/// `relpages`, `reltuples` and `relallvisible` as the catalog has them now.
pub fn statistics(table: Table<'_>) -> (i32, f32, i32) {
    statistics_of(table.oid())
}

fn statistics_of(relation: pg_sys::Oid) -> (i32, f32, i32) {
    // SAFETY: the row is read before it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
        let row = pg_sys::SearchSysCache1(cache, relation.into());
        if row.is_null() {
            return (0, -1.0, 0);
        }
        let class: pg_sys::Form_pg_class = pg_sys::GETSTRUCT(row).cast();
        let found = (
            (*class).relpages,
            (*class).reltuples,
            (*class).relallvisible,
        );
        pg_sys::ReleaseSysCache(row);
        found
    }
}
