//! Refreshing: what has been computed from the source, and will hardly change any more, is stored. `varve.refresh_rollup` is made
//! of these steps, each in a transaction of its own (src/schema/60-rollups.sql):
//!
//! 1. `begin` moves the threshold: from now on writers of earlier times mark them.
//! 2. It waits for the transactions that may have seen the old threshold.
//! 3. `step` computes in one snapshot what is marked, and what lies between watermark and threshold; stores it; removes the marks
//!    that the snapshot shows; and moves the watermark. Marks that come later stay, and so their times are computed by readers.

use super::query::{self, Column, Defined};
use super::restored;
use crate::functions::fcinfo::{arg, guarded, null, sql_function};
use crate::pg::error::{self, Code};
use crate::pg::relation::{self, Open};
use crate::pg::rounds::Rounds;
use crate::pg::sql;
use crate::rollup::catalog::{self, Limit, Mark, Marks, Rollup};
use crate::rollup::exclusion;
use crate::rollup::ranges::Ranges;
use crate::rollup::series;
use crate::rollup::time::TimeType;
use core::ffi::CStr;
use pgrx::pg_sys;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ranges that a step computes one by one before it closes gaps between them.
const MOST_RANGES: usize = 16;
/// Ranges of single series that a step computes one by one.
const MOST_OF_SERIES: usize = 64;

sql_function! {
    /// `varve.rollup_begin(stored regclass) → bigint`, strict: moves the threshold to the newest time, and tells it.
    fn varve_rollup_begin(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with this argument.
            let stored = unsafe { pg_sys::Oid::from_u32(arg(fcinfo, 0).value() as u32) };
            pg_sys::Datum::from(as_owner(stored, begin))
        })
    }
}

sql_function! {
    /// `varve.rollup_step(stored regclass, threshold bigint) → bigint`, strict: stores what is due; how many buckets' rows.
    fn varve_rollup_step(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with these arguments.
            let (stored, threshold) = unsafe {
                (pg_sys::Oid::from_u32(arg(fcinfo, 0).value() as u32), arg(fcinfo, 1).value() as i64)
            };
            pg_sys::Datum::from(as_owner(stored, |rollup| step(rollup, threshold)))
        })
    }
}

sql_function! {
    /// `varve.rollup_mark_range(stored regclass, first anyelement, last anyelement)`: has times computed again.
    fn varve_rollup_mark_range(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with these arguments.
            unsafe {
                let stored = pg_sys::Oid::from_u32(arg(fcinfo, 0).value() as u32);
                let kind = pg_sys::get_fn_expr_argtype((*fcinfo).flinfo, 1);
                let (first, last) = (arg(fcinfo, 1), arg(fcinfo, 2));
                as_owner(stored, |rollup| {
                    let time = time_of(rollup);
                    if TimeType::of(kind) != Some(time) {
                        error::raise(
                            Code::ERRCODE_DATATYPE_MISMATCH,
                            "the range is not of the type of the rollup's times",
                            "",
                            "Cast both ends to the type of the source's time column.",
                        );
                    }
                    let mut times = Ranges::default();
                    times.add(time.read(first), time.read(last));
                    catalog::add_marks(stored, Mark::Any, &times);
                });
                null(fcinfo)
            }
        })
    }
}

sql_function! {
    /// `varve.rollup_stored(view regclass) → regclass`, strict
    fn varve_rollup_stored(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe { named(arg(fcinfo, 0)).stored.into() })
    }
}

sql_function! {
    /// `varve.rollup_source(view regclass) → regclass`, strict
    fn varve_rollup_source(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe { named(arg(fcinfo, 0)).source.into() })
    }
}

