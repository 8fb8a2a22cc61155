//! What a table is: its layout, its indexes and keys, and whether it has chunks. Read from the catalogs, and kept until they change.
//! May import `pg` and the settings.

pub mod access_method;
pub mod auto_index_columns;
pub mod chunk_marker;
pub mod index_options;
pub mod keys;
pub mod layout;
pub mod marker_file;
pub mod marker_sweep;
