//! Tables that a statement makes and fills: CREATE TABLE AS, CREATE and REFRESH MATERIALIZED VIEW, and ALTER TABLE where it rewrites. Core hands each
//! row to the table by itself, into a relation that nobody else can see and that has no index yet, and asks for no row's place. So their
//! rows are collected like those of COPY. Where the new relation is to take the place of another, that one says what keys and what
//! layout it will have.

use crate::catalog::access_method;
use crate::catalog::auto_index_columns;
use crate::catalog::layout::{self, Layout};
use crate::guc;
use crate::pg::heap;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::relation::Table;
use crate::pg::replication;
use crate::pg::InvalidOid;

/// May rows that core inserts into `table` with these options be collected, though neither the executor nor COPY brings them?
pub fn accepts(table: Table<'_>, options: i32) -> bool {
    let class = table.class();
    let is_of_rows = table.kind().has_rows();
    let is_new = heap::fills_new_pages(options)
        && table.is_created_here()
        && !class.relhasindex
        && is_of_rows
        && table.descriptor().len() > 0;
    if !is_new || is_streamed(table) {
        return false;
    }
    let (keys_allow, layout) = match original(table) {
        Some(original) => (keys_allow(original.rel()), layout_for(table)),
        None => (true, layout::of(table)),
    };
    keys_allow && (layout.time.is_some() || guc::compresses_everything())
}

/// The layout of the chunks of a table: of one that takes the place of another, that one's to be.
pub fn layout_for(table: Table<'_>) -> Layout {
    // A table that is rewritten has its new columns by then.
    let Some(original) = original(table) else {
        return layout::of(table);
    };
    let original = original.rel();
    let brought = || {
        let mut indexes: Vec<_> = original
            .index_oids()
            .into_iter()
            .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
            .collect();
        // Keys come before others.
        indexes.sort_by_key(|index| !index.rel().form().indisunique);
        indexes
            .iter()
            .find_map(|index| auto_index_columns::columns_to_bring(original, index.rel()))
    };
    if becomes_varve(original) {
        if let Some(mut keys) = brought() {
            let time = keys.pop();
            return Layout { keys, time };
        }
    }
    layout::of(original)
}

/// Does logical replication read the rows? Those of a rewrite it has read before.
pub fn is_streamed(table: Table<'_>) -> bool {
    table.class().relrewrite == InvalidOid && replication::is_streamed(table)
}

/// The table whose place this one is to take.
fn original(table: Table<'_>) -> Option<Open> {
    let oid = table.class().relrewrite;
    (oid != InvalidOid).then(|| Open::table(oid, LockMode::AccessShare))
}

/// Will the keys of a table, which are built when it has been filled, be found in chunks: by a series index that is there, or that
/// they will bring?
fn keys_allow(table: Table<'_>) -> bool {
    let series = layout::series_indexes(table);
    table.index_oids().into_iter().all(|oid| {
        let index = OpenIndex::open(oid, LockMode::AccessShare);
        let index = index.rel();
        let form = index.form();
        !(form.indisunique || form.indisexclusion)
            || layout::series_index_of_key(index, &series).is_some()
            || becomes_varve(table)
                && layout::is_plain_key(index)
                && auto_index_columns::columns_to_bring(table, index).is_some()
    })
}

/// Will the table's indexes bring series indexes when the statement ends, because only then it is a varve table?
fn becomes_varve(table: Table<'_>) -> bool {
    // In the role of a replica event triggers do not fire.
    !access_method::is_varve(table) && !replication::is_role_replica()
}
