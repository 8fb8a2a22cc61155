//! Writers of tables that rollups are computed from: they note the times of rows that they insert, change or delete, and before
//! they commit they mark those times for the rollups that may have stored them (docs/design/0016).
//!
//! What is noted may be more than what was changed: a subtransaction that is rolled back leaves its times, and many ranges become
//! few. A time that is marked without need is computed once more.

use super::catalog::{self, Mark, Rollup};
use super::ranges::Ranges;
use super::series;
use super::time::TimeType;
use super::{exclusion, partition, removal};
use crate::chunk::reader::Reader;
use crate::pg::error::{self, Code};
use crate::pg::heap::Fetched;
use crate::pg::relation::{self, Table};
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::{Datum, InvalidOid, Oid};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ranges that a transaction notes for a table before it closes gaps between them.
const MOST_RANGES: usize = 64;
/// Series that a transaction tells apart, and ranges of each.
const MOST_SERIES: usize = 16;
const MOST_RANGES_OF_SERIES: usize = 8;

/// What has to be known of a table whose rows rollups are computed from: of its own, or of one that it is a partition of.
struct Watched {
    /// The table that the rollups are of.
    source: u32,
    column: i16,
    time: TimeType,
    /// No rollup has stored a bucket of this time or later.
    threshold: i64,
    /// Invalidations before all this was read.
    news: u64,
    /// Retention has removed rows of earlier times, whose buckets rollups keep as they are: such rows are refused.
    removed: i64,
    /// Rows of earlier times are counted.
    ignored: i64,
    /// The column that tells series apart.
    key: Option<Key>,
}

/// Columns are numbered from 1.
struct Key {
    column: i16,
    kind: Oid,
    /// Its number in the source.
    of_source: i16,
}

/// The times that a transaction has changed in a table.
#[derive(Default)]
struct Touched {
    earlier: Ranges,
    /// What of `earlier` is of which series, by the column that tells them apart; None: any may be of any.
    series: Option<BTreeMap<String, Ranges>>,
    key_column: i16,
    /// Rows of times that retention has removed.
    late_rows: i64,
    /// The first time of rows that were inserted below a threshold: retention may come to it before they are committed.
    oldest_late: Option<i64>,
    /// First and last of the times that were not below any threshold when they were noted.
    newest: Option<(i64, i64)>,
    /// What statements have taken that are no matter of snapshots: TRUNCATE, and what takes partitions away.
    by_ddl: Ranges,
    /// Partitions that have come; what times they have is known when the statement has ended.
    attached: Vec<Oid>,
    /// The threshold that the row noted last was compared with, and the invalidations before it was read.
    compared: Option<(i64, u64)>,
}

thread_local! {
    /// Tables that have been looked up since the last invalidation; none for those without rollups.
    static WATCHED: RefCell<BTreeMap<u32, Option<Rc<[Watched]>>>> = const { RefCell::new(BTreeMap::new()) };
    /// The table that was found without rollups last: most tables are.
    static UNWATCHED: Cell<u32> = const { Cell::new(0) };
    /// Invalidations so far.
    static NEWS: Cell<u64> = const { Cell::new(0) };
    static TOUCHED: PerTransaction<BTreeMap<u32, Touched>> = PerTransaction::default();
    /// How often something was noted.
    static NOTED: Cell<u64> = const { Cell::new(0) };
}

pub fn init() {
    relation::tell_of_changes(invalidate);
}

/// A refresh that moves a threshold invalidates its source, and waits for those who may have read the old one.
unsafe extern "C-unwind" fn invalidate(_: Datum, _: Oid) {
    UNWATCHED.set(0);
    NEWS.set(NEWS.get() + 1);
    // A message may come while a look-up reads the types of columns. The threshold that it keeps is an old one then, which decides only
    // where a time is noted: `publish` sees by the number of messages that it has to read the thresholds again. That a table has rollups
    // at all is read after all messages.
    WATCHED.with(|watched| {
        if let Ok(mut watched) = watched.try_borrow_mut() {
            watched.clear();
        }
    });
}

/// A number that is another one when more has become known of tables: no plan is made with a partition that came later.
pub fn news() -> u64 {
    NEWS.get()
}

