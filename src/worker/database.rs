//! The background worker of one database. It runs what `varve.jobs` shows as due, one job after another, looks again every
//! second, and ends when there has been nothing to do for a while. Errors of a job are recorded with it, and concern no other.

use super::definition::{Job, NUMBERS};
use super::run;
use crate::guc;
use crate::pg::background;
use crate::pg::departure;
use crate::pg::error;
use crate::pg::places;
use crate::pg::relation;
use crate::pg::rounds::Rounds;
use crate::pg::sql;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

/// Between two looks for jobs.
const NAP: Duration = Duration::from_secs(1);
/// A worker without work ends after this time. New work starts another.
const LINGER: Duration = Duration::from_secs(15);
/// Looking for jobs takes at most one in so many parts of the time.
const LOOKING: u32 = 20;
/// So many rounds of rows that wait are worth a line in the log, once in a while.
const BEHIND: i64 = 32;
const COMPLAINT: Duration = Duration::from_secs(600);

/// A job that is due.
#[derive(Clone, Copy)]
struct Due {
    id: i64,
    /// Changes that it would take care of, and of how many rounds they are.
    pending: i64,
    behind: i64,
}

/// Why a worker ends.
enum End {
    Idle,
    Off,
    NoExtension,
    Wanted,
}

/// The worker's main function; its argument is the database's OID.
///
/// # Safety
/// Called by the postmaster in a process of its own.
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_database_worker(database: pg_sys::Datum) {
    // SAFETY: by contract.
    unsafe {
        background::attend_signals();
        let database = pg_sys::Oid::from_u32(database.value() as u32);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
        pg_sys::VacuumCostActive = true;
        limit_waits();
        departure::begin();
        if !guc::has_worker() || !places::take_database() {
            return;
        }
        if !places::take_place() {
            pgrx::log!(
                "varve: {} workers are running in other databases; raise varve.max_workers if tables of this one wait too long",
                guc::max_workers()
            );
            return;
        }
        let end = work();
        report(c"idle");
        if matches!(end, End::Wanted) {
            pgrx::log!(
                "varve: worker leaves database {}, which somebody wants to drop or to copy",
                name()
            );
        }
    }
}

