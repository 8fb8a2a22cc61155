//! What has become of each job: when it ran, what it did, how it failed, how far it is. A small table of the extension's own
//! that is written here only. Like the marks (`marks`) it is a materialized view in name, so that no publication asks
//! subscribers for it; unlike them it is populated, so that views of ours can read it. Whoever writes a job's state has the lock
//! of compact on its table, so there is one writer for each row.

use super::write;
use crate::pg::descriptor::Descriptor;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{Open, OpenIndex};
use crate::pg::tid;
use crate::pg::transaction;
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

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
    /// The table's counter of changes when the job last ran to its end.
    pub seen: Option<i64>,
    /// The process that runs the job now, how far it is and since when.
    pub pid: Option<i64>,
    /// It is a worker: 1.
    pub by_worker: Option<i64>,
    pub started: Option<i64>,
    pub done: Option<i64>,
    pub total: Option<i64>,
    pub phase: Option<String>,
    pub last_error: Option<String>,
    pub last_sqlstate: Option<String>,
}

/// Ids of jobs that a table has; the first is the table's OID times as many.
pub const OF_A_TABLE: i64 = 1000;
/// Columns of the table: the job, numbers, texts.
const NUMBERS: usize = 14;
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
            self.seen,
            self.pid,
            self.by_worker,
            self.started,
            self.done,
            self.total,
        ]
    }

    fn texts(&self) -> [&Option<String>; TEXTS] {
        [&self.phase, &self.last_error, &self.last_sqlstate]
    }

    fn from_columns(numbers: [Option<i64>; NUMBERS], texts: [Option<String>; TEXTS]) -> Self {
        let [next_run, last_run, duration_us, rows, bytes, runs, failures, failing, seen, pid, by_worker, started, done, total] =
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
            seen,
            pid,
            by_worker,
            started,
            done,
            total,
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
    // SAFETY: by contract.
    unsafe { with_row(job, |row| row.map(|(_, state)| state)) }.unwrap_or_default()
}

/// Writes the state of a job in place of its last one.
///
/// # Safety
/// See `read`; the caller has the lock of compact on the job's table.
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
        let mut values = [pg_sys::Datum::from(0usize); COLUMNS];
        let mut nulls = [true; COLUMNS];
        let texts: Vec<_> = state
            .texts()
            .into_iter()
            .map(|text| text.as_ref().map(|text| text_datum(text)))
            .collect();
        let all = [Some(pg_sys::Datum::from(job))]
            .into_iter()
            .chain(
                state
                    .numbers()
                    .map(|number| number.map(pg_sys::Datum::from)),
            )
            .chain(texts);
        for (at, value) in all.enumerate() {
            if let Some(value) = value {
                (values[at], nulls[at]) = (value, false);
            }
        }
        let tuple = pg_sys::heap_form_tuple(
            states.rel().descriptor().as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        pg_sys::heap_insert(
            states.rel().as_ptr(),
            tuple,
            transaction::command(true),
            pg_sys::HEAP_INSERT_NO_LOGICAL as i32,
            core::ptr::null_mut(),
        );
        pg_sys::index_insert(
            index.rel().as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &mut (*tuple).t_self,
            states.rel().as_ptr(),
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
            false,
            pg_sys::BuildIndexInfo(index.rel().as_ptr()),
        );
        transaction::next_command();
    }
}

/// Removes the state of a job; false where somebody else is writing it.
///
/// # Safety
/// See `read`.
pub unsafe fn remove(job: i64) -> bool {
    // SAFETY: by contract.
    unsafe {
        let Some((states, _)) = table_and_index() else {
            return true;
        };
        let Some(at) = with_row(job, |row| row.map(|(at, _)| at)) else {
            return true;
        };
        let states = Open::table(states, LockMode::RowExclusive);
        let command = transaction::command(true);
        let result = write::try_delete(states.rel(), at, command, false, false);
        transaction::next_command();
        result == pg_sys::TM_Result::TM_Ok
    }
}

