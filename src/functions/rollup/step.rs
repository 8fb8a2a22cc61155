//! A step of a refresh, in one transaction with one snapshot: computes buckets, from the oldest on, stores them, and removes the marks
//! that the snapshot shows. After a while it stops where it is, and says what is left: by a mark, or by a watermark that is not at the
//! end yet. What is stored is so at the end of any step, whatever becomes of the next.

use super::partitions;
use super::query::{self, Column, Defined};
use crate::guc;
use crate::pg::departure;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::owner;
use crate::pg::relation;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::sql;
use crate::pg::Oid;
use crate::rollup::catalog::{self, Limit, Mark, Marks, Rollup};
use crate::rollup::exclusion;
use crate::rollup::ranges::Ranges;
use crate::rollup::series;
use crate::rollup::time::TimeType;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ranges that a step computes one by one before it closes gaps between them.
const MOST_RANGES: usize = 16;
/// Ranges of single series that a step computes one by one.
const MOST_OF_SERIES: usize = 64;
/// Buckets of the first slice of a step. Slices grow while they take less than `QUICK`.
const FIRST_SLICE: i64 = 2;
const GROWTH: i64 = 4;
const QUICK: Duration = Duration::from_millis(250);

/// What a step came to.
pub struct Stepped {
    /// Rows that were stored.
    pub rows: i64,
    /// Is there something left that the step has been asked for?
    pub has_more: bool,
}

/// Computes and stores what is due, as far as `threshold`, which all writers know by now, and as far as time allows.
pub fn run(rollup: &Rollup, threshold: i64) -> Stepped {
    partitions::keep(rollup.source);
    exclusion::take(rollup, true);
    // SAFETY: the snapshot is active.
    snapshot::with_latest(|snapshot| unsafe { work(rollup.stored, threshold, snapshot) })
}

/// What `run` does, by one snapshot.
///
/// # Safety
/// `snapshot` must be active, and other refreshes of the rollup be kept out until the transaction ends.
unsafe fn work(stored: Oid, threshold: i64, snapshot: Snapshot<'_>) -> Stepped {
    // SAFETY: the caller's snapshot is active.
    unsafe {
        let mut done = Stepped {
            rows: 0,
            has_more: false,
        };
        let Some(rollup) = catalog::find(stored, snapshot) else {
            return done;
        };
        // A time from the threshold on is not in a bucket that starts before this.
        let last = rollup.starts(threshold, threshold).0.max(rollup.watermark);
        let marks = catalog::marks(stored, snapshot);
        let due = Due::of(&rollup, &marks);
        let mut watermark = last;
        let mut left = Ranges::default();
        if let Some(table) = Tables::open(&rollup) {
            let mut pace = Pace::begin(&rollup);
            for (series, first, last) in &due.of_series {
                table.delete(*first, *last, Some(series), snapshot);
                done.rows += table.insert(*first, *last, Some(series), snapshot);
            }
            for (first, last) in due.again.iter() {
                if pace.is_over() {
                    left.add(first, last);
                    continue;
                }
                table.delete(first, last, None, snapshot);
                let range = (first, last);
                let past = table.insert_slices(range, false, &mut pace, &mut done.rows, snapshot);
                left.add(past, last);
            }
            let first = rollup.watermark.max(rollup.first_computable());
            if first < last && pace.is_over() {
                watermark = rollup.watermark;
            } else if first < last {
                let range = (first, last - 1);
                watermark = table.insert_slices(range, true, &mut pace, &mut done.rows, snapshot);
            }
        }
        catalog::remove_marks(&marks.places);
        catalog::add_marks(stored, Mark::Any, &rollup.marks_for(&left));
        settle_late_rows(stored, snapshot);
        if watermark > rollup.watermark {
            catalog::move_on(stored, Limit::Watermark, watermark);
        }
        done.has_more = watermark < last || !left.is_empty();
        done
    }
}

/// Counts of rows that were ignored become one.
fn settle_late_rows(stored: Oid, snapshot: Snapshot<'_>) {
    // SAFETY: the caller excludes other refreshes.
    unsafe {
        let (rows, places) = catalog::late_rows(stored, snapshot);
        if places.len() > 1 {
            catalog::remove_late_rows(&places);
            catalog::add_late_rows(stored, rows);
        }
    }
}

/// How much a step computes at once, and for how long.
struct Pace {
    /// Starts of buckets that a slice has, in the unit of their times.
    slice: i64,
    slices: u64,
    began: Instant,
    time: Duration,
}

impl Pace {
    fn begin(rollup: &Rollup) -> Pace {
        Pace {
            slice: rollup
                .width_max
                .saturating_add(rollup.over_max)
                .saturating_mul(FIRST_SLICE),
            slices: 0,
            began: Instant::now(),
            time: guc::refresh_round(),
        }
    }

    /// Has the step to end, or the worker that it runs in? Each step gets on by a slice at least.
    fn is_over(&self) -> bool {
        if self.slices == 0 {
            return false;
        }
        if departure::is_worker() {
            departure::reload();
            if !guc::has_worker() {
                return true;
            }
        }
        self.began.elapsed() >= self.time
    }

