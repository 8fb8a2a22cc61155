//! varve: compressed time-series storage for PostgreSQL. A varve table is a heap relation with ordinary
//! rows (the *tail*) and *chunks*: rows by column, encoded, in heap tuples of their own.
//!
//! Layers, imports point down only: `worker`, `plan` → `exec` → `functions`, `am` → `table` → `storage` → `pg` → `varve-columns`.
//!
//! * *chunk*: up to 65,536 rows; a *header* tuple and *piece* tuples
//! * *series*: the rows of one key; *layout*: which columns are key and time
//! * *seal*: tail rows become a chunk; *merge*: chunks become larger ones
//! * *delete map*: the rows of a chunk that are gone, part of each header version

pgrx::pg_module_magic!();

mod am;
mod exec;
mod functions;
mod guc;
mod pg;
mod plan;
mod rollup;
mod storage;
mod table;
mod worker;

/// Called once, when a backend loads the library.
#[no_mangle]
pub extern "C-unwind" fn _PG_init() {
    pg::error::without_backtraces();
    guc::init();
    storage::index_options::init();
    pg::transaction::init();
    am::hooks::init();
    am::companion::init();
    am::keys::catalog::init();
    am::keys::sift::init();
    am::planner::init();
    am::projection::init();
    am::utility::init();
    exec::aggregate::init();
    plan::aggregate::init();
    // A session loads the library when the planner first calls the support function of one of our functions: before any of
    // their hooks is due.
    functions::gapfill::init();
    functions::ranges::init();
    functions::rollup::truncate::init();
    rollup::watch::init();
    worker::init();
}
