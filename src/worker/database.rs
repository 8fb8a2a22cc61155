//! The background worker of one database. It runs what `varve.jobs` shows as due, one job after another, each when its time has come, looks
//! again every second, and ends when nothing has waited for a while, at once if the launcher has only sent it to look. Errors of a
//! job are recorded with it, and concern no other.

use super::definition::{Job, Kind, NUMBERS};
use super::place::{Outcome, Place};
use super::run;
use crate::guc;
use crate::pg::background;
use crate::pg::databases;
use crate::pg::departure;
use crate::pg::error;
use crate::pg::places;
use crate::pg::relation;
use crate::pg::relation_lookup;
use crate::pg::rounds::Rounds;
use crate::pg::snapshot;
use crate::pg::sql;
use crate::pg::wake::Start;
use crate::pg::worker_transaction::{self, attempt, Failure};
use crate::pg::{Datum, Oid};
use pgrx::prelude::*;
use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

/// Between two looks for jobs.
const NAP: Duration = Duration::from_secs(1);
/// A worker that nothing waits for ends after this time. New work starts another.
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
    /// Or it rests a while.
    is_now: bool,
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
    /// Others wait for its place.
    Over,
    Crowded,
}

/// The worker's main function; its argument is a `wake::Start`.
///
/// # Safety
/// Called by the postmaster in a process of its own.
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_database_worker(argument: Datum) {
    let start = Start::from_datum(argument);
    // SAFETY: by contract.
    unsafe {
        background::attend_signals();
        background::connect(start.database);
        set_parameters();
        departure::begin();
        if !guc::has_worker() || !places::take_database() {
            return;
        }
        let end = work(start.is_visit);
        background::report(c"idle");
        match end {
            End::Wanted => pgrx::log!(
                "varve: worker leaves database {}, which somebody wants to drop or to copy",
                databases::own().to_u32()
            ),
            End::Crowded => pgrx::log!(
                "varve: {} workers are running in other databases; raise varve.max_workers if tables of this one wait too long",
                guc::max_workers()
            ),
            End::Idle | End::Off | End::NoExtension | End::Over => {}
        }
    }
}

/// What a round has changed of a chunk is written when it commits, which waits for whoever is writing that chunk: for a
/// prepared transaction not for ever. To look for jobs is a matter of milliseconds, and to compile that of seconds. A round writes,
/// takes its time, minds foreign keys and may all that it does, whatever the database has its clients do.
///
/// # Safety
/// In a background process that is connected.
unsafe fn set_parameters() {
    let parameters = [
        (c"lock_timeout", c"2s"),
        (c"jit", c"off"),
        (c"default_transaction_read_only", c"off"),
        (c"session_replication_role", c"origin"),
        (c"role", c"none"),
        #[cfg(feature = "pg17")]
        (c"transaction_timeout", c"0"),
    ];
    for (name, value) in parameters {
        // SAFETY: the worker is connected.
        unsafe { background::set(name, value) };
    }
}

