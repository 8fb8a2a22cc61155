//! What has become of each job: when it ran, what it did, how it failed, how far it is. A small table of the extension's own
//! that is written here only. Like the marks (`marks`) it is a materialized view in name, so that no publication asks
//! subscribers for it; unlike them it is populated, so that views of ours can read it. Whoever writes a job's state has the lock
//! of compact on its table, so there is one writer for each row.

use super::write;
use crate::pg::catalog_scan::{self, CatalogScan, Key, Row};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::snapshot::Snapshot;
use crate::pg::tid;
use crate::pg::transaction;
use crate::pg::{catalog_write, names, varlena};
use crate::pg::{Datum, Oid, TM_Result};

/// State of one job. Times are those of timestamptz, in microseconds.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct State {
    pub next_run: Option<i64>,
    pub last_run: Option<i64>,
    pub duration_us: Option<i64>,
    /// What the last run has done.
    pub rows: Option<i64>,
    pub bytes: Option<i64>,
    pub runs: i64,
    pub failures: i64,
    /// Failures since the last run that succeeded.
    pub failing: i64,
    /// Bytes of chunks, and of the log, that all runs have written.
    pub written: i64,
    pub wal: i64,
    /// The table's counter of changes when the job last ran to its end.
    pub seen: Option<i64>,
    /// The process that runs the job now, how far it is and since when.
    pub pid: Option<i64>,
    /// It is a worker: 1.
    pub by_worker: Option<i64>,
    pub started: Option<i64>,
    pub done: Option<i64>,
    pub total: Option<i64>,
    /// Of a compaction that came to its end: what it has left behind of what it had written elsewhere.
    pub left_bytes: Option<i64>,
    pub phase: Option<String>,
    pub last_error: Option<String>,
    pub last_sqlstate: Option<String>,
}

/// Ids of jobs that a table has; the first is the table's OID times as many.
pub const OF_A_TABLE: i64 = 1000;
/// Columns of the table: the job, numbers, texts.
const NUMBERS: usize = 17;
const TEXTS: usize = 3;
const COLUMNS: usize = 1 + NUMBERS + TEXTS;

impl State {
    fn numbers(&self) -> [Option<i64>; NUMBERS] {
        [
            self.next_run,
            self.last_run,
            self.duration_us,
            self.rows,
            self.bytes,
            Some(self.runs),
            Some(self.failures),
            Some(self.failing),
            Some(self.written),
            Some(self.wal),
            self.seen,
            self.pid,
            self.by_worker,
            self.started,
            self.done,
            self.total,
            self.left_bytes,
        ]
    }

    fn texts(&self) -> [&Option<String>; TEXTS] {
        [&self.phase, &self.last_error, &self.last_sqlstate]
    }

    fn from_columns(numbers: [Option<i64>; NUMBERS], texts: [Option<String>; TEXTS]) -> Self {
        let [next_run, last_run, duration_us, rows, bytes, runs, failures, failing, written, wal, seen, pid, by_worker, started, done, total, left_bytes] =
            numbers;
        let [phase, last_error, last_sqlstate] = texts;
        State {
            next_run,
            last_run,
            duration_us,
            rows,
            bytes,
            runs: runs.unwrap_or_default(),
            failures: failures.unwrap_or_default(),
            failing: failing.unwrap_or_default(),
            written: written.unwrap_or_default(),
            wal: wal.unwrap_or_default(),
            seen,
            pid,
            by_worker,
            started,
            done,
            total,
            left_bytes,
            phase,
            last_error,
            last_sqlstate,
        }
    }
}

/// The state of a job; that of one that has never run where there is none.
///
/// # Safety
/// Inside a transaction; the same holds for the functions below.
pub unsafe fn read(job: i64) -> State {
    with_row(job, |row| row.map(|(_, state)| state)).unwrap_or_default()
}

