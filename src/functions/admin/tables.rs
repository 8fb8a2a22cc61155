//! `varve.table_state(table)`: what the view `varve.tables` says of a table.

use super::subject;
use crate::catalog::access_method;
use crate::catalog::layout;
use crate::compact::obstacle;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation::{self, Table};
use crate::pg::relation_lookup;
use crate::pg::snapshot::Snapshot;
use crate::pg::Oid;
use crate::scan::headers;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;

type Row = (Option<String>, i64, i64, i64, Option<String>);

/// `varve.table_state(regclass)`. No row for a table that has been dropped meanwhile.
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "the columns of the SQL function")]
fn varve_table_state(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(layout, Option<String>),
        name!(tail_rows, i64),
        name!(chunks, i64),
        name!(chunk_rows, i64),
        name!(obstacle, Option<String>),
    ),
> {
    let open = match relation_lookup::has_rows(table) {
        true => Open::existing_table(table, LockMode::AccessShare),
        false => None,
    };
    let open = open.filter(|open| access_method::is_varve(open.rel()));
    let row = open.map(|open| {
        subject::check_owner(&open);
        // SAFETY: the table is open, and the statement's snapshot active.
        unsafe { describe(open.rel(), Snapshot::active()) }
    });
    TableIterator::new(row)
}

fn describe(table: Table<'_>, snapshot: Snapshot<'_>) -> Row {
    let layout = layout::of(table);
    let attributes = table.attributes();
    let name = |&number: &u16| relation::attribute_name(&attributes[usize::from(number) - 1]);
    let names: Vec<String> = layout.keys.iter().chain(&layout.time).map(name).collect();
    let count = headers::count(table, snapshot);
    (
        layout.time.map(|_| names.join(", ")),
        count.tail_rows,
        count.chunks,
        count.chunk_rows,
        obstacle::of(table).map(|obstacle| obstacle.reason),
    )
}
