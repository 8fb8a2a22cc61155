//! ALTER TABLE … TYPE to a type that no series index takes, there or at all: an automatic index that nobody asked for must not stand in its way.

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
    let changes = statement::retyped(Some(statement));
    if changes.is_empty() {
        return;
    }
    for table in statement::altered(statement) {
        for auto_index in in_the_way(table, &changes) {
            make::unmake(auto_index);
        }
    }
}

fn in_the_way(table: Oid, changes: &[ColumnType]) -> Vec<Oid> {
    let Some(open) = open_varve(table) else {
        return Vec::new();
    };
    let changed: Vec<(u16, &ColumnType)> = changes
        .iter()
        .map(|change| {
            let column = relation_lookup::column_named(table, change.column());
            (column as u16, change)
        })
        .collect();
    let fails = |index: &OpenIndex| {
        let columns = layout::index_columns(index.rel());
        let last = columns.len() - 1;
        columns.iter().enumerate().any(|(at, column)| {
            let mut changes = changed.iter().filter(|(changed, _)| changed == column);
            changes.any(|(_, change)| !takes(change, at == last))
        })
    };
    auto_indexes(open.rel())
        .iter()
        .filter(|index| fails(index))
        .map(|index| index.rel().oid())
        .collect()
}

/// Does a series index take what a column of it is to be? That there is no such type or collation is for core to say.
fn takes(change: &ColumnType, is_time: bool) -> bool {
    let Some((to, typmod)) = change.typ() else {
        return true;
    };
    if is_time {
        return layout::is_time_type(types::base(to));
    }
    types::default_class(to, layout::index_am()) != InvalidOid
        && !layout::type_has_equal_values_that_differ(to, typmod)
        && change.collation(to).is_none_or(types::is_deterministic)
}