/// What a round has changed of a chunk is written when it commits, which waits for whoever is writing that chunk: for a
/// prepared transaction not for ever. To look for jobs is a matter of milliseconds, and to compile that of seconds.
unsafe fn limit_waits() {
    for (name, value) in [(c"lock_timeout", c"2s"), (c"jit", c"off")] {
        // SAFETY: the names and values are those of core's parameters.
        unsafe {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
}

fn name() -> String {
    // SAFETY: the name that this process shows.
    unsafe { pg_sys::MyDatabaseId }.to_u32().to_string()
}

/// Shows what is being done, in pg_stat_activity.
unsafe fn report(what: &std::ffi::CStr) {
    // SAFETY: texts are copied.
    unsafe {
        let state = pg_sys::BackendState::STATE_RUNNING;
        pg_sys::pgstat_report_activity(state, what.as_ptr());
    }
}

unsafe fn work() -> End {
    let mut idle = Instant::now();
    let mut complaints = HashMap::new();
    loop {
        let looked = Instant::now();
        // SAFETY: a worker between transactions.
        let found = unsafe { guarded(|| look()) };
        let took = looked.elapsed();
        let jobs = match found {
            Some(Ok(jobs)) => jobs,
            Some(Err(end)) => return end,
            None if departure::is_wanted_away() => return End::Wanted,
            None => Vec::new(),
        };
        for due in jobs {
            departure::reload();
            if !guc::has_worker() {
                return End::Off;
            }
            if due.behind >= BEHIND {
                // SAFETY: as above.
                unsafe { complain(due, &mut complaints) };
            }
            // SAFETY: as above.
            if unsafe { run_job(due.id) } {
                idle = Instant::now();
            }
            if departure::is_wanted_away() {
                return End::Wanted;
            }
        }
        if idle.elapsed() > LINGER {
            return End::Idle;
        }
        if !nap(NAP.max(took * LOOKING)) {
            return End::Wanted;
        }
        departure::reload();
        if !guc::has_worker() {
            return End::Off;
        }
    }
}

/// Waits, unless the worker is switched off; false when somebody wants the database.
fn nap(time: Duration) -> bool {
    const SLICE_MS: u64 = 100;
    let start = Instant::now();
    while start.elapsed() < time {
        // SAFETY: waits for the latch of this process.
        let ok = unsafe {
            background::wait(SLICE_MS);
            guarded(error::check_interrupts)
        };
        if ok.is_none() || departure::is_wanted_away() {
            return !departure::is_wanted_away();
        }
        // SIGHUP has set the latch.
        departure::reload();
        if !guc::has_worker() {
            return true;
        }
    }
    true
}

/// The jobs that are due, in a transaction of its own.
unsafe fn look() -> Result<Vec<Due>, End> {
    // SAFETY: a worker between transactions.
    unsafe {
        pg_sys::StartTransactionCommand();
        let result = if pg_sys::get_extension_oid(c"varve".as_ptr(), true) == pg_sys::InvalidOid {
            Err(End::NoExtension)
        } else {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let rows = sql::query(
                "SELECT id, pending, rounds_behind FROM varve.due_jobs()",
                &[],
            );
            pg_sys::PopActiveSnapshot();
            Ok(rows.iter().filter_map(|row| due(row)).collect())
        };
        pg_sys::CommitTransactionCommand();
        result
    }
}

fn due(row: &[Option<String>]) -> Option<Due> {
    let number = |at: usize| row.get(at)?.as_ref()?.parse().ok();
    Some(Due {
        id: number(0)?,
        pending: number(1).unwrap_or(0),
        behind: number(2).unwrap_or(0),
    })
}

/// Says that writers outrun the worker.
unsafe fn complain(due: Due, said: &mut HashMap<i64, Instant>) {
    let is_said = said
        .get(&due.id)
        .is_some_and(|last| last.elapsed() < COMPLAINT);
    if is_said {
        return;
    }
    said.insert(due.id, Instant::now());
    let table = pg_sys::Oid::from_u32((due.id / NUMBERS) as u32);
    // SAFETY: a worker between transactions.
    let name = unsafe {
        guarded(|| {
            pg_sys::StartTransactionCommand();
            let name = relation::name_of(table);
            pg_sys::CommitTransactionCommand();
            name
        })
    };
    pgrx::log!(
        "varve: {} changes of table \"{}\" wait for compaction, which is {} rounds behind; if that stays so, lower varve.worker_cost_delay",
        due.pending,
        name.unwrap_or_default(),
        due.behind
    );
}

/// Runs a job if its table is free; true where it was.
unsafe fn run_job(id: i64) -> bool {
    // SAFETY: a worker between transactions.
    unsafe {
        let outcome = attempt(|| {
            pg_sys::StartTransactionCommand();
            let job = Job::find(id);
            let rounds = job
                .as_ref()
                .and_then(|job| Rounds::begin_in_worker(job.table));
            let (Some(job), Some(mut rounds)) = (job, rounds) else {
                pg_sys::CommitTransactionCommand();
                return false;
            };
            if rounds.run(|_, _| run::note_interruption(id)) {
                rounds.end();
                pg_sys::CommitTransactionCommand();
                return false;
            }
            describe(&job);
            let work = run::run(&mut rounds, &job);
            pg_sys::CommitTransactionCommand();
            // Its own changes count among those that note_seen reads.
            pg_sys::pgstat_report_stat(true);
            pg_sys::StartTransactionCommand();
            rounds.run(|_, _| run::note_seen(&job, work));
            rounds.end();
            pg_sys::CommitTransactionCommand();
            true
        });
        report(c"");
        match outcome {
            Ok(did) => did,
            Err(failure) => {
                if !departure::is_wanted_away() {
                    note(id, &failure);
                }
                true
            }
        }
    }
}

unsafe fn note(id: i64, failure: &Failure) {
    // SAFETY: a worker between transactions.
    unsafe {
        guarded(|| {
            pg_sys::StartTransactionCommand();
            run::note_failure(id, &failure.sqlstate, &failure.message);
            pg_sys::CommitTransactionCommand();
        });
    }
    pgrx::log!(
        "varve: job {id} failed ({}): {}; it is tried again later, see varve.jobs",
        failure.sqlstate,
        failure.message
    );
}

unsafe fn describe(job: &Job) {
    // SAFETY: the name is palloc'd; inside a transaction.
    unsafe {
        let relation = pg_sys::get_rel_name(job.table);
        let relation = if relation.is_null() {
            String::new()
        } else {
            std::ffi::CStr::from_ptr(relation)
                .to_string_lossy()
                .into_owned()
        };
        let text =
            CString::new(format!("varve: {} {relation}", job.kind.name())).unwrap_or_default();
        report(&text);
        pg_sys::pgstat_report_appname(text.as_ptr());
    }
}

struct Failure {
    sqlstate: String,
    message: String,
}

/// Runs `body`; an error in it ends the transaction that it was in.
unsafe fn attempt<R>(body: impl FnOnce() -> R) -> Result<R, Failure> {
    let body = std::panic::AssertUnwindSafe(body);
    PgTryBuilder::new(move || {
        let body = body;
        Ok((body.0)())
    })
    .catch_others(|error| {
        // SAFETY: the error state was flushed when it was caught.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(failure(&error))
    })
    .execute()
}

/// The same where an error is of no interest beyond a line in the log.
unsafe fn guarded<R>(body: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: by contract.
    match unsafe { attempt(body) } {
        Ok(result) => Some(result),
        Err(failure) => {
            if !departure::is_wanted_away() {
                pgrx::log!("varve: worker: {}", failure.message);
            }
            None
        }
    }
}

fn failure(error: &CaughtError) -> Failure {
    let report = match error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
        CaughtError::RustPanic { ereport, .. } => ereport,
    };
    Failure {
        sqlstate: sqlstate(report.sql_error_code() as i32),
        message: report.message().to_string(),
    }
}

/// Five characters of six bits each.
fn sqlstate(code: i32) -> String {
    (0..5)
        .map(|at| char::from(((code >> (6 * at)) & 0x3f) as u8 + b'0'))
        .collect()
}