sql_function! {
    /// `varve.rollup_ignore_late(stored regclass, ignore bool)`, strict: what becomes of rows of times that retention has removed.
    fn varve_rollup_ignore_late(fcinfo) {
        // SAFETY: declared STRICT with these arguments.
        guarded(|| unsafe {
            let stored = pg_sys::Oid::from_u32(arg(fcinfo, 0).value() as u32);
            let ignore = arg(fcinfo, 1).value() as u8 != 0;
            as_owner(stored, |rollup| {
                exclusion::take(rollup, true);
                catalog::move_on(stored, Limit::IgnoresLate, ignore.into());
                pg_sys::CacheInvalidateRelcacheByRelid(rollup.source);
            });
            null(fcinfo)
        })
    }
}

sql_function! {
    /// `varve.rollup_remove(stored regclass)`, strict: for the event trigger that sees the rollup go.
    fn varve_rollup_remove(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe {
            catalog::remove(pg_sys::Oid::from_u32(arg(fcinfo, 0).value() as u32));
            null(fcinfo)
        })
    }
}

/// The rollup whose view somebody has named.
fn named(view: pg_sys::Datum) -> Rollup {
    let view = pg_sys::Oid::from_u32(view.value() as u32);
    catalog::of_view(view).unwrap_or_else(|| {
        error::raise(
            Code::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a rollup", relation::name_of(view)),
            "",
            "The view varve.rollups shows those that there are.",
        )
    })
}

/// A refresh by the background worker, in rounds on the stored table; how many rows it has stored.
///
/// # Safety
/// As `Rounds::run`.
pub unsafe fn run(rounds: &Rounds, stored: pg_sys::Oid) -> u64 {
    const PATIENCE: Duration = Duration::from_secs(60);
    const NAP: Duration = Duration::from_millis(20);
    // SAFETY: by contract.
    unsafe {
        let (threshold, source) = rounds.run(|_, _| as_owner(stored, |r| (begin(r), r.source)));
        let waiting = rounds.run(|_, _| writers_of(source));
        let start = Instant::now();
        while rounds.run(|_, _| are_running(&waiting)) {
            if start.elapsed() > PATIENCE {
                error::raise(
                    Code::ERRCODE_LOCK_NOT_AVAILABLE,
                    "refresh gave up waiting for transactions that write to the source of the rollup",
                    "What has not been stored is computed by whoever reads the rollup.",
                    "It is tried again later; pg_locks shows the transactions.",
                );
            }
            std::thread::sleep(NAP);
        }
        rounds.run(|_, _| as_owner(stored, |rollup| step(rollup, threshold))) as u64
    }
}

/// The transactions that can write to a table or its partitions now, by their virtual ids; prepared ones have marked what they changed.
unsafe fn writers_of(source: pg_sys::Oid) -> Vec<String> {
    // SAFETY: within a round.
    let rows = unsafe {
        sql::query(
            "SELECT pg_catalog.unnest(varve.rollup_writers($1))",
            &[(pg_sys::OIDOID, Some(pg_sys::Datum::from(source)))],
        )
    };
    rows.into_iter().flatten().flatten().collect()
}

unsafe fn are_running(writers: &[String]) -> bool {
    if writers.is_empty() {
        return false;
    }
    // Virtual ids are digits and a slash.
    let list = writers.join(",");
    // SAFETY: within a round.
    let found = unsafe {
        sql::query(
            &format!(
                "SELECT 1 FROM pg_catalog.pg_locks
                 WHERE virtualtransaction = ANY ('{{{list}}}') AND pid IS NOT NULL LIMIT 1"
            ),
            &[],
        )
    };
    !found.is_empty()
}