    fn note(&mut self, took: Duration) {
        self.slices += 1;
        if took < QUICK {
            self.slice = self.slice.saturating_mul(GROWTH);
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
    /// The name of the column that tells series apart, if there is one.
    stored_key: String,
    /// The bucket's name and type, and what its values are.
    bucket: (String, Oid, TimeType),
    /// The type of the times that it is computed from.
    times: Oid,
    _table: Open,
}

fn altered(rollup: &Rollup) -> ! {
    error::raise(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "rollup \"{}\" has no times any more",
            relation::name_of(rollup.view)
        ),
        "The type of its bucket, or of its source's time column, has been changed.",
        "Drop the rollup and create it again.",
    )
}

impl Tables {
    fn open(rollup: &Rollup) -> Option<Tables> {
        let table = Open::living_table(rollup.stored, LockMode::RowExclusive);
        let view = Open::table(rollup.view, LockMode::AccessShare);
        let (_, defined) = query::of_view(view.rel())?;
        // SAFETY: within a refresh, whose snapshot is active.
        unsafe { owner::fire_deferred(table.rel()) };
        let all = table.rel().attributes();
        let bucket = &all[rollup.bucket_column as usize - 1];
        let key = usize::try_from(rollup.key_stored - 1).ok();
        let stored_key = key
            .and_then(|at| all.get(at))
            .map_or_else(String::new, |key| {
                sql::identifier(&relation::attribute_name(key))
            });
        let from = Open::table(defined.from, LockMode::AccessShare);
        let times = from.rel().attributes()[defined.time as usize - 1].atttypid;
        let Some(time) = TimeType::of(bucket.atttypid).filter(|_| TimeType::of(times).is_some())
        else {
            altered(rollup);
        };
        Some(Tables {
            rollup: rollup.clone(),
            stored: table.rel().qualified_name(),
            stored_key,
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

    /// The column that tells series apart.
    fn key(&self) -> &Column {
        &self.defined.columns[self.rollup.key_stored as usize - 1]
    }

    fn series(&self, series: Option<&String>) -> Option<sql::Parameter> {
        series.map(|series| {
            let kind = self.key().kind;
            (kind, Some(series::value(series, kind)))
        })
    }

    /// Deletes the stored buckets with starts `first` to `last`, of a series or of all.
    ///
    /// # Safety
    /// `snapshot` must be active.
    unsafe fn delete(
        &self,
        first: i64,
        last: i64,
        series: Option<&String>,
        snapshot: Snapshot<'_>,
    ) {
        let (column, kind, time) = &self.bucket;
        let mut query = format!(
            "DELETE FROM {} WHERE {column} >= $1 AND {column} <= $2",
            self.stored
        );
        if series.is_some() {
            query += &format!(" AND {} = $3", self.stored_key);
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

    /// Computes the buckets with starts `first` to `last`, slice by slice, and stores them; returns the first start that is left when time is over.
    /// Times that nothing is of are skipped. What `is_new` may be there all the same, from a dump of rows alone.
    ///
    /// # Safety
    /// As `delete`.
    unsafe fn insert_slices(
        &self,
        (mut first, last): (i64, i64),
        is_new: bool,
        pace: &mut Pace,
        rows: &mut i64,
        snapshot: Snapshot<'_>,
    ) -> i64 {
        let mut is_empty = true;
        while first <= last {
            let began = Instant::now();
            if is_empty && last.saturating_sub(first) > pace.slice {
                let (low, high) = self.rollup.times(first, last);
                // SAFETY: the caller's contract: the snapshot is active.
                let Some(oldest) = (unsafe { self.oldest(low, high) }) else {
                    return last.saturating_add(1);
                };
                first = first.max(self.rollup.starts(oldest, oldest).0);
            }
            // All that is before the first finite time is one value, the lowest.
            let end = first.saturating_add(pace.slice).max(self.bucket.2.first());
            let end = last.min(end);
            // SAFETY: as above.
            let stored = unsafe {
                if is_new {
                    self.delete(first, end, None, snapshot);
                }
                self.insert(first, end, None, snapshot)
            };
            *rows += stored;
            is_empty = stored == 0;
            first = end.saturating_add(1);
            pace.note(began.elapsed());
            if first <= last && pace.is_over() {
                break;
            }
        }
        first
    }

    /// The oldest time, from `low` to `high`, of what the rollup is computed from.
    ///
    /// # Safety
    /// A snapshot must be active.
    unsafe fn oldest(&self, low: i64, high: i64) -> Option<i64> {
        let time = TimeType::of(self.times)?;
        // SAFETY: the relation exists, and has the column; the snapshot is active.
        unsafe {
            let from = Open::table(self.defined.from, LockMode::AccessShare);
            let all = from.rel().attributes();
            let column = relation::attribute_name(&all[self.defined.time as usize - 1]);
            let column = sql::identifier(&column);
            let query = format!(
                "SELECT pg_catalog.min({column}) FROM {} WHERE {column} >= $1 AND {column} <= $2",
                from.rel().qualified_name()
            );
            let range = [low, high].map(|at| (self.times, Some(time.write(at))));
            sql::value(&query, &range).map(|oldest| time.read(oldest))
        }
    }

    /// Computes these buckets and stores them.
    ///
    /// # Safety
    /// As `delete`.
    unsafe fn insert(
        &self,
        first: i64,
        last: i64,
        series: Option<&String>,
        snapshot: Snapshot<'_>,
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
