//! Running one job on its table, with a record of it (`chunk/job_states`) that is committed with each round.

use super::definition::{Job, Kind};
use crate::chunk::job_states::{self, State};
use crate::chunk::write;
use crate::compact::expire::Span;
use crate::compact::progress::{Watch, Work};
use crate::compact::{expire, stages};
use crate::functions::rollup::refresh;
use crate::guc;
use crate::pg::departure;
use crate::pg::error::{self, Code};
use crate::pg::rounds::Rounds;
use crate::pg::sql;
use crate::pg::types::OIDOID;
use crate::pg::wal;
use crate::pg::{clock, places};
use crate::pg::{Datum, Interval};
use crate::rollup::catalog;
use std::cell::{Cell, RefCell};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// After a failure, and twice as long after each further one.
const FIRST_RETRY_US: i64 = SECOND_US;
const LAST_RETRY_US: i64 = 3_600 * SECOND_US;
/// From one refresh of a rollup to the next.
const REFRESH_US: i64 = 60 * SECOND_US;
/// After giving way to somebody.
const GIVEN_WAY_US: i64 = SECOND_US;
/// Where space could not be given back, since somebody may still see dead rows, or was at the table; twice as long each further time. New rows do
/// not wait for that.
const FIRST_SPACE_US: i64 = SECOND_US;
const LAST_SPACE_US: i64 = 30 * SECOND_US;
const MOST_TEXT: usize = 1_000;

/// What this process has written so far.
#[derive(Clone, Copy)]
struct Written {
    /// Of chunks.
    bytes: u64,
    wal: u64,
}

impl Written {
    fn now() -> Written {
        Written {
            bytes: write::bytes_written(),
            wal: wal::bytes_written(),
        }
    }
}

/// What is known of a job that runs.
struct Record {
    job: i64,
    /// When the job began, or `state` was written last.
    written: Cell<Written>,
    state: RefCell<State>,
    damage: RefCell<Vec<String>>,
    /// What the last run left behind.
    left_bytes: Option<u64>,
}

impl Watch for Record {
    fn progress(&self, phase: &str, done: u64, total: u64) {
        let mut state = self.state.borrow_mut();
        self.add_written(&mut state);
        state.phase = Some(phase.to_string());
        state.done = Some(done as i64);
        state.total = Some(total as i64);
        // SAFETY: within a round.
        unsafe { job_states::write(self.job, &state) };
    }

    fn damaged(&self, what: String) {
        if !departure::is_worker() {
            error::warning(Code::ERRCODE_DATA_CORRUPTED, what.clone());
        }
        self.damage.borrow_mut().push(what);
    }

    fn left_bytes(&self) -> Option<u64> {
        self.left_bytes
    }
}

impl Record {
    /// Puts down that the job begins now.
    ///
    /// # Safety
    /// Between two rounds, which must be of the job's table: they have the lock of compact on it.
    unsafe fn begin(rounds: &Rounds, job: &Job) -> Record {
        let id = job.id();
        let written = Cell::new(Written::now());
        // SAFETY: within a round, which has the table's lock.
        let (state, left) = unsafe {
            rounds.run(|_, _| {
                let mut state = job_states::read(id);
                // Not known before this run has come to its end.
                let left = state.left_bytes.take();
                state.pid = Some(i64::from(places::pid()));
                state.by_worker = Some(i64::from(departure::is_worker()));
                state.started = Some(clock::now());
                (state.phase, state.done, state.total) = (None, None, None);
                job_states::write(id, &state);
                (state, left)
            })
        };
        Record {
            job: id,
            written,
            state: RefCell::new(state),
            damage: RefCell::default(),
            left_bytes: left.and_then(|bytes| bytes.try_into().ok()),
        }
    }

    /// Adds what was written since the last time.
    fn add_written(&self, state: &mut State) {
        let now = Written::now();
        let before = self.written.replace(now);
        state.written += (now.bytes - before.bytes) as i64;
        state.wal += (now.wal - before.wal) as i64;
    }

    /// The record of a run that has come to its end. Damage is said once.
    ///
    /// # Safety
    /// The caller must see to nothing but that a warning can be raised, as in any round.
    unsafe fn finish(self, job: &Job, work: Work) -> State {
        let mut state = self.state.take();
        self.add_written(&mut state);
        let now = clock::now();
        let took = now - state.started.unwrap_or(now);
        let damage = damage_text(&self.damage.into_inner());
        if damage.is_some() && damage != state.last_error && departure::is_worker() {
            let text = damage.clone().unwrap_or_default();
            error::warning(Code::ERRCODE_DATA_CORRUPTED, text);
        }
        state.last_sqlstate = damage.as_ref().map(|_| "XX001".to_string());
        state.last_error = damage;
        let space_delay = delay_of(&state)
            .saturating_mul(2)
            .clamp(FIRST_SPACE_US, LAST_SPACE_US);
        state.last_run = state.started;
        state.duration_us = Some(took);
        state.rows = Some(work.rows as i64);
        state.bytes = Some(work.bytes as i64);
        state.left_bytes = work.left_bytes.and_then(|bytes| bytes.try_into().ok());
        state.runs += 1;
        state.failing = 0;
        state.next_run = if work.gave_way {
            Some(now + GIVEN_WAY_US)
        } else if job.kind == Kind::Refresh && job.every.is_none() {
            state.last_run.map(|began| began + REFRESH_US)
        } else if work.leaves_space && job.every.is_none() {
            Some(now + space_delay)
        } else {
            job.every.map(|every| after(every, now))
        };
        state
    }
}