/// Runs `body` with the rights of the rollup's owner, and no others, if the caller has those of the owner.
fn as_owner<R>(stored: pg_sys::Oid, body: impl FnOnce(&Rollup) -> R) -> R {
    // SAFETY: an error ends the (sub)transaction, which puts back user and context.
    unsafe {
        pg_sys::PreventCommandDuringRecovery(c"varve.refresh_rollup".as_ptr());
        let Some(rollup) = catalog::find(stored, pg_sys::GetLatestSnapshot()) else {
            error::raise(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "no such rollup",
                "",
                "The view varve.rollups shows those that there are.",
            );
        };
        let view = Open::table(rollup.view, pg_sys::AccessShareLock);
        if !relation::is_owned(rollup.view) {
            error::raise(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of rollup \"{}\"", relation::name(view.rel())),
                "",
                "",
            );
        }
        let owner = (*(*view.rel()).rd_rel).relowner;
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let restricted = pg_sys::SECURITY_RESTRICTED_OPERATION as i32;
        pg_sys::SetUserIdAndSecContext(owner, context | restricted);
        let result = body(&rollup);
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

fn time_of(rollup: &Rollup) -> TimeType {
    let source = Open::living_table(rollup.source, pg_sys::AccessShareLock);
    // SAFETY: the source is open.
    let kind = unsafe {
        let attributes = relation::attributes((*source.rel()).rd_att);
        let column = attributes.get(rollup.time_column as usize - 1);
        column.and_then(|column| TimeType::of(column.atttypid))
    };
    kind.unwrap_or_else(|| {
        error::raise(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the source of the rollup has lost its time column",
            "",
            "Drop the rollup and create it again.",
        )
    })
}

/// Keeps partitions from coming while a refresh works: those that it has seen the marks of it must find, too. What takes one away locks
/// out all readers.
fn keep_partitions(source: pg_sys::Oid) {
    if !relation::is_partitioned(source) {
        return;
    }
    let mut kept = Vec::new();
    let mut found = vec![source];
    while let Some(part) = found.pop() {
        kept.push(part);
        // What has partitions may have got one while we waited.
        if Open::existing_table(part, pg_sys::ShareUpdateExclusiveLock).is_some() {
            // SAFETY: the table exists.
            let parts = unsafe { relation::inheritors(part, pg_sys::NoLock) };
            let new = |part: &pg_sys::Oid| !kept.contains(part) && relation::is_partitioned(*part);
            found.extend(parts.into_iter().filter(new));
        }
    }
}

fn begin(rollup: &Rollup) -> i64 {
    exclusion::take(rollup, true);
    // The row may have been changed while we waited.
    // SAFETY: a snapshot of this moment.
    let rollup = unsafe { catalog::find(rollup.stored, pg_sys::GetLatestSnapshot()) };
    let Some(rollup) = rollup else {
        return i64::MIN;
    };
    // SAFETY: within a statement or a round, which have a snapshot.
    let newest = unsafe { restored::begin(&rollup, newest_time(&rollup)) };
    if newest <= rollup.threshold {
        return rollup.threshold;
    }
    catalog::move_on(rollup.stored, Limit::Threshold, newest);
    // SAFETY: the source exists: it has been opened.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(rollup.source) };
    newest
}

/// The newest time in the source, but not the future; the threshold where nothing is newer.
fn newest_time(rollup: &Rollup) -> i64 {
    let time = time_of(rollup);
    let source = Open::living_table(rollup.source, pg_sys::AccessShareLock);
    // SAFETY: the source is open, and has the column.
    let (name, column, kind) = unsafe {
        let attribute =
            &relation::attributes((*source.rel()).rd_att)[rollup.time_column as usize - 1];
        let column = pg_sys::quote_identifier(attribute.attname.data.as_ptr());
        (
            relation::qualified_name(source.rel()),
            CStr::from_ptr(column).to_string_lossy().into_owned(),
            attribute.atttypid,
        )
    };
    // A clock of a zone may be ahead of ours.
    // SAFETY: a syscache look-up.
    let now = match unsafe { pg_sys::getBaseType(kind) } {
        pg_sys::TIMESTAMPTZOID => "pg_catalog.now()",
        pg_sys::TIMESTAMPOID => "(pg_catalog.now() AT TIME ZONE 'UTC' + interval '1 day')",
        pg_sys::DATEOID => "((pg_catalog.now() AT TIME ZONE 'UTC')::date + 1)",
        pg_sys::INT2OID => "32767",
        pg_sys::INT4OID => "2147483647",
        _ => "9223372036854775807",
    };
    let only = match relation::is_partitioned(rollup.source) {
        true => "",
        false => "ONLY ",
    };
    let query = format!(
        "SELECT pg_catalog.max({column}) FROM {only}{name} WHERE {column} >= $1 AND {column} <= {now}"
    );
    let from = time.write(rollup.threshold);
    // SAFETY: within a statement or a round, which have a snapshot.
    let found = unsafe { sql::value(&query, &[(kind, Some(from))]) };
    found.map_or(rollup.threshold, |newest| time.read(newest))
}

/// Computes and stores what is due, as far as `threshold`, which all writers know by now.
fn step(rollup: &Rollup, threshold: i64) -> i64 {
    keep_partitions(rollup.source);
    exclusion::take(rollup, true);
    // SAFETY: the snapshot is active until it is popped; an error ends it.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let stored = work(rollup.stored, threshold);
        pg_sys::PopActiveSnapshot();
        stored
    }
}

