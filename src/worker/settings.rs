//! SQL functions that define jobs: `varve.set_retention`, `varve.remove_retention`, `varve.alter_job`.

use super::definition::{self, Job, Kind};
use crate::chunk::job_states;
use crate::compact::expire::{self, Rule, Span, Unit};
use crate::functions::admin::subject;
use crate::pg::citus;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::transaction;
use crate::pg::Oid;
use pgrx::datum::Interval;
use pgrx::prelude::*;

/// The lock of compact: whoever defines jobs of a table is alone with their records.
const LOCK: LockMode = LockMode::ShareUpdateExclusive;
const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
const SECOND_US: i64 = 1_000_000;
/// Jobs of one table at most.
const MOST_JOBS: usize = 900;

/// `varve.set_retention(regclass, interval, text, text) → bigint`
#[pg_extern(sql = false)]
fn varve_set_retention(
    table: Option<Oid>,
    keep: Option<Interval>,
    series_filter: Option<String>,
    time_unit: Option<String>,
) -> i64 {
    transaction::prevent_if_read_only(c"varve.set_retention()");
    let open = open_own(table, "varve.set_retention");
    let keep = positive(keep, "keep");
    let mut rule = Rule {
        keep,
        filter: series_filter,
        unit: time_unit.map(|name| unit(&name)),
        column: None,
    };
    // SAFETY: the table is open, within a statement.
    unsafe {
        rule.column = Some(expire::check(open.rel(), &rule));
        let table = open.rel().oid();
        if citus::is_distributed(table) {
            error::raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "table \"{}\" has no rows that expire: Citus keeps them in shards",
                    open.rel().name()
                ),
                "",
                &format!(
                    "SELECT run_command_on_shards('{}', $$SELECT varve.set_retention('%s', …)$$);",
                    open.rel().qualified_name().replace('\'', "''")
                ),
            );
        }
        let mut jobs = definition::of(table);
        let kind = Kind::Expire(rule);
        let same = jobs.iter().position(|job| has_filter(job, &kind));
        let at = same.unwrap_or_else(|| {
            let rules = jobs.iter().filter(|job| job.kind != Kind::Refresh);
            let number = rules.map(|job| job.number).max().unwrap_or(0) + 1;
            if jobs.len() >= MOST_JOBS || number >= definition::REFRESH {
                error::raise(
                    Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                    "too many retention rules for one table",
                    "",
                    "Rules with the same length can share a filter: host IN (…).",
                );
            }
            jobs.push(Job {
                table,
                number,
                kind: kind.clone(),
                every: None,
                enabled: true,
            });
            jobs.len() - 1
        });
        jobs[at].every = Some(often_enough(keep));
        jobs[at].kind = kind;
        jobs[at].enabled = true;
        let id = jobs[at].id();
        definition::store(table, &jobs);
        // The new rule is due now.
        job_states::remove(id);
        id
    }
}

/// Do two rules concern the same rows?
fn has_filter(job: &Job, kind: &Kind) -> bool {
    match (job.kind.rule(), kind.rule()) {
        (Some(one), Some(other)) => one.filter == other.filter,
        _ => false,
    }
}

/// How often a rule is applied: a tenth of what it keeps, an hour at most, ten seconds at least.
fn often_enough(keep: Span) -> Span {
    let about = (i64::from(keep.months) * 30 + i64::from(keep.days))
        .saturating_mul(DAY_US)
        .saturating_add(keep.us);
    Span {
        months: 0,
        days: 0,
        us: (about / 10).clamp(10 * SECOND_US, HOUR_US),
    }
}

