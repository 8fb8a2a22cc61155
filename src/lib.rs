//! varve: compressed time-series storage for PostgreSQL.
pgrx::pg_module_magic!();
