//! Writers of tables that rollups are computed from: they note the times of rows that they insert, change or delete, and before
//! they commit they mark those times for the rollups that may have stored them (docs/design/0016).
//!
//! What is noted may be more than what was changed: a subtransaction that is rolled back leaves its times, and many ranges become
//! few. A time that is marked without need is computed once more.

use super::catalog::{self, Limit, Rollup};
use super::ranges::Ranges;
use super::series;
use super::time::TimeType;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::pg::error::{self, Code};
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction::{Access, PerTransaction};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Ranges that a transaction notes for a table before it closes gaps between them.
const MOST_RANGES: usize = 64;
/// Series that a transaction tells apart, and ranges of each.
const MOST_SERIES: usize = 16;
const MOST_RANGES_OF_SERIES: usize = 8;

/// What has to be known of a table whose rows rollups are computed from.
struct Watched {
    column: i16,
    time: TimeType,
    /// No rollup has stored a bucket of this time or later.
    threshold: i64,
    /// Retention has removed rows of earlier times, whose buckets rollups keep as they are: such rows are refused.
    removed: i64,
    /// Rows of earlier times are counted.
    ignored: i64,
    /// The column that tells series apart, from 1, and its type.
    key: Option<(i16, pg_sys::Oid)>,
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
    /// First and last of the times that were not below any threshold when they were noted.
    newest: Option<(i64, i64)>,
}

thread_local! {
    /// Tables that have been looked up since the last invalidation; none for those without rollups.
    static WATCHED: RefCell<BTreeMap<u32, Option<Rc<Watched>>>> = const { RefCell::new(BTreeMap::new()) };
    /// The table that was found without rollups last: most tables are.
    static UNWATCHED: Cell<u32> = const { Cell::new(0) };
    static TOUCHED: PerTransaction<BTreeMap<u32, Touched>> = PerTransaction::default();
}

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(invalidate), pg_sys::Datum::from(0));
    }
}

/// A refresh that moves a threshold invalidates its source, and waits for those who may have read the old one.
unsafe extern "C-unwind" fn invalidate(_: pg_sys::Datum, _: pg_sys::Oid) {
    UNWATCHED.set(0);
    // A message may come while a look-up reads the types of columns. The threshold that it keeps is an old one then, which decides only
    // where a time is noted: `publish` reads the thresholds again. That a table has rollups at all is read after all messages.
    WATCHED.with(|watched| {
        if let Ok(mut watched) = watched.try_borrow_mut() {
            watched.clear();
        }
    });
}

/// Notes the row in the slot as inserted. Raises an error for a row of a time that retention has removed: its bucket is kept, and
/// would not show the row.
///
/// # Safety
/// `table` must be open, and the slot hold a row of it.
#[inline]
pub unsafe fn inserted(table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: by contract.
    unsafe {
        if relation::oid(table).to_u32() != UNWATCHED.get() {
            note_slot(table, slot);
        }
    }
}

/// Notes a row of a chunk as deleted, or replaced.
///
/// # Safety
/// `table` must be open, and the row one of it.
#[inline]
pub unsafe fn removed(table: pg_sys::Relation, reader: &Reader, row: u32) {
    // SAFETY: by contract.
    unsafe {
        if relation::oid(table).to_u32() != UNWATCHED.get() {
            if let Some(watched) = watched(table) {
                let value = |column: i16| {
                    let (value, null) = reader.value((*table).rd_att, row, column as usize - 1);
                    (!null).then_some(value)
                };
                note(table, &watched, value);
            }
        }
    }
}

/// Notes a row of the tail as deleted, or replaced, by this command.
///
/// # Safety
/// `table` must be open, and the row be there still.
#[inline]
pub unsafe fn removed_from_tail(table: pg_sys::Relation, at: Tid) {
    // SAFETY: by contract.
    unsafe {
        if relation::oid(table).to_u32() != UNWATCHED.get() {
            note_tail_row(table, at);
        }
    }
}

/// Notes that all rows of a table go, or that it is new.
///
/// # Safety
/// `table` must be open.
pub unsafe fn emptied(table: pg_sys::Relation) {
    // SAFETY: by contract.
    let table = unsafe { relation::oid(table) };
    if !catalog::of_source(table).is_empty() {
        TOUCHED.with_borrow_mut(|all| {
            let touched = all.entry(table.to_u32()).or_default();
            touched.earlier.add(i64::MIN, i64::MAX);
            touched.series = None;
            // Nothing is told apart from here on.
            touched.key_column = -1;
        });
    }
}