unsafe fn work(stored: pg_sys::Oid, threshold: i64) -> i64 {
    // SAFETY: the caller's snapshot is active.
    unsafe {
        let snapshot = pg_sys::GetActiveSnapshot();
        let Some(rollup) = catalog::find(stored, snapshot) else {
            return 0;
        };
        let mut marks = catalog::marks(stored, snapshot);
        // A time from the threshold on is not in a bucket that starts before this.
        let watermark = rollup.starts(threshold, threshold).0.max(rollup.watermark);
        let mut due = Due::of(&rollup, &marks);
        let mut rows = 0;
        if let Some(table) = Tables::open(&rollup) {
            for (first, last) in due.again.iter() {
                table.delete(first, last, None, snapshot);
            }
            due.again.add(
                rollup.watermark.max(rollup.first_computable()),
                watermark.saturating_sub(1),
            );
            for (first, last) in due.again.iter() {
                rows += table.insert(first, last, None, snapshot);
            }
            for (series, first, last) in &due.of_series {
                table.delete(*first, *last, Some(series), snapshot);
                rows += table.insert(*first, *last, Some(series), snapshot);
            }
        }
        catalog::remove_marks(&mut marks.places);
        settle_late_rows(stored, snapshot);
        if watermark > rollup.watermark {
            catalog::move_on(stored, Limit::Watermark, watermark);
        }
        rows
    }
}

/// Counts of rows that were ignored become one.
unsafe fn settle_late_rows(stored: pg_sys::Oid, snapshot: pg_sys::Snapshot) {
    // SAFETY: the caller excludes other refreshes.
    unsafe {
        let (rows, mut places) = catalog::late_rows(stored, snapshot);
        if places.len() > 1 {
            catalog::remove_late_rows(&mut places);
            catalog::add_late_rows(stored, rows);
        }
    }
}

/// Starts of buckets that are stored and have to be computed again: of all series, and of single ones besides.
struct Due {
    again: Ranges,
    of_series: Vec<(String, i64, i64)>,
}

impl Due {
    fn of(rollup: &Rollup, marks: &Marks) -> Due {
        let mut again = Ranges::default();
        let mut series: BTreeMap<&str, Ranges> = BTreeMap::new();
        for (first, last, key) in &marks.all {
            let (first, last) = rollup.starts(*first, *last);
            let last = last.min(rollup.watermark.saturating_sub(1));
            match key {
                Some(key) if rollup.key_stored > 0 => {
                    series.entry(key).or_default().add(first, last)
                }
                _ => again.add(first, last),
            }
        }
        again.start_at(rollup.first_computable());
        again.limit(MOST_RANGES);
        let mut of_series: Vec<_> = series
            .into_iter()
            .flat_map(|(key, mut ranges)| {
                ranges.start_at(rollup.first_computable());
                ranges.limit(MOST_RANGES);
                let ranges: Vec<_> = ranges.iter().collect();
                let with_key = move |(first, last)| (key.to_string(), first, last);
                ranges.into_iter().map(with_key)
            })
            .collect();
        if of_series.len() > MOST_OF_SERIES {
            for (_, first, last) in of_series.drain(..) {
                again.add(first, last);
            }
            again.limit(MOST_RANGES);
        }
        // A bucket is stored once: where a series meets a range of all, it goes with them.
        while let Some(at) = of_series
            .iter()
            .position(|(_, first, last)| again.overlaps(*first, *last))
        {
            let (_, first, last) = of_series.swap_remove(at);
            again.add(first, last);
        }
        Due { again, of_series }
    }
}