/// Looks for jobs and runs them, until there is a reason to end. On a visit no place is needed to find that there is nothing to do.
///
/// # Safety
/// In a background worker that is connected, between transactions.
unsafe fn work(is_visit: bool) -> End {
    let mut idle = Instant::now();
    let mut place = Place::default();
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
        let (now, later): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|due| due.is_now);
        if now.is_empty() && is_visit && !place.is_held() {
            return End::Idle;
        }
        if let Some(end) = hold(&mut place) {
            return end;
        }
        for due in now {
            if let Some(end) = hold(&mut place) {
                return end;
            }
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
        if later.is_empty() && idle.elapsed() > LINGER {
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

/// Sees to it that the worker has a place; why it has to end where it gets none.
fn hold(place: &mut Place) -> Option<End> {
    match place.hold(|time| nap(time) && guc::has_worker()) {
        Outcome::Held => None,
        Outcome::Over => Some(End::Over),
        Outcome::Crowded => Some(End::Crowded),
        Outcome::Left if departure::is_wanted_away() => Some(End::Wanted),
        Outcome::Left => Some(End::Off),
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

/// The jobs that are due, now or when they have rested, in a transaction of its own.
///
/// # Safety
/// As `work`.
unsafe fn look() -> Result<Vec<Due>, End> {
    const JOBS: &str = "SELECT id, is_now::int, pending, rounds_behind FROM varve.due_jobs()";
    let find = || {
        if !databases::has_extension(c"varve") {
            return Err(End::NoExtension);
        }
        // SAFETY: the snapshot is active.
        let rows = snapshot::with_that_of_transaction(|_| unsafe { sql::query(JOBS, &[]) });
        Ok(rows.iter().filter_map(|row| due(row)).collect())
    };
    // SAFETY: a worker between transactions.
    unsafe { worker_transaction::within(find) }
}

fn due(row: &[Option<String>]) -> Option<Due> {
    let number = |at: usize| row.get(at)?.as_ref()?.parse().ok();
    Some(Due {
        id: number(0)?,
        is_now: number(1)? == 1,
        pending: number(2).unwrap_or(0),
        behind: number(3).unwrap_or(0),
    })
}

/// Says that writers outrun the worker.
///
/// # Safety
/// As `work`.
unsafe fn complain(due: Due, said: &mut HashMap<i64, Instant>) {
    let is_said = said
        .get(&due.id)
        .is_some_and(|last| last.elapsed() < COMPLAINT);
    if is_said {
        return;
    }
    said.insert(due.id, Instant::now());
    let table = Oid::from_u32((due.id / NUMBERS) as u32);
    // SAFETY: a worker between transactions.
    let name = unsafe { guarded(|| worker_transaction::within(|| relation::name_of(table))) };
    pgrx::log!(
        "varve: {} changes of table \"{}\" wait for compaction, which is {} rounds behind; if that stays so, lower varve.worker_cost_delay",
        due.pending,
        name.unwrap_or_default(),
        due.behind
    );
}

/// Runs a job if its table is free; true where it was.
///
/// # Safety
/// As `work`.
unsafe fn run_job(id: i64) -> bool {
    // SAFETY: a worker between transactions.
    let outcome = unsafe { attempt(|| do_rounds(id)) };
    background::report_as_name(c"");
    match outcome {
        Ok(did) => did,
        Err(failure) => {
            if !departure::is_wanted_away() {
                // SAFETY: the error has ended its transaction.
                unsafe { note(id, &failure) };
            }
            true
        }
    }
}

/// Does all rounds of a job if its table is free; true where it was.
///
/// # Safety
/// As `work`.
unsafe fn do_rounds(id: i64) -> bool {
    // SAFETY: a worker between transactions; rounds leave one open, and keep nothing of theirs.
    unsafe {
        let done = worker_transaction::within(|| {
            let job = Job::find(id)?;
            let mut rounds = Rounds::begin_in_worker(job.table)?;
            if rounds.run(|_, _| run::note_interruption(id)) {
                rounds.end();
                return None;
            }
            describe(&job);
            let before = match job.kind {
                Kind::Refresh => rounds.run(|_, _| run::changes(&job)),
                _ => None,
            };
            let work = run::run(&mut rounds, &job);
            Some((job, rounds, work, before))
        });
        let Some((job, rounds, work, before)) = done else {
            return false;
        };
        // Its own changes count among those that note_seen reads.
        worker_transaction::report_counts();
        worker_transaction::within(|| {
            rounds.run(|_, _| run::note_seen(&job, work, before));
            rounds.end();
        });
        true
    }
}

/// Records that a job has failed, in a transaction of its own, and says so in the log.
///
/// # Safety
/// As `work`.
unsafe fn note(id: i64, failure: &Failure) {
    // SAFETY: a worker between transactions.
    unsafe {
        guarded(|| {
            worker_transaction::within(|| {
                // The text of an error before it may be toasted, and is taken away.
                snapshot::with_that_of_transaction(|_| {
                    run::note_failure(id, &failure.sqlstate, &failure.message);
                });
            });
        });
    }
    pgrx::log!(
        "varve: job {id} failed ({}): {}; it is tried again later, see varve.jobs",
        failure.sqlstate,
        failure.message
    );
}

/// Shows which job runs. Inside a transaction.
fn describe(job: &Job) {
    let relation = relation_lookup::name(job.table).unwrap_or_default();
    let text = CString::new(format!("varve: {} {relation}", job.kind.name())).unwrap_or_default();
    background::report_as_name(&text);
}

/// Runs `body`; an error ends the transaction that it was in, and is of no interest beyond a line in the log.
///
/// # Safety
/// As `worker_transaction::attempt`: in a background process, between transactions.
unsafe fn guarded<R>(body: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: a worker between transactions.
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