unsafe fn note_slot(table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(watched) = watched(table) else {
            return;
        };
        let value = |column: i16| {
            let mut null = false;
            let value = slot::attribute(slot, column, &mut null);
            (!null).then_some(value)
        };
        let time = value(watched.column).map(|time| watched.time.read(time));
        if time.is_some_and(|time| time < watched.removed) {
            refuse(table);
        }
        if time.is_some_and(|time| time < watched.ignored) {
            count_late(table);
        }
        note(table, &watched, value);
    }
}

unsafe fn refuse(table: pg_sys::Relation) -> ! {
    // SAFETY: the caller's contract.
    let name = unsafe { relation::name(table) };
    error::raise(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("row of table \"{name}\" is older than what retention has kept"),
        "Rollups keep the buckets of that time, and would not show the row.",
        "SELECT varve.alter_rollup(…, ignore_late_rows => true) lets such rows in, and counts them.",
    )
}

unsafe fn count_late(table: pg_sys::Relation) {
    // SAFETY: the caller's contract.
    let table = unsafe { relation::oid(table) }.to_u32();
    TOUCHED.with_borrow_mut(|all| all.entry(table).or_default().late_rows += 1);
}

unsafe fn note_tail_row(table: pg_sys::Relation, at: Tid) {
    // SAFETY: the caller's contract; whoever deletes a row keeps it from being removed.
    unsafe {
        let Some(watched) = watched(table) else {
            return;
        };
        let mut tuple = pg_sys::HeapTupleData {
            t_self: tid::to_pg(at),
            ..Default::default()
        };
        let mut buffer = 0;
        let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
        if !pg_sys::heap_fetch(table, any, &mut tuple, &mut buffer, false) {
            return;
        }
        let row = &raw mut tuple;
        note(table, &watched, |column| {
            let mut null = false;
            let value = pg_sys::heap_getattr(row, column.into(), (*table).rd_att, &mut null);
            (!null).then_some(value)
        });
        pg_sys::ReleaseBuffer(buffer);
    }
}

/// Notes a row, of which `value` gives columns.
unsafe fn note(
    table: pg_sys::Relation,
    watched: &Watched,
    value: impl Fn(i16) -> Option<pg_sys::Datum>,
) {
    // No bucket of a rollup is without time.
    let Some(time) = value(watched.column) else {
        return;
    };
    let time = watched.time.read(time);
    // SAFETY: the callers' contract.
    let table = unsafe { relation::oid(table) };
    TOUCHED.with_borrow_mut(|all| {
        let touched = all.entry(table.to_u32()).or_default();
        if time >= watched.threshold {
            let (first, last) = touched.newest.unwrap_or((time, time));
            touched.newest = Some((first.min(time), last.max(time)));
            return;
        }
        // SAFETY: as above: the value is one of the row's.
        unsafe { touched.note_series(watched, time, &value) };
        if !touched.earlier.contains(time) {
            touched.earlier.add(time, time);
            touched.earlier.limit(MOST_RANGES);
        }
    });
}

/// What is known of a table, unless it has no rollups.
unsafe fn watched(table: pg_sys::Relation) -> Option<Rc<Watched>> {
    // SAFETY: the callers' contract.
    let oid = unsafe { relation::oid(table) };
    if let Some(known) = WATCHED.with_borrow(|all| all.get(&oid.to_u32()).cloned()) {
        return known;
    }
    let rollups = catalog::of_source(oid);
    // SAFETY: as above; the column is one of the table's.
    let found = unsafe { of_rollups(table, &rollups) };
    if found.is_none() {
        UNWATCHED.set(oid.to_u32());
    }
    let kept = found.clone();
    WATCHED.with_borrow_mut(|all| all.insert(oid.to_u32(), kept));
    found
}

unsafe fn of_rollups(table: pg_sys::Relation, rollups: &[Rollup]) -> Option<Rc<Watched>> {
    let column = rollups.first()?.time_column;
    // SAFETY: the table is open.
    let attributes = unsafe { relation::attributes((*table).rd_att) };
    let time = TimeType::of(attributes.get(column as usize - 1)?.atttypid)?;
    Some(Rc::new(Watched {
        column,
        time,
        threshold: rollups.iter().map(|rollup| rollup.threshold).max()?,
        removed: removed_by_retention(rollups, false).unwrap_or(i64::MIN),
        ignored: removed_by_retention(rollups, true).unwrap_or(i64::MIN),
        key: rollups
            .iter()
            .find(|rollup| rollup.key_column > 0)
            .and_then(|rollup| {
                let column = attributes.get(rollup.key_column as usize - 1)?;
                Some((rollup.key_column, column.atttypid))
            }),
    }))
}

/// Rows of earlier times have been removed from the source itself, not from a rollup in between. A dump may have rows that
/// retention was about to remove.
fn removed_by_retention(rollups: &[Rollup], ignored: bool) -> Option<i64> {
    let direct = rollups
        .iter()
        .filter(|rollup| rollup.below == pg_sys::InvalidOid && !rollup.is_restored());
    direct
        .filter(|rollup| rollup.ignores_late == ignored)
        .map(|rollup| rollup.removed)
        .max()
}