/// Writes the state of a job in place of its last one. Who has the lock of compact on the job's table writes it alone; without that lock, as when an
/// error has ended the transaction of a job, nothing is written where somebody else is writing.
///
/// # Safety
/// See `read`; a snapshot must be active, since the last state may have texts that are toasted.
pub unsafe fn write(job: i64, state: &State) {
    // SAFETY: by contract; the table has the columns of `State`.
    unsafe {
        let Some((states, index)) = table_and_index() else {
            return;
        };
        if !remove(job) {
            return; // Somebody else is writing it.
        }
        let states = Open::table(states, LockMode::RowExclusive);
        let index = OpenIndex::open(index, LockMode::RowExclusive);
        let mut values = [Datum::from(0usize); COLUMNS];
        let mut nulls = [true; COLUMNS];
        let texts: Vec<_> = state
            .texts()
            .into_iter()
            .map(|text| {
                text.as_ref()
                    .map(|text| varlena::text_datum(&text.replace('\0', " ")))
            })
            .collect();
        let all = [Some(Datum::from(job))]
            .into_iter()
            .chain(state.numbers().map(|number| number.map(Datum::from)))
            .chain(texts);
        for (at, value) in all.enumerate() {
            if let Some(value) = value {
                (values[at], nulls[at]) = (value, false);
            }
        }
        catalog_write::insert_unseen(states.rel(), index.rel(), &mut values, &mut nulls);
        transaction::next_command();
    }
}

/// Removes the state of a job; false where somebody else is writing it. Two that wrote the first one at the same time, one of them without the
/// lock of compact, have left two rows: all go.
///
/// # Safety
/// See `write`.
pub unsafe fn remove(job: i64) -> bool {
    let Some((states, index)) = table_and_index() else {
        return true;
    };
    let states = Open::table(states, LockMode::RowExclusive);
    let mut written = Vec::new();
    let key = Key::int8(1, job);
    catalog_scan::each(states.rel(), Some(index), &[key], Snapshot::NONE, |row| {
        written.push(row.tid());
        true
    });
    if written.is_empty() {
        return true;
    }
    // SAFETY: by contract.
    unsafe {
        let command = transaction::command(true);
        let all_gone = written.into_iter().all(|at| {
            let result = write::try_delete(states.rel(), at, command, false, false);
            result == TM_Result::TM_Ok
        });
        transaction::next_command();
        all_gone
    }
}

/// Removes the states of all jobs of a table.
///
/// # Safety
/// See `read`; the table is being dropped.
pub unsafe fn forget(table: Oid) {
    let first = i64::from(table.to_u32()) * OF_A_TABLE;
    // SAFETY: by contract; the index is on the first column.
    unsafe {
        let Some((states, index)) = table_and_index() else {
            return;
        };
        let states = Open::table(states, LockMode::RowExclusive);
        let keys = [
            Key::int8_from(1, first),
            Key::int8_below(1, first + OF_A_TABLE),
        ];
        let mut gone = Vec::new();
        let now = Snapshot::NONE;
        catalog_scan::each(states.rel(), Some(index), &keys, now, |row| {
            gone.push(row.tid());
            true
        });
        let command = transaction::command(true);
        for at in gone {
            // What somebody else has removed is gone as well.
            write::try_delete(states.rel(), at, command, false, false);
        }
    }
}

/// Shows the row of a job, if it has one.
fn with_row<R>(job: i64, show: impl FnOnce(Option<(tid::Tid, State)>) -> R) -> R {
    let Some((states, index)) = table_and_index() else {
        return show(None);
    };
    let states = Open::table(states, LockMode::AccessShare);
    let key = Key::int8(1, job);
    let now = Snapshot::NONE;
    let mut scan = CatalogScan::begin(states.rel(), Some(index), &[key], now);
    // SAFETY: a row of the table of states.
    let row = scan
        .next_row()
        .map(|row| (row.tid(), unsafe { state_of(&row) }));
    drop(scan);
    show(row)
}

/// # Safety
/// The row must be one of the table of states.
unsafe fn state_of(row: &Row<'_>) -> State {
    let (values, nulls) = row.columns();
    let number = |at: usize| (!nulls[1 + at]).then(|| values[1 + at].value() as i64);
    let text = |at: usize| {
        let at = 1 + NUMBERS + at;
        // SAFETY: by contract: a column of texts.
        (!nulls[at]).then(|| unsafe { varlena::text(values[at]) })
    };
    State::from_columns(core::array::from_fn(number), core::array::from_fn(text))
}

/// The table and its index; nothing while the extension is being created or dropped.
fn table_and_index() -> Option<(Oid, Oid)> {
    names::table_and_index(c"varve", c"job_states", c"job_states_job")
}