/// How long after its last run a job was put off, in microseconds; 0 where it was not, or has failed since.
fn delay_of(state: &State) -> i64 {
    match (state.next_run, state.last_run, state.duration_us) {
        (Some(next), Some(last), Some(took)) if state.failing == 0 => {
            next.saturating_sub(last).saturating_sub(took)
        }
        _ => 0,
    }
}

fn damage_text(damage: &[String]) -> Option<String> {
    let mut text = damage.join("; ");
    let end = (0..=MOST_TEXT.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at));
    text.truncate(end.unwrap_or(0));
    (!text.is_empty()).then_some(text)
}

fn clear_running(state: &mut State) {
    (state.pid, state.by_worker, state.started) = (None, None, None);
    (state.phase, state.done, state.total) = (None, None, None);
}

/// A time so much later; infinity where the calendar ends before that.
pub fn after(every: Span, now: i64) -> i64 {
    const LAST: i128 = 9_223_371_331_199_999_999;
    let days = i128::from(every.months) * 31 + i128::from(every.days);
    let about = days * i128::from(DAY_US) + i128::from(every.us);
    if i128::from(now) + about > LAST {
        return i64::MAX;
    }
    clock::later(
        now,
        Interval {
            time: every.us,
            day: every.days,
            month: every.months,
        },
    )
}

/// Puts a rule of retention off that a dump brings: its table may not have all of its rows, indexes and foreign keys yet.
///
/// # Safety
/// Inside a transaction that holds the lock of compact on the table.
pub unsafe fn put_off(job: &Job) {
    let (Kind::Expire(_), Some(every)) = (&job.kind, job.every) else {
        return;
    };
    // SAFETY: by contract.
    unsafe {
        let mut state = job_states::read(job.id());
        state.next_run = Some(after(every, clock::now()));
        job_states::write(job.id(), &state);
    }
}

/// Runs a job. An error is raised; what is recorded then is that it began.
///
/// # Safety
/// As `Rounds::run`.
pub unsafe fn run(rounds: &mut Rounds, job: &Job) -> Work {
    // SAFETY: by contract.
    unsafe {
        let record = Record::begin(rounds, job);
        let work = match &job.kind {
            Kind::Compact => stages::run(rounds, &record),
            Kind::Expire(rule) => expire::run(rounds, rule, &record),
            Kind::Refresh => refresh::run(rounds, job.table, &record),
        };
        let mut record = Some(record);
        rounds.run(|_, _| {
            if let Some(record) = record.take() {
                let id = record.job;
                let mut state = record.finish(job, work);
                clear_running(&mut state);
                job_states::write(id, &state);
            }
        });
        work
    }
}

/// Puts down, after a worker has compacted a table or refreshed a rollup, which changes that took care of; `before` are those before a refresh began. Where
/// compact has found many rows, more will have come meanwhile, and it is due again; so it is where space could not be given back. A refresh has
/// surely seen those before it, since it has a snapshot for each step, and no step for what comes later.
///
/// # Safety
/// In a round of the job's table, of a worker that has reported its own changes.
pub unsafe fn note_seen(job: &Job, work: Work, before: Option<i64>) {
    if work.gave_way {
        return;
    }
    // SAFETY: by contract.
    unsafe {
        let many = guc::batch_rows() as i64;
        let found_many = work.rows >= many as u64 || work.leaves_space;
        let seen = match job.kind {
            Kind::Compact if found_many => changes(job).map(|changes| changes - many),
            Kind::Compact => changes(job),
            Kind::Refresh => before,
            Kind::Expire(_) => None,
        };
        if seen.is_some() {
            let mut state = job_states::read(job.id());
            state.seen = seen;
            job_states::write(job.id(), &state);
        }
    }
}

/// Changes of the table of a job, or of the source of its rollup with all partitions; None where no job comes from such.
///
/// # Safety
/// Inside a transaction with an active snapshot.
pub unsafe fn changes(job: &Job) -> Option<i64> {
    let (query, table) = match job.kind {
        Kind::Compact => ("SELECT varve.changes($1)", job.table),
        Kind::Refresh => {
            let source = catalog::source_of(job.table)?;
            ("SELECT varve.source_changes($1)", source)
        }
        Kind::Expire(_) => return None,
    };
    // SAFETY: the caller's contract.
    let rows = unsafe { sql::query(query, &[(OIDOID, Some(Datum::from(table)))]) };
    let text = rows.into_iter().flatten().next().flatten();
    Some(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}

/// Puts down that a job has failed, and when to try again.
pub fn note_failure(job: i64, sqlstate: &str, message: &str) {
    // SAFETY: inside a transaction.
    unsafe {
        let mut state = job_states::read(job);
        fail(&mut state, sqlstate, message);
        job_states::write(job, &state);
    }
}

fn fail(state: &mut State, sqlstate: &str, message: &str) {
    let now = clock::now();
    state.last_run = state.started.or(state.last_run);
    state.failures += 1;
    state.failing += 1;
    state.last_error = Some(message.to_string());
    state.last_sqlstate = Some(sqlstate.to_string());
    let doublings = u32::try_from(state.failing - 1).unwrap_or(0).min(20);
    state.next_run = Some(now + (FIRST_RETRY_US << doublings).min(LAST_RETRY_US));
    clear_running(state);
}

/// Is the job one that a worker has begun, and of which nobody has put down how it ended? Then that counts as a failure. To be
/// called with the lock of compact on the table, so that nobody is running it.
pub fn note_interruption(job: i64) -> bool {
    // SAFETY: inside a transaction.
    unsafe {
        let mut state = job_states::read(job);
        if state.pid.is_none() || state.by_worker != Some(1) {
            return false;
        }
        fail(
            &mut state,
            "57P02",
            "the background worker that ran the job ended before it was through; see the server's log",
        );
        job_states::write(job, &state);
        true
    }
}
