//! varve: compressed time-series storage for PostgreSQL.
pgrx::pg_module_magic!();

mod functions;

/// Called once, when a backend loads the library.
#[no_mangle]
pub extern "C-unwind" fn _PG_init() {
    functions::init();
}