/// A number that is another one when more times have been noted.
pub fn noted() -> u64 {
    NOTED.get()
}

fn note_in(note: impl FnOnce(&mut BTreeMap<u32, Touched>)) {
    NOTED.set(NOTED.get() + 1);
    TOUCHED.with_borrow_mut(note);
}

/// Notes the row in the slot as inserted. Raises an error for a row of a time that retention has removed: its bucket is kept, and
/// would not show the row.
///
/// # Safety
/// `table` must be open, and the slot hold a row of it.
#[inline(always)]
pub unsafe fn inserted(table: Table<'_>, slot: Slot<'_>) {
    // SAFETY: by contract.
    unsafe {
        if table.oid().to_u32() != UNWATCHED.get() {
            note_slot(table, slot);
        }
    }
}

/// Notes a row of a chunk as deleted, or replaced.
///
/// # Safety
/// `table` must be open, and the row one of it.
#[inline]
pub unsafe fn removed(table: Table<'_>, reader: &Reader, row: u32) {
    // SAFETY: by contract.
    unsafe {
        if table.oid().to_u32() != UNWATCHED.get() {
            if let Some(watched) = watched(table) {
                note(&watched, |column| {
                    let (value, null) = reader.value(table.descriptor(), row, column as usize - 1);
                    (!null).then_some(value)
                });
            }
        }
    }
}

/// Notes a row of the tail as deleted, or replaced, by this command.
///
/// # Safety
/// `table` must be open, and the row be there still.
#[inline]
pub unsafe fn removed_from_tail(table: Table<'_>, at: Tid) {
    if table.oid().to_u32() != UNWATCHED.get() {
        note_tail_row(table, at);
    }
}

/// Notes that all rows of a table go, or that it is new.
pub fn emptied(table: Table<'_>) {
    changed_by_ddl(table.oid());
}

/// Notes that a table, or all rows of it, goes, and what it is a partition of keeps the rest. Older snapshots do not see those rows
/// any more either.
pub fn changed_by_ddl(table: Oid) {
    for source in partition::lineage(table) {
        let Some(rollup) = catalog::of_source(source).into_iter().next() else {
            continue;
        };
        let (first, last) = partition::times(table, source, rollup.time_column);
        note_in(|all| {
            let touched = all.entry(source.to_u32()).or_default();
            touched.by_ddl.add(first, last);
            touched.by_ddl.limit(MOST_RANGES);
        });
    }
}

/// Notes that a table has become a partition of a source.
pub fn attached(table: Oid, source: Oid) {
    note_in(|all| {
        let touched = all.entry(source.to_u32()).or_default();
        touched.attached.push(table);
    });
}

/// What `inserted` does for a table that may have rollups.
///
/// # Safety
/// As `inserted`.
unsafe fn note_slot(table: Table<'_>, slot: Slot<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(watched) = watched(table) else {
            return;
        };
        let value = |column: i16| slot.attribute(column);
        for of_source in watched.iter() {
            let Some(time) = value(of_source.column) else {
                continue;
            };
            let time = of_source.time.read(time);
            if time < of_source.removed {
                refuse(&table.name());
            }
            if time < of_source.threshold {
                note_late(of_source, time);
            }
        }
        note(&watched, value);
    }
}

fn refuse(name: &str) -> ! {
    error::raise(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("row of table \"{name}\" is older than what retention has kept"),
        "Rollups keep the buckets of that time, and would not show the row.",
        "SELECT varve.alter_rollup(…, ignore_late_rows => true) lets such rows in, and counts them.",
    )
}

fn note_late(watched: &Watched, time: i64) {
    note_in(|all| {
        let touched = all.entry(watched.source).or_default();
        touched.oldest_late = Some(touched.oldest_late.map_or(time, |oldest| oldest.min(time)));
        touched.late_rows += i64::from(time < watched.ignored);
    });
}

fn note_tail_row(table: Table<'_>, at: Tid) {
    // SAFETY: the table is open; whoever deletes a row keeps it from being removed.
    unsafe {
        let Some(watched) = watched(table) else {
            return;
        };
        if let Some(row) = Fetched::at(table, at, Snapshot::any()) {
            note(&watched, |column| row.column(column));
        }
    }
}

