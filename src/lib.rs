//! varve: compressed time-series storage for PostgreSQL. A varve table is a heap relation with ordinary
//! rows (the *tail*) and *chunks*: rows by column, encoded, in heap tuples of their own.
//!
//! Layers, the lowest first: a file imports from its own folder and from those above it in this list, which `make check` sees to
//! (bench/tests/imports.rs). Below all of them is the pure crate in `columns`. docs/architecture.md walks through them.
//!
//! 1. `guc`: settings
//! 2. `pg`: what PostgreSQL offers, wrapped; nothing of our format
//! 3. `catalog`: what a table is
//! 4. `chunk`: chunks as tuples of a heap
//! 5. `table`: changes of rows, and locks on them
//! 6. `series_index`: what a series index holds, and how it is merged
//! 7. `unique`: keys over compressed rows
//! 8. `ingest`: COPY and INSERT … SELECT
//! 9. `scan`: what a snapshot sees of a table, for readers that are no callbacks
//! 10. `rollup`: rollups, and which of their rows have to be computed again
//! 11. `compact`: survey, seal, merge, relocate, rewrite, expire
//! 12. `verify`: checks of all that must hold
//! 13. `am`: callbacks of the access methods
//! 14. `functions`: SQL functions
//! 15. `exec`: plan nodes of queries
//! 16. `plan`: planner and executor hooks, and their nodes
//! 17. `ddl`: event triggers, and the index that a key brings
//! 18. `worker`: jobs
//!
//! * *chunk*: up to 65,536 rows; a *header* tuple and *piece* tuples
//! * *series*: the rows of one key; *layout*: which columns are key and time
//! * *seal*: tail rows become a chunk; *merge*: chunks become larger ones
//! * *delete map*: the rows of a chunk that are gone, part of each header version

mod am;
mod catalog;
mod chunk;
mod compact;
mod ddl;
mod exec;
mod functions;
mod guc;
mod ingest;
mod pg;
mod plan;
mod rollup;
mod scan;
mod series_index;
mod table;
mod unique;
mod verify;
mod worker;

pgrx::pg_module_magic!();

/// Called once, when a backend loads the library.
#[no_mangle]
pub extern "C-unwind" fn _PG_init() {
    pg::error::without_backtraces();
    guc::init();
    catalog::index_options::init();
    pg::transaction::init();
    plan::hooks::init();
    ddl::object_access::init();
    catalog::keys::init();
    plan::conflict_filter::init();
    plan::planner::init();
    // What kept plans are looked for by is not to be changed: so this hook comes below theirs.
    plan::gapfill::init_fence();
    plan::kept_plans::init();
    plan::projection::init();
    plan::scan::init();
    plan::utility::init();
    exec::aggregate::init();
    exec::scan::init();
    exec::chunk_delete::init();
    plan::upper_paths::init();
    // A session loads the library when the planner first calls the support function of one of our functions: before any of
    // their hooks is due.
    plan::gapfill::init();
    plan::ranges::init();
    rollup::watch::init();
    worker::init();
}
