//! `varve.verify(table)`: a row for everything that is wrong with a table.

use super::subject;
use crate::verify;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;

/// `varve.verify(regclass)`
#[pg_extern(sql = false)]
fn varve_verify(
    table: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(kind, String),
        name!(location, String),
        name!(detail, String),
    ),
> {
    let table = subject::open(table, pg_sys::AccessShareLock);
    subject::check_select(&table);
    // SAFETY: the table is open, and the statement's snapshot active.
    let findings = unsafe { verify::run(table.rel(), pg_sys::GetActiveSnapshot()) };
    TableIterator::new(
        findings
            .into_iter()
            .map(|finding| (finding.kind.to_string(), finding.location, finding.detail)),
    )
}
