//! How a worker is started where no launcher is: by whoever notices that there is work. A backend that has written rows asks for
//! one at a statement after that transaction, once in ten seconds at most; VACUUM and ANALYZE, autovacuum's too, ask when
//! they are through with a table. A worker waits for nobody, so it cannot make autovacuum give up the table that it is at.

use super::background::Request;
use super::departure;
use super::places;
use crate::guc;
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A process asks for a worker at most so often; for few rows less often.
const OFTEN: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(60);
/// Where there was no room for a worker, it asks again so soon: writers that begin together ask together, for more workers than there
/// is room for, and all but one of these leave.
const AGAIN: Duration = Duration::from_millis(200);
/// The log says at most so often that there is no room for a worker.
const COMPLAINT: Duration = Duration::from_secs(600);

thread_local! {
    /// Rows that this transaction has written, and those that others can see, since a worker was asked for.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
    static COMMITTED: Cell<u64> = const { Cell::new(0) };
    /// How many of them there were already when a worker was found the last time.
    static FOUND: Cell<u64> = const { Cell::new(0) };
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// There was no room for a worker the last time.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    static COMPLAINED: RefCell<Option<Instant>> = const { RefCell::new(None) };
}

/// This transaction has written rows.
#[inline]
pub fn note_rows(rows: u64) {
    WRITTEN.set(WRITTEN.get() + rows);
}

/// The transaction has ended. Nothing may fail here.
pub fn end_transaction(committed: bool) {
    let rows = WRITTEN.take();
    if committed {
        COMMITTED.set(COMMITTED.get() + rows);
    }
}

/// A statement begins: asks for a worker if an earlier transaction has left work for it.
#[inline]
pub fn at_statement() {
    let rows = COMMITTED.get();
    if rows > 0 {
        let enough = rows >= guc::batch_rows() as u64;
        ask(if enough { OFTEN } else { SELDOM });
    }
}

/// VACUUM or ANALYZE is through with a table.
pub fn after_visit() {
    ask(OFTEN);
}

fn ask(often: Duration) {
    let often = if REFUSED.get() { AGAIN } else { often };
    let is_early = ASKED.get().is_some_and(|last| last.elapsed() < often);
    // SAFETY: flags of this process.
    let may = unsafe { pg_sys::IsUnderPostmaster && pg_sys::ParallelWorkerNumber < 0 };
    if is_early || !may || departure::is_worker() || !guc::has_worker() {
        return;
    }
    ASKED.set(Some(Instant::now()));
    // SAFETY: raises nothing.
    if unsafe { pg_sys::RecoveryInProgress() } || places::has_database_worker() {
        // It may be about to end: what has come since the last time is asked for again.
        let rest = COMMITTED.get() - FOUND.get();
        COMMITTED.set(rest);
        FOUND.set(rest);
        REFUSED.set(false);
        return;
    }
    start(Start {
        // SAFETY: set when this process connected.
        database: unsafe { pg_sys::MyDatabaseId },
        is_visit: false,
    });
    if !REFUSED.get() {
        COMMITTED.set(0);
        FOUND.set(0);
    }
}

/// What a worker is told when it starts.
#[derive(Clone, Copy)]
pub struct Start {
    pub database: pg_sys::Oid,
    /// It is only to look whether there is work.
    pub is_visit: bool,
}

impl Start {
    const VISIT: u64 = 1 << 32;

    fn to_datum(self) -> pg_sys::Datum {
        let visit = if self.is_visit { Self::VISIT } else { 0 };
        pg_sys::Datum::from(u64::from(self.database.to_u32()) | visit)
    }

    pub fn from_datum(datum: pg_sys::Datum) -> Self {
        let value = datum.value() as u64;
        Self {
            database: pg_sys::Oid::from(value as u32),
            is_visit: value & Self::VISIT != 0,
        }
    }
}

/// Asks the postmaster for the worker of a database.
pub fn start(what: Start) {
    let started = Request {
        name: c"varve worker",
        function: c"varve_database_worker",
        argument: what.to_datum(),
        restart: None,
    }
    .start();
    let is_refused_again = REFUSED.replace(!started) && !started;
    let is_said =
        COMPLAINED.with_borrow(|last| last.is_some_and(|last| last.elapsed() < COMPLAINT));
    if is_refused_again && !is_said {
        COMPLAINED.set(Some(Instant::now()));
        pgrx::log!(
            "varve: no background worker can be started, so tables wait for compaction and retention; raise max_worker_processes"
        );
    }
}
