//! ALTER TABLE … TYPE to a type that no series index takes: an automatic index that nobody asked for must not stand in its way.

use super::existing::{auto_indexes, open_varve};
use super::{make, statement};
use crate::catalog::layout;
use crate::pg::alter_table::ColumnType;
use crate::pg::open::OpenIndex;
use crate::pg::relation_lookup;
use crate::pg::statement::Statement;
use crate::pg::types;
use crate::pg::{InvalidOid, Oid};

/// Drops the automatic indexes that could not be built again.
pub fn make_way(statement: Statement<'_>) {
    // That there is no such type is for core to say.
    let is_in_the_way = |change: &ColumnType| change.typ().is_some_and(|to| !is_indexable(to));
    let mut changes = statement::retyped(Some(statement));
    changes.retain(is_in_the_way);
    if changes.is_empty() {
        return;
    }
    for table in statement::altered(statement) {
        for auto_index in auto_indexes_with(table, &changes) {
            make::unmake(auto_index);
        }
    }
}

fn is_indexable(of_type: Oid) -> bool {
    types::default_class(of_type, layout::index_am()) != InvalidOid
}

fn auto_indexes_with(table: Oid, changes: &[ColumnType]) -> Vec<Oid> {
    let Some(open) = open_varve(table) else {
        return Vec::new();
    };
    let changed: Vec<u16> = changes
        .iter()
        .map(|change| relation_lookup::column_named(table, change.column()) as u16)
        .collect();
    let has_changed = |index: &OpenIndex| {
        let columns = layout::index_columns(index.rel());
        columns.iter().any(|column| changed.contains(column))
    };
    auto_indexes(open.rel())
        .iter()
        .filter(|index| has_changed(index))
        .map(|index| index.rel().oid())
        .collect()
}
