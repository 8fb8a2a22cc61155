//! SQL functions that show jobs: definitions for the view `varve.jobs`, and `varve.expiring`.

use super::definition;
use crate::compact::expire::{self, Span};
use crate::functions::admin::subject;
use crate::pg::lock_mode::LockMode;
use crate::pg::snapshot::Snapshot;
use crate::pg::Oid;
use pgrx::datum::Interval;
use pgrx::iter::TableIterator;
use pgrx::prelude::*;

fn interval(span: Span) -> Option<Interval> {
    Interval::new(span.months, span.days, span.us).ok()
}

/// `varve.job_definitions(oid)`: the jobs of any table.
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "the columns of the SQL function")]
fn varve_job_definitions(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(id, i64),
        name!(kind, String),
        name!(schedule, Option<Interval>),
        name!(enabled, bool),
        name!(keep, Option<Interval>),
        name!(series_filter, Option<String>),
        name!(time_unit, Option<String>),
    ),
> {
    let rows = definition::of(table).into_iter().map(|job| {
        let rule = job.kind.rule();
        (
            job.id(),
            job.kind.name().to_string(),
            job.every.and_then(interval),
            job.enabled,
            rule.and_then(|rule| interval(rule.keep)),
            rule.and_then(|rule| rule.filter.clone()),
            rule.and_then(|rule| rule.unit)
                .map(|unit| unit.name().to_string()),
        )
    });
    TableIterator::new(rows.collect::<Vec<_>>())
}

/// `varve.expiring(regclass)`: what each rule of a table would delete now.
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "the columns of the SQL function")]
fn varve_expiring(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(id, i64),
        name!(keep, Option<Interval>),
        name!(series_filter, Option<String>),
        name!(rows, i64),
        name!(chunks, i64),
        name!(bytes, i64),
        name!(oldest, Option<String>),
        name!(newest, Option<String>),
    ),
> {
    let table = subject::open(table, LockMode::AccessShare);
    subject::check_owner(&table);
    // SAFETY: the table is open, and the statement's snapshot active.
    let rows = unsafe {
        let snapshot = Snapshot::active();
        let jobs = definition::of(table.rel().oid()).into_iter();
        let rules = jobs.filter_map(|job| Some((job.id(), job.kind.rule()?.clone())));
        rules
            .map(|(id, rule)| {
                let found = expire::preview(table.rel(), snapshot, &rule);
                let (keep, filter) = (interval(rule.keep), rule.filter);
                let (chunks, bytes) = (found.chunks, found.bytes);
                (
                    id,
                    keep,
                    filter,
                    found.rows,
                    chunks,
                    bytes,
                    found.oldest,
                    found.newest,
                )
            })
            .collect::<Vec<_>>()
    };
    TableIterator::new(rows)
}
