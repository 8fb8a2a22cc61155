//! Tables and the automatic indexes that they have.

use crate::catalog::{access_method, index_options, layout};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::relation::Table;
use crate::pg::relation_lookup;
use crate::pg::Oid;

/// The automatic indexes of a table, but for those that have become part of a partitioned index.
pub fn auto_indexes(table: Table<'_>) -> Vec<OpenIndex> {
    let mut series = layout::series_indexes(table);
    series.retain(|index| {
        let index = index.rel();
        index_options::is_of_key(index) && !index.class().relispartition
    });
    series
}

/// A table that can have chunks, opened.
pub fn open_varve(table: Oid) -> Option<Open> {
    open_table(table).filter(|open| access_method::is_varve(open.rel()))
}

/// A table with rows, opened.
pub fn open_table(table: Oid) -> Option<Open> {
    if !relation_lookup::has_rows(table) {
        return None;
    }
    Open::existing_table(table, LockMode::AccessShare)
}