/// Notes a row, of which `value` gives columns.
///
/// # Safety
/// `value` must return values of one row of the table that was looked up as `watched`, none for those that are null.
unsafe fn note(watched: &[Watched], value: impl Fn(i16) -> Option<Datum>) {
    for watched in watched {
        // No bucket of a rollup is without time.
        let Some(time) = value(watched.column) else {
            continue;
        };
        let time = watched.time.read(time);
        note_in(|all| {
            let touched = all.entry(watched.source).or_default();
            touched.compared = Some((watched.threshold, watched.news));
            if time >= watched.threshold {
                let (first, last) = touched.newest.unwrap_or((time, time));
                touched.newest = Some((first.min(time), last.max(time)));
                return;
            }
            // SAFETY: the callers' contract: the value is one of the row's.
            unsafe { touched.note_series(watched, time, &value) };
            if !touched.earlier.contains(time) {
                touched.earlier.add(time, time);
                touched.earlier.limit(MOST_RANGES);
            }
        });
    }
}

/// What is known of a table, unless neither it nor what it is a partition of has rollups.
fn watched(table: Table<'_>) -> Option<Rc<[Watched]>> {
    let oid = table.oid();
    if let Some(known) = WATCHED.with_borrow(|all| all.get(&oid.to_u32()).cloned()) {
        return known;
    }
    // What is invalidated while this is looked up is read again.
    let news = news();
    let found: Vec<_> = partition::lineage(oid)
        .into_iter()
        .filter_map(|source| of_rollups(table, &catalog::of_source(source), news))
        .collect();
    let found: Option<Rc<[Watched]>> = (!found.is_empty()).then(|| found.into());
    if found.is_none() {
        UNWATCHED.set(oid.to_u32());
    }
    let kept = found.clone();
    WATCHED.with_borrow_mut(|all| all.insert(oid.to_u32(), kept));
    found
}

/// What rollups of one source want to know of a table that is the source, or a partition of it.
fn of_rollups(table: Table<'_>, rollups: &[Rollup], news: u64) -> Option<Watched> {
    let first = rollups.first()?;
    let (oid, attributes) = (table.oid(), table.attributes());
    let number = |column| partition::column_in(oid, first.source, column);
    let column = number(first.time_column);
    let time = TimeType::of(attributes.get(column as usize - 1)?.atttypid)?;
    let key = rollups.iter().map(|rollup| rollup.key_column);
    Some(Watched {
        source: first.source.to_u32(),
        column,
        time,
        threshold: rollups.iter().map(|rollup| rollup.threshold).max()?,
        news,
        removed: removal::removed_before(rollups, false).unwrap_or(i64::MIN),
        ignored: removal::removed_before(rollups, true).unwrap_or(i64::MIN),
        key: key.into_iter().find(|&key| key > 0).and_then(|of_source| {
            let column = number(of_source);
            let kind = attributes.get(column as usize - 1)?.atttypid;
            Some(Key {
                column,
                kind,
                of_source,
            })
        }),
    })
}

/// Before the transaction commits: marks what it has changed for each rollup that may have stored it. A prepared transaction
/// marks everything, since a refresh does not wait for it.
///
/// Rows in order cost no look into the catalog: the threshold that they were compared with is the latest one as long as nothing has
/// been invalidated since it was read. A refresh invalidates the source with the new threshold, and waits for whoever held a
/// lock to write before that.
pub fn publish(prepares: bool) {
    if TOUCHED.with_borrow(BTreeMap::is_empty) {
        return;
    }
    let touched = TOUCHED.replace(BTreeMap::new());
    relation::accept_invalidations();
    for (source, times) in &touched {
        if !prepares && times.is_in_order() {
            continue;
        }
        let source = Oid::from_u32(*source);
        match times.oldest_late {
            None => times.publish(&catalog::of_source(source), prepares),
            // Either retention finds the marks, or what it has taken is known here.
            Some(oldest) => exclusion::with_late_rows(source, || {
                let rollups = catalog::of_source(source);
                if removal::refused_before(&rollups).is_some_and(|(_, removed)| oldest < removed) {
                    refuse(&relation::name_of(source));
                }
                times.publish(&rollups, prepares);
            }),
        }
    }
}