/// What a refresh reads and writes.
struct Tables {
    rollup: Rollup,
    stored: String,
    defined: Defined,
    /// The bucket's name and type, and what its values are.
    bucket: (String, pg_sys::Oid, TimeType),
    /// The type of the times that it is computed from.
    times: pg_sys::Oid,
    _table: Open,
}

impl Tables {
    unsafe fn open(rollup: &Rollup) -> Option<Tables> {
        let table = Open::living_table(rollup.stored, pg_sys::RowExclusiveLock);
        let view = Open::table(rollup.view, pg_sys::AccessShareLock);
        // SAFETY: both are open; the bucket is a column of the stored table.
        unsafe {
            let (_, defined) = query::of_view(view.rel())?;
            let bucket =
                &relation::attributes((*table.rel()).rd_att)[rollup.bucket_column as usize - 1];
            let time = TimeType::of(bucket.atttypid).unwrap_or(TimeType::Int8);
            let from = Open::table(defined.from, pg_sys::AccessShareLock);
            let times =
                relation::attributes((*from.rel()).rd_att)[defined.time as usize - 1].atttypid;
            Some(Tables {
                rollup: rollup.clone(),
                stored: relation::qualified_name(table.rel()),
                bucket: (
                    sql::identifier(&relation::attribute_name(bucket)),
                    bucket.atttypid,
                    time,
                ),
                times,
                defined,
                _table: table,
            })
        }
    }

    /// The column that tells series apart.
    fn key(&self) -> &Column {
        &self.defined.columns[self.rollup.key_stored as usize - 1]
    }

    unsafe fn series(&self, series: Option<&String>) -> Option<sql::Parameter> {
        // SAFETY: the text is of a value of this column.
        series.map(|series| unsafe {
            let kind = self.key().kind;
            (kind, Some(series::value(series, kind)))
        })
    }

    /// Deletes the stored buckets with starts `first` to `last`, of a series or of all.
    unsafe fn delete(
        &self,
        first: i64,
        last: i64,
        series: Option<&String>,
        snapshot: pg_sys::Snapshot,
    ) {
        let (column, kind, time) = &self.bucket;
        let mut query = format!(
            "DELETE FROM {} WHERE {column} >= $1 AND {column} <= $2",
            self.stored
        );
        if series.is_some() {
            query += &format!(" AND {} = $3", sql::identifier(&self.key().name));
        }
        let mut range = vec![
            (*kind, Some(time.write(first))),
            (*kind, Some(time.write(last))),
        ];
        // SAFETY: the caller's contract: an active snapshot.
        unsafe {
            range.extend(self.series(series));
            sql::execute_in(&query, &range, snapshot);
        }
    }

    /// Computes these buckets and stores them.
    unsafe fn insert(
        &self,
        first: i64,
        last: i64,
        series: Option<&String>,
        snapshot: pg_sys::Snapshot,
    ) -> i64 {
        let (_, kind, time) = &self.bucket;
        let (low, high) = self.rollup.times(first, last);
        let ends = [
            (self.times, low),
            (self.times, high),
            (*kind, first),
            (*kind, last),
        ];
        let mut ends = ends.map(|(kind, at)| (kind, Some(time.write(at)))).to_vec();
        let condition = series.map(|_| format!("{} = $5", self.key().expression));
        // SAFETY: the caller's contract: an active snapshot.
        unsafe {
            ends.extend(self.series(series));
            let select = self
                .defined
                .select_of(["$1", "$2", "$3", "$4"], condition.as_deref());
            let query = format!("INSERT INTO {} {select}", self.stored);
            sql::execute_in(&query, &ends, snapshot) as i64
        }
    }
}
