//! CREATE INDEX: an event trigger translates `USING varve` to the index access method's own name, since
//! the name `varve` is the table access method's, and says what an ordinary index covers. The same trigger
//! lets automatic indexes make way for ALTER TABLE, and tells rollups of partitions that go.

use crate::catalog::{access_method, keys, layout};
use crate::ddl::auto_index;
use crate::functions::rollup::partitions;
use crate::pg::error;
use crate::pg::event_trigger;
use crate::pg::fcinfo::{guarded, sql_function};
use crate::pg::index_statement::CreateIndex;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation::Table;
use crate::pg::relation_lookup;
use crate::pg::statement::{Kind, Statement};
use crate::pg::Datum;
use crate::series_index::types;
use std::ffi::CStr;

/// Name by which people ask for a series index.
const ALIAS: &CStr = c"varve";

sql_function! {
    /// `varve.before_ddl() → event_trigger`, at ddl_command_start.
    fn varve_before_ddl(call) {
        guarded(|| {
            // SAFETY: the call runs.
            let statement = unsafe { event_trigger::statement(call) };
            if let Some(statement) = statement {
                before(statement);
            }
            Datum::from(0usize)
        })
    }
}

fn before(statement: Statement<'_>) {
    match statement.kind() {
        Kind::CreateIndex(index) => {
            translate(index);
            look_at_table(index);
        }
        Kind::CreateSchema(schema) => {
            for element in schema.elements() {
                if let Kind::CreateIndex(index) = element.kind() {
                    translate(index);
                }
            }
        }
        _ => {
            auto_index::before(statement);
            partitions::before(statement);
        }
    }
}

fn translate(index: CreateIndex<'_>) {
    if index.method() == Some(ALIAS) {
        // Event triggers run in a memory context of their own, so a constant it is.
        index.set_method(layout::INDEX_AM);
    }
}

/// Looks at the types of a series index, and says what one of another table is, and what an ordinary index of a table whose
/// rows get compressed covers.
fn look_at_table(index: CreateIndex<'_>) {
    let Some(table) = index.table().and_then(|name| name.find()) else {
        return;
    };
    let is_series = auto_index::statement::is_for_series(index);
    let has_rows = relation_lookup::has_rows(table);
    let concerns = has_rows || is_series && relation_lookup::is_partitioned(table);
    if !concerns {
        return;
    }
    let table = Open::table(table, LockMode::AccessShare);
    if is_series {
        types::check(index, table.rel());
    }
    if !has_rows {
        return;
    }
    match (is_series, access_method::is_varve(table.rel())) {
        // SAFETY: the statement of an event trigger.
        (true, true) => unsafe { auto_index::adopt(index, table.rel()) },
        (true, false) => note_plain(table.rel()),
        (false, _) if !index.is_unique() => note_ordinary(table.rel()),
        (false, _) => {}
    }
}

/// A series index of a table of another access method does what a btree does, as after ALTER TABLE … SET ACCESS METHOD.
fn note_plain(table: Table<'_>) {
    error::notice(
            format!(
                "series index on table \"{}\" is a plain btree, since the table does not use the access method varve",
                table.name()
            ),
            "",
        );
}

fn note_ordinary(table: Table<'_>) {
    if access_method::is_varve(table) && keys::may_have_chunks(table) {
        error::notice(
                format!(
                    "index on varve table \"{}\" covers rows that are not compressed, and is not used by queries",
                    table.name()
                ),
                "Chunks are found by a series index: CREATE INDEX ON t USING varve (key, time).",
            );
    }
}