/// Removes the states of all jobs of a table.
///
/// # Safety
/// See `read`; the table is being dropped.
pub unsafe fn forget(table: pg_sys::Oid) {
    let first = i64::from(table.to_u32()) * OF_A_TABLE;
    // SAFETY: by contract; the index is on the first column.
    unsafe {
        let Some((states, index)) = table_and_index() else {
            return;
        };
        let states = Open::table(states, LockMode::RowExclusive);
        let bound = |strategy: u32, function: u32, job: i64| {
            let mut key = pg_sys::ScanKeyData::default();
            let strategy = strategy as pg_sys::StrategyNumber;
            let function = pg_sys::Oid::from(function);
            pg_sys::ScanKeyInit(&mut key, 1, strategy, function, pg_sys::Datum::from(job));
            key
        };
        let mut keys = [
            bound(
                pg_sys::BTGreaterEqualStrategyNumber,
                pg_sys::F_INT8GE,
                first,
            ),
            bound(
                pg_sys::BTLessStrategyNumber,
                pg_sys::F_INT8LT,
                first + OF_A_TABLE,
            ),
        ];
        let none = core::ptr::null_mut();
        let scan = pg_sys::systable_beginscan(
            states.rel().as_ptr(),
            index,
            true,
            none,
            2,
            keys.as_mut_ptr(),
        );
        let mut gone = Vec::new();
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            gone.push(tid::from_pg(&(*tuple).t_self));
        }
        pg_sys::systable_endscan(scan);
        let command = transaction::command(true);
        for at in gone {
            // What somebody else has removed is gone as well.
            write::try_delete(states.rel(), at, command, false, false);
        }
    }
}

unsafe fn text_datum(text: &str) -> pg_sys::Datum {
    let text = CString::new(text.replace('\0', " ")).expect("BUG: a zero byte is left");
    // SAFETY: the result is palloc'd.
    unsafe { pg_sys::Datum::from(pg_sys::cstring_to_text(text.as_ptr())) }
}

/// Shows the row of a job, if it has one.
unsafe fn with_row<R>(job: i64, show: impl FnOnce(Option<(tid::Tid, State)>) -> R) -> R {
    // SAFETY: the callers' contract; the index is on the first column.
    unsafe {
        let Some((states, index)) = table_and_index() else {
            return show(None);
        };
        let states = Open::table(states, LockMode::AccessShare);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            1,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_INT8EQ),
            pg_sys::Datum::from(job),
        );
        let no_snapshot = core::ptr::null_mut();
        let scan = pg_sys::systable_beginscan(
            states.rel().as_ptr(),
            index,
            true,
            no_snapshot,
            1,
            &mut key,
        );
        let tuple = pg_sys::systable_getnext(scan);
        let row = (!tuple.is_null()).then(|| {
            let at = tid::from_pg(&(*tuple).t_self);
            (at, deform(tuple, states.rel().descriptor()))
        });
        pg_sys::systable_endscan(scan);
        show(row)
    }
}

unsafe fn deform(tuple: pg_sys::HeapTuple, descriptor: Descriptor<'_>) -> State {
    let mut values = [pg_sys::Datum::from(0usize); COLUMNS];
    let mut nulls = [true; COLUMNS];
    // SAFETY: the caller's contract.
    unsafe {
        pg_sys::heap_deform_tuple(
            tuple,
            descriptor.as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        let number = |at: usize| (!nulls[1 + at]).then(|| values[1 + at].value() as i64);
        let text = |at: usize| {
            let at = 1 + NUMBERS + at;
            (!nulls[at]).then(|| {
                let text = pg_sys::text_to_cstring(values[at].cast_mut_ptr());
                CStr::from_ptr(text).to_string_lossy().into_owned()
            })
        };
        State::from_columns(core::array::from_fn(number), core::array::from_fn(text))
    }
}

/// The table and its index; nothing while the extension is being created or dropped.
unsafe fn table_and_index() -> Option<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: syscache look-ups by name.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"varve".as_ptr(), true);
        let states = pg_sys::get_relname_relid(c"job_states".as_ptr(), schema);
        let index = pg_sys::get_relname_relid(c"job_states_job".as_ptr(), schema);
        (states != pg_sys::InvalidOid && index != pg_sys::InvalidOid).then_some((states, index))
    }
}
