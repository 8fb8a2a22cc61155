//! Procedures that run jobs now: `varve.compact`, `varve.expire`, `varve.run_job`.

use super::definition::{self, Job, Kind};
use super::{run, settings};
use crate::functions::admin::subject;
use crate::pg::error::{self, Code};
use crate::pg::fcinfo::{arg_opt, guarded, sql_function, Fcinfo};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::rounds::Rounds;
use crate::pg::transaction;
use crate::pg::{Datum, Oid};
use std::ffi::CStr;

sql_function! {
    /// `varve.compact(regclass)`, a procedure
    fn varve_compact(fcinfo) {
        guarded(|| {
            // SAFETY: called by core for a procedure of one argument.
            unsafe {
                let table = table_of(fcinfo, c"varve.compact");
                let compaction = |job: &Job| job.kind == Kind::Compact;
                run_all(table, c"varve.compact", compaction);
            }
            Datum::from(0usize)
        })
    }
}

sql_function! {
    /// `varve.expire(regclass)`, a procedure
    fn varve_expire(fcinfo) {
        guarded(|| {
            // SAFETY: called by core for a procedure of one argument.
            unsafe {
                let table = table_of(fcinfo, c"varve.expire");
                let rule = |job: &Job| job.kind.rule().is_some();
                if !run_all(table, c"varve.expire", rule) {
                    error::notice(
                        "the table has no retention rule",
                        "varve.set_retention makes one.",
                    );
                }
            }
            Datum::from(0usize)
        })
    }
}

sql_function! {
    /// `varve.run_job(bigint)`, a procedure
    fn varve_run_job(fcinfo) {
        guarded(|| {
            // SAFETY: called by core for a procedure of one argument.
            unsafe {
                let id = arg_opt(fcinfo, 0).map(|id| id.value() as i64);
                check_context(fcinfo.may_commit(), c"varve.run_job");
                check_server(c"varve.run_job");
                let (job, open) = settings::own_job(id, LockMode::AccessShare);
                check_unused(open, c"varve.run_job");
                run_all(job.table, c"varve.run_job", |other| other.id() == job.id());
            }
            Datum::from(0usize)
        })
    }
}

/// The table that a procedure is called for, once it is clear that it may run.
///
/// # Safety
/// `fcinfo` must be the call that runs, one of a procedure whose first argument is a regclass. Within a guarded entry point.
unsafe fn table_of(fcinfo: Fcinfo, name: &'static CStr) -> Oid {
    // SAFETY: the caller's contract.
    unsafe {
        let text = name.to_string_lossy();
        let Some(table) = arg_opt(fcinfo, 0) else {
            error::raise(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "no table named",
                "",
                &format!("CALL {text}('a_table')"),
            );
        };
        check_context(fcinfo.may_commit(), name);
        check_server(name);
        let open = subject::open(Oid::from_u32(table.value() as u32), LockMode::AccessShare);
        subject::check_owner(&open);
        let table = open.rel().oid();
        check_unused(open, name);
        table
    }
}

/// Runs those jobs of a table that are `wanted`, whether enabled or not; false where there are none.
///
/// # Safety
/// As `Rounds::begin`: in a procedure that was called outside a transaction block, as `check_context` sees to, and that holds no snapshot.
unsafe fn run_all(table: Oid, name: &CStr, wanted: impl Fn(&Job) -> bool) -> bool {
    // SAFETY: a procedure that was called outside a transaction block.
    unsafe {
        let mut rounds = Rounds::begin(table, subject::check_owner);
        let jobs: Vec<Job> = rounds.run(|_, _| {
            let mut jobs = definition::of(table);
            jobs.retain(|job| wanted(job));
            jobs
        });
        for job in &jobs {
            if run::run(&mut rounds, job).gave_way {
                let name = name.to_string_lossy();
                error::notice(
                    format!("{name} stops early"),
                    &format!("Another session waits to change the table; call {name} again later."),
                );
                break;
            }
        }
        rounds.end();
        !jobs.is_empty()
    }
}

/// Raises an error where a procedure cannot end transactions.
fn check_context(may_commit: bool, name: &CStr) {
    if !may_commit {
        let name = name.to_string_lossy();
        error::raise(
            Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
            format!("{name} cannot run inside a transaction block"),
            "It works in rounds, each of which is a transaction of its own.",
            &format!("Use CALL {name}(…) as a statement of its own."),
        );
    }
}

fn check_server(name: &'static CStr) {
    transaction::prevent_in_recovery(name);
    transaction::prevent_if_read_only(name);
}

fn check_unused(table: Open, name: &'static CStr) {
    table.rel().check_unused(name);
}
