//! CREATE INDEX: an event trigger translates `USING varve` to the index access method's own name, since
//! the name `varve` is the table access method's, and says what an ordinary index covers. The same trigger
//! lets automatic indexes make way for ALTER TABLE, and tells rollups of partitions that go.

use crate::catalog::{access_method, keys, layout};
use crate::ddl::auto_index;
use crate::functions::rollup::partitions;
use crate::pg::error;
use crate::pg::event_trigger::statement;
use crate::pg::lock_mode::LockMode;
use crate::pg::node;
use crate::pg::relation::{Open, Table};
use crate::pg::relation_lookup;
use crate::pg::statement::Statement;
use crate::series_index::types;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::CStr;

/// Name by which people ask for a series index.
const ALIAS: &CStr = c"varve";

/// `varve.before_ddl() → event_trigger`, at ddl_command_start.
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_before_ddl(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: core calls event triggers with an EventTriggerData as context.
    unsafe {
        let statement = statement(call);
        if statement.is_null() {
            return pg_sys::Datum::from(0usize);
        }
        match (*statement).type_ {
            pg_sys::NodeTag::T_IndexStmt => {
                let index: *mut pg_sys::IndexStmt = statement.cast();
                translate(index);
                look_at_table(index);
            }
            pg_sys::NodeTag::T_CreateSchemaStmt => {
                let elements = (*statement.cast::<pg_sys::CreateSchemaStmt>()).schemaElts;
                for_each_index(elements);
            }
            _ => {
                auto_index::before(statement);
                partitions::before(Statement::from_ptr(statement));
            }
        }
        pg_sys::Datum::from(0usize)
    }
}

#[no_mangle]
pub extern "C-unwind" fn pg_finfo_varve_before_ddl() -> &'static pg_sys::Pg_finfo_record {
    const RECORD: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &RECORD
}

unsafe fn for_each_index(elements: *mut pg_sys::List) {
    // SAFETY: a list of parse nodes.
    unsafe {
        for element in node::of_list::<pg_sys::Node>(elements) {
            if node::is(element, pg_sys::NodeTag::T_IndexStmt) {
                translate(element.cast());
            }
        }
    }
}

unsafe fn translate(index: *mut pg_sys::IndexStmt) {
    // SAFETY: the statement is this command's own copy.
    unsafe {
        let method = (*index).accessMethod;
        if !method.is_null() && CStr::from_ptr(method) == ALIAS {
            // Event triggers run in a memory context of their own, so a constant it is.
            (*index).accessMethod = layout::INDEX_AM.as_ptr().cast_mut();
        }
    }
}

/// Looks at the types of a series index, and says what one of another table is, and what an ordinary index of a table whose
/// rows get compressed covers.
unsafe fn look_at_table(index: *mut pg_sys::IndexStmt) {
    // SAFETY: the statement is this command's own copy.
    unsafe {
        if (*index).relation.is_null() {
            return;
        }
        let table = relation_lookup::named((*index).relation);
        let method = (*index).accessMethod;
        let is_series = !method.is_null() && CStr::from_ptr(method) == layout::INDEX_AM;
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
            (true, true) => auto_index::adopt(index, table.rel()),
            (true, false) => note_plain(table.rel()),
            (false, _) if !(*index).unique => note_ordinary(table.rel()),
            (false, _) => {}
        }
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