/// The times of a rollup's source that this transaction has changed.
pub fn touched(rollup: &Rollup) -> Ranges {
    TOUCHED.with_borrow(|all| {
        let Some(touched) = all.get(&rollup.source.to_u32()) else {
            return Ranges::default();
        };
        let mut times = touched.below(i64::MAX);
        for (first, last) in touched.by_ddl(rollup).iter() {
            times.add(first, last);
        }
        times
    })
}

impl Touched {
    /// Notes the series of a row of `earlier`.
    ///
    /// # Safety
    /// As `note`, of one of those.
    unsafe fn note_series(
        &mut self,
        watched: &Watched,
        time: i64,
        value: &impl Fn(i16) -> Option<Datum>,
    ) {
        let Some(told) = &watched.key else {
            self.series = None;
            return;
        };
        if self.key_column == 0 && self.earlier.is_empty() {
            self.key_column = told.of_source;
            self.series = Some(BTreeMap::new());
        }
        let Some(known) = self.series.as_mut() else {
            return;
        };
        let key = value(told.column).filter(|_| self.key_column == told.of_source);
        let Some(key) = key else {
            self.series = None;
            return;
        };
        // SAFETY: by contract.
        let key = unsafe { series::text(key, told.kind) };
        let times = known.entry(key).or_default();
        if !times.contains(time) {
            times.add(time, time);
            times.limit(MOST_RANGES_OF_SERIES);
        }
        if known.len() > MOST_SERIES {
            self.series = None;
        }
    }

    /// Are all rows at or above the threshold, and is that still the latest?
    fn is_in_order(&self) -> bool {
        let first = self.newest.map_or(i64::MAX, |(first, _)| first);
        self.compared
            .is_some_and(|(threshold, news)| news == self::news() && first >= threshold)
            && self.earlier.is_empty()
            && self.late_rows == 0
            && self.by_ddl.is_empty()
            && self.attached.is_empty()
    }

    fn publish(&self, rollups: &[Rollup], prepares: bool) {
        for rollup in rollups {
            let limit = if prepares { i64::MAX } else { rollup.threshold };
            self.mark(rollup, limit);
            let by_ddl = self.by_ddl(rollup);
            catalog::add_marks(rollup.stored, Mark::ByDdl, &by_ddl);
            if self.late_rows > 0 && rollup.ignores_late && rollup.below == InvalidOid {
                catalog::add_late_rows(rollup.stored, self.late_rows);
            }
        }
    }

    /// Marks what a rollup may have stored: what was changed of times before `limit`.
    fn mark(&self, rollup: &Rollup, limit: i64) {
        let is_told = rollup.key_column > 0 && rollup.key_column == self.key_column;
        let Some(series) = self.series.as_ref().filter(|_| is_told) else {
            let times = self.below(limit);
            catalog::add_marks(rollup.stored, Mark::Any, &times);
            return;
        };
        let mut newest = Ranges::default();
        if let Some((first, last)) = self
            .newest
            .filter(|newest| newest.0 < limit || limit == i64::MAX)
        {
            newest.add(first, last);
        }
        catalog::add_marks(rollup.stored, Mark::Any, &newest);
        for (key, times) in series {
            let mut due = Ranges::default();
            for (first, last) in times.iter() {
                if first < limit || limit == i64::MAX {
                    due.add(first, last);
                }
            }
            catalog::add_marks(rollup.stored, Mark::Series(key), &due);
        }
    }

    /// The times that statements have taken or brought that are no matter of snapshots.
    fn by_ddl(&self, rollup: &Rollup) -> Ranges {
        let mut times = self.by_ddl.clone();
        for &table in &self.attached {
            // What went again has been noted then.
            if partition::ancestors(table).contains(&rollup.source) {
                let (first, last) = partition::times(table, rollup.source, rollup.time_column);
                times.add(first, last);
            }
        }
        times
    }

    /// The times below `limit`; ranges are taken whole.
    fn below(&self, limit: i64) -> Ranges {
        let mut times = Ranges::default();
        for (first, last) in self.earlier.iter().chain(self.newest) {
            if first < limit || limit == i64::MAX {
                times.add(first, last);
            }
        }
        times
    }
}
