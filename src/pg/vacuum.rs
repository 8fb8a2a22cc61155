//! Heap's own vacuum of one open table.

use pgrx::pg_sys;

/// Vacuums the table and its indexes and cuts empty pages off the end of the file, without waiting long
/// for the lock that this takes.
///
/// # Safety
/// `table` must be open with ShareUpdateExclusiveLock, in a transaction that has changed nothing, with an
/// active snapshot, in a memory context that is reset afterwards.
#[expect(
    clippy::needless_update,
    reason = "later versions of the server have more fields"
)]
pub unsafe fn run(table: pg_sys::Relation) {
    let mut params = pg_sys::VacuumParams {
        options: pg_sys::VACOPT_VACUUM,
        freeze_min_age: -1,
        freeze_table_age: -1,
        multixact_freeze_min_age: -1,
        multixact_freeze_table_age: -1,
        is_wraparound: false,
        log_min_duration: -1,
        index_cleanup: pg_sys::VacOptValue::VACOPTVALUE_ENABLED,
        truncate: pg_sys::VacOptValue::VACOPTVALUE_ENABLED,
        nworkers: -1,
        ..Default::default()
    };
    // SAFETY: by contract.
    unsafe {
        let strategy = pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_VACUUM);
        pg_sys::heap_vacuum_rel(table, &mut params, strategy);
    }
}