/// `varve.remove_retention(regclass, text)`
#[pg_extern(sql = false)]
fn varve_remove_retention(table: Option<Oid>, series_filter: Option<String>) {
    transaction::prevent_if_read_only(c"varve.remove_retention()");
    let open = open_own(table, "varve.remove_retention");
    // SAFETY: the table is open, within a statement.
    unsafe {
        let mut jobs = definition::of(open.rel().oid());
        let gone = jobs.iter().position(|job| {
            job.kind
                .rule()
                .is_some_and(|rule| rule.filter == series_filter)
        });
        let Some(gone) = gone else {
            error::raise(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!(
                    "table \"{}\" has no retention rule {}",
                    open.rel().name(),
                    match &series_filter {
                        Some(filter) => format!("with the filter {filter}"),
                        None => "without a filter".to_string(),
                    }
                ),
                "",
                "SELECT * FROM varve.jobs shows the rules there are.",
            );
        };
        let job = jobs.remove(gone);
        definition::store(job.table, &jobs);
        job_states::remove(job.id());
    }
}

/// `varve.alter_job(bigint, interval, boolean)`
#[pg_extern(sql = false)]
fn varve_alter_job(id: Option<i64>, schedule: Option<Interval>, enabled: Option<bool>) {
    transaction::prevent_if_read_only(c"varve.alter_job()");
    let (job, open) = own_job(id, LOCK);
    let every = schedule.map(|schedule| positive(Some(schedule), "schedule"));
    // SAFETY: the table is open, within a statement.
    unsafe {
        let mut jobs = definition::of(open.rel().oid());
        let Some(found) = jobs.iter_mut().find(|other| other.number == job.number) else {
            no_such_job(job.id());
        };
        if every.is_some() {
            found.every = every;
        }
        if let Some(enabled) = enabled {
            found.enabled = enabled;
        }
        definition::store(job.table, &jobs);
        let mut state = job_states::read(job.id());
        state.next_run = None;
        job_states::write(job.id(), &state);
    }
}

/// The job of that id, and its table, which the user must own.
pub fn own_job(id: Option<i64>, lock: LockMode) -> (Job, Open) {
    let Some(id) = id else {
        error::raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "no job named",
            "",
            "SELECT * FROM varve.jobs shows the jobs of your tables.",
        );
    };
    let Some(job) = Job::find(id) else {
        no_such_job(id);
    };
    let open = subject::open_own(job.table, lock);
    (job, open)
}

fn no_such_job(id: i64) -> ! {
    error::raise(
        Code::ERRCODE_UNDEFINED_OBJECT,
        format!("there is no job {id}"),
        "",
        "SELECT * FROM varve.jobs shows the jobs of your tables.",
    )
}

fn open_own(table: Option<Oid>, function: &str) -> Open {
    let Some(table) = table else {
        error::raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "no table named",
            "",
            &format!("SELECT {function}('a_table', …)"),
        );
    };
    subject::open_own(table, LOCK)
}

fn unit(name: &str) -> Unit {
    Unit::named(name).unwrap_or_else(|| {
        error::raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("unknown time unit \"{name}\""),
            "",
            "It is 's', 'ms', 'us' or 'ns', counted from 1970.",
        )
    })
}

/// The span of an interval, of which no part may be negative, and not all can be zero.
fn positive(interval: Option<Interval>, name: &str) -> Span {
    let Some(interval) = interval else {
        error::raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("\"{name}\" cannot be NULL"),
            "",
            "Give an interval, such as '90 days'.",
        );
    };
    let span = Span {
        months: interval.months(),
        days: interval.days(),
        us: interval.micros(),
    };
    let refuse = |what: &str| -> ! {
        error::raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("\"{name}\" must be a positive interval, not {what}"),
            "",
            "Give an interval without negative parts, such as '90 days'.",
        )
    };
    if (span.months, span.days, span.us) == (i32::MAX, i32::MAX, i64::MAX) {
        refuse("infinite");
    }
    if span.months < 0 || span.days < 0 || span.us < 0 {
        refuse("a negative one, nor one with negative parts");
    }
    if (span.months, span.days, span.us) == (0, 0, 0) {
        refuse("zero");
    }
    span
}