/// How far retention may remove rows of a table: rollups that are computed from it must have stored what it takes.
pub fn removable(table: pg_sys::Oid, until: i64) -> i64 {
    // SAFETY: a snapshot of this moment is enough: the caller keeps refreshes out, and marks that come later are of rows that the
    // rollups do not have to show.
    dependents(table)
        .iter()
        .fold(until, |until, rollup| unsafe {
            let marked = catalog::marks(rollup.stored, pg_sys::GetLatestSnapshot());
            let mut waiting = marked
                .times
                .iter()
                .map(|(first, last)| rollup.starts(first, last))
                .filter(|&(_, last)| last >= rollup.first_computable());
            let first_waiting = waiting.next().map_or(rollup.watermark, |(first, _)| first);
            let settled = first_waiting.min(rollup.watermark);
            until.min(settled.saturating_sub(rollup.over_max))
        })
}

/// Retention removes rows of times before `until` from a table, in this transaction.
pub fn note_removal(table: pg_sys::Oid, until: i64) {
    for rollup in dependents(table) {
        if until > rollup.removed {
            catalog::move_on(rollup.stored, Limit::Removed, until);
            // SAFETY: the source exists as long as its rollups.
            unsafe { pg_sys::CacheInvalidateRelcacheByRelid(rollup.source) };
        }
    }
}

/// The rollups that are computed from what a table itself has.
pub fn dependents(table: pg_sys::Oid) -> Vec<Rollup> {
    let mut found = catalog::of_source(table);
    found.retain(|rollup| rollup.below == pg_sys::InvalidOid);
    found.extend(catalog::of_stored(table));
    found
}

/// Before the transaction commits: marks what it has changed for each rollup that may have stored it. A prepared transaction
/// marks everything, since a refresh does not wait for it.
pub fn publish(prepares: bool) {
    let touched = TOUCHED.replace(BTreeMap::new());
    for (source, times) in &touched {
        for rollup in catalog::of_source(pg_sys::Oid::from_u32(*source)) {
            let limit = if prepares { i64::MAX } else { rollup.threshold };
            times.mark(&rollup, limit);
            if times.late_rows > 0 && rollup.ignores_late && rollup.below == pg_sys::InvalidOid {
                catalog::add_late_rows(rollup.stored, times.late_rows);
            }
        }
    }
}

/// The times of a source that this transaction has changed.
pub fn touched(source: pg_sys::Oid) -> Ranges {
    TOUCHED.with_borrow(|all| {
        all.get(&source.to_u32())
            .map_or_else(Ranges::default, |touched| touched.below(i64::MAX))
    })
}

impl Touched {
    /// Notes the series of a row of `earlier`.
    unsafe fn note_series(
        &mut self,
        watched: &Watched,
        time: i64,
        value: &impl Fn(i16) -> Option<pg_sys::Datum>,
    ) {
        let Some((column, kind)) = watched.key else {
            self.series = None;
            return;
        };
        if self.key_column == 0 && self.earlier.is_empty() {
            self.key_column = column;
            self.series = Some(BTreeMap::new());
        }
        let Some(known) = self.series.as_mut() else {
            return;
        };
        let key = value(column).filter(|_| self.key_column == column);
        let Some(key) = key else {
            self.series = None;
            return;
        };
        // SAFETY: by contract.
        let key = unsafe { series::text(key, kind) };
        let times = known.entry(key).or_default();
        if !times.contains(time) {
            times.add(time, time);
            times.limit(MOST_RANGES_OF_SERIES);
        }
        if known.len() > MOST_SERIES {
            self.series = None;
        }
    }

    /// Marks what a rollup may have stored: what was changed of times before `limit`.
    fn mark(&self, rollup: &Rollup, limit: i64) {
        let is_told = rollup.key_column > 0 && rollup.key_column == self.key_column;
        let Some(series) = self.series.as_ref().filter(|_| is_told) else {
            let times = self.below(limit);
            catalog::add_marks(rollup.stored, None, &times);
            return;
        };
        let mut newest = Ranges::default();
        if let Some((first, last)) = self
            .newest
            .filter(|newest| newest.0 < limit || limit == i64::MAX)
        {
            newest.add(first, last);
        }
        catalog::add_marks(rollup.stored, None, &newest);
        for (key, times) in series {
            let mut due = Ranges::default();
            for (first, last) in times.iter() {
                if first < limit || limit == i64::MAX {
                    due.add(first, last);
                }
            }
            catalog::add_marks(rollup.stored, Some(key), &due);
        }
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
