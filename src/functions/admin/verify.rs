//! `varve.verify(table)`: a row for everything that is wrong with a table.

use super::subject;
use crate::pg::lock_mode::LockMode;
use crate::pg::snapshot::Snapshot;
use crate::pg::Oid;
use crate::verify;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;

/// `varve.verify(regclass)`
#[pg_extern(sql = false)]
fn varve_verify(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(kind, String),
        name!(location, String),
        name!(detail, String),
    ),
> {
    let table = subject::open(table, LockMode::AccessShare);
    subject::check_select(&table);
    // SAFETY: the table is open, and the statement's snapshot active.
    let findings = unsafe { verify::run(table.rel(), Snapshot::active()) };
    TableIterator::new(
        findings
            .into_iter()
            .map(|finding| (finding.kind.to_string(), finding.location, finding.detail)),
    )
}
