//! What `varve.rollup` and `varve.rollup_mark` say, read and written without the rights of whoever is asking: the tables are
//! the extension's, and nobody else may read them.

use super::label::Label;
use super::ranges::Ranges;
use crate::pg::catalog_scan::{self, Key};
use crate::pg::catalog_write;
use crate::pg::lock_mode::LockMode;
use crate::pg::names;
use crate::pg::open::Open;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::transaction;
use crate::pg::tuple::Inserter;
use crate::pg::{Datum, ItemPointerData, Oid, TransactionId};
use core::ffi::CStr;
use pgrx::{FromDatum, IntoDatum};

/// A row of `varve.rollup`. Times are in the unit of the source's time column.
#[derive(Clone, Debug)]
pub struct Rollup {
    /// The table of stored buckets; it names the rollup.
    pub stored: Oid,
    /// What users query.
    pub view: Oid,
    /// The table that it is computed from, in the end.
    pub source: Oid,
    /// The source's time column, from 1.
    pub time_column: i16,
    /// A bucket starts less than this before any time in it.
    pub width_max: i64,
    /// A bucket starts at most this behind any time in it: the clock of a zone can be set back.
    pub over_max: i64,
    /// Who changes rows of earlier times says so.
    pub threshold: i64,
    /// Buckets that start earlier are stored.
    pub watermark: i64,
    /// The bucket in the stored table, and in the view, from 1.
    pub bucket_column: i16,
    /// Retention has removed rows of earlier times from what the rollup is computed from: their buckets stay as they are.
    pub removed: i64,
    /// The stored table of the rollup that it is computed from; invalid for one that is computed from its source.
    pub below: Oid,
    /// The column of the source that tells series apart, and where the rollup has it, both from 1; 0: none does.
    pub key_column: i16,
    pub key_stored: i16,
    /// Rows of a time that retention has removed are counted, and not refused.
    pub ignores_late: bool,
}

impl Rollup {
    /// The starts that buckets of the times `first` to `last` can have.
    pub fn starts(&self, first: i64, last: i64) -> (i64, i64) {
        (
            first.saturating_sub(self.width_max - 1),
            last.saturating_add(self.over_max),
        )
    }

    /// Was it restored from a dump, and never refreshed since? It has stored buckets then, of which no writer knows.
    pub fn is_restored(&self) -> bool {
        self.threshold == i64::MIN && self.watermark > i64::MIN
    }

    /// The first start of a bucket that can be computed: all its rows are there, as far as retention goes.
    pub fn first_computable(&self) -> i64 {
        match self.removed {
            // Nothing is missing, of the lowest time neither.
            i64::MIN => i64::MIN,
            removed => removed.saturating_add(self.over_max),
        }
    }

    /// Times whose buckets can have these starts, and hardly others: what is to be marked for them.
    pub fn marks_for(&self, starts: &Ranges) -> Ranges {
        let mut times = Ranges::default();
        for (first, last) in starts.iter() {
            let first = first.saturating_add(self.width_max - 1);
            times.add(first, first.max(last.saturating_sub(self.over_max)));
        }
        times
    }

    /// The times that buckets with starts `first` to `last` can have.
    pub fn times(&self, first: i64, last: i64) -> (i64, i64) {
        (
            first.saturating_sub(self.over_max),
            last.saturating_add(self.width_max - 1),
        )
    }
}

/// Column numbers, from 1, of both tables (src/schema/60-rollups.sql).
mod column {
    pub const STORED: i32 = 1;
    pub const VIEW: i32 = 2;
    pub const SOURCE: i32 = 3;
    pub const TIME_COLUMN: i32 = 4;
    pub const WIDTH_MAX: i32 = 5;
    pub const OVER_MAX: i32 = 6;
    pub const THRESHOLD: i32 = 7;
    pub const WATERMARK: i32 = 8;
    pub const BUCKET_COLUMN: i32 = 9;
    pub const REMOVED: i32 = 10;
    pub const BELOW: i32 = 11;
    pub const KEY_COLUMN: i32 = 12;
    pub const KEY_STORED: i32 = 13;
    pub const IGNORES_LATE: i32 = 14;
    pub const MARK_STORED: i32 = 1;
    pub const MARK_FIRST: i32 = 2;
    pub const MARK_LAST: i32 = 3;
    pub const MARK_SERIES: i32 = 4;
    pub const MARK_BY_DDL: i32 = 5;
    pub const LATE_STORED: i32 = 1;
    pub const LATE_ROWS: i32 = 2;
}

/// Are there rollups in this database?
pub fn is_any() -> bool {
    let Some((table, index)) = table_and_index(c"rollup", c"rollup_stored") else {
        return false;
    };
    let table = Open::table(table, LockMode::AccessShare);
    catalog_scan::any(table.rel(), index, &[])
}

/// The rollups that are computed from a table, in the end, as they are now.
pub fn of_source(source: Oid) -> Vec<Rollup> {
    let mut found = Vec::new();
    scan(
        c"rollup",
        c"rollup_source",
        column::SOURCE,
        source,
        Snapshot::NONE,
        |row| found.push(row.rollup()),
    );
    found
}

/// A rollup, as a snapshot shows it; without a snapshot, as it is now.
///
/// `snapshot` must be null, registered or active.
pub fn find(stored: Oid, snapshot: Snapshot<'_>) -> Option<Rollup> {
    let mut found = None;
    scan(
        c"rollup",
        c"rollup_stored",
        column::STORED,
        stored,
        snapshot,
        |row| found = Some(row.rollup()),
    );
    found
}

/// The rollups that are computed from the stored table of another one, as they are now.
pub fn of_stored(below: Oid) -> Vec<Rollup> {
    let mut found = Vec::new();
    scan(
        c"rollup",
        c"rollup_below",
        column::BELOW,
        below,
        Snapshot::NONE,
        |row| found.push(row.rollup()),
    );
    found
}

/// The rollup of a view, as it is now.
pub fn of_view(view: Oid) -> Option<Rollup> {
    let mut found = None;
    scan(
        c"rollup",
        c"rollup_view",
        column::VIEW,
        view,
        Snapshot::NONE,
        |row| found = Some(row.rollup()),
    );
    found
}

/// The table that a rollup is computed from, in the end; None for a table that stores no rollup's buckets.
pub fn source_of(stored: Oid) -> Option<Oid> {
    find(stored, Snapshot::NONE).map(|rollup| rollup.source)
}

/// What has been changed in a rollup's source since it was stored.
#[derive(Default)]
pub struct Marks {
    /// The times of all marks.
    pub times: Ranges,
    /// Each mark: first and last time, and the series that it is of; None: of any.
    pub all: Vec<(i64, i64, Option<String>)>,
    pub places: Vec<ItemPointerData>,
}

/// The marks of a rollup, as a snapshot shows them. Those of DDL, which is no matter of snapshots, show at once to all.
///
/// `snapshot` must be registered or active.
pub fn marks(stored: Oid, snapshot: Snapshot<'_>) -> Marks {
    let mut marks = Marks::default();
    let (table, index, by) = (c"rollup_mark", c"rollup_mark_stored", column::MARK_STORED);
    scan(table, index, by, stored, snapshot, |row| {
        if !row.is_by_ddl() {
            marks.add(row);
        }
    });
    let any = Snapshot::any();
    scan(table, index, by, stored, any, |row| {
        if row.is_by_ddl() && row.has_come() && !row.has_gone(snapshot) {
            marks.add(row);
        }
    });
    marks
}

/// The times of all marks of a rollup, of those too that are not committed.
pub fn marked_by_anybody(stored: Oid) -> Ranges {
    let (table, index, by) = (c"rollup_mark", c"rollup_mark_stored", column::MARK_STORED);
    let mut times = Ranges::default();
    let mut dirty = snapshot::dirty();
    // SAFETY: the snapshot lives as long as the scan.
    let dirty = unsafe { Snapshot::from_ptr(&mut dirty) };
    scan(table, index, by, stored, dirty, |row| {
        times.add(row.int8(column::MARK_FIRST), row.int8(column::MARK_LAST));
    });
    times
}

impl Marks {
    fn add(&mut self, row: &Row) {
        let (first, last) = (row.int8(column::MARK_FIRST), row.int8(column::MARK_LAST));
        self.times.add(first, last);
        self.all.push((first, last, row.text(column::MARK_SERIES)));
        self.places.push(row.row.place());
    }
}

/// What a mark is of.
#[derive(Clone, Copy)]
pub enum Mark<'a> {
    /// Rows of any series.
    Any,
    Series(&'a str),
    /// What came or went with a table: it did for older snapshots too.
    ByDdl,
}

/// Adds marks in the current transaction. Whoever replicates the source has rollups of its own, or none.
pub fn add_marks(stored: Oid, mark: Mark, times: &Ranges) {
    let series = match mark {
        Mark::Series(series) => series.into_datum(),
        Mark::Any | Mark::ByDdl => None,
    };
    let by_ddl = matches!(mark, Mark::ByDdl);
    // SAFETY: a heap of five columns.
    unsafe {
        let Some((marks, _)) = table_and_index(c"rollup_mark", c"rollup_mark_stored") else {
            return;
        };
        let marks = Open::table(marks, LockMode::RowExclusive);
        for (first, last) in times.iter() {
            let text = series.unwrap_or(Datum::from(0usize));
            let mut values = [
                stored.into(),
                first.into(),
                last.into(),
                text,
                by_ddl.into(),
            ];
            let mut nulls = [false, false, false, series.is_none(), false];
            catalog_write::insert(marks.rel(), &mut values, &mut nulls);
        }
    }
}

/// How many rows a rollup has ignored, as a snapshot shows it, and where that is counted.
///
/// `snapshot` must be registered or active.
pub fn late_rows(stored: Oid, snapshot: Snapshot<'_>) -> (i64, Vec<ItemPointerData>) {
    let (mut rows, mut places) = (0, Vec::new());
    let (table, index, by) = (c"rollup_late", c"rollup_late_stored", column::LATE_STORED);
    scan(table, index, by, stored, snapshot, |row| {
        rows += row.int8(column::LATE_ROWS);
        places.push(row.row.place());
    });
    (rows, places)
}

/// Counts rows that a rollup ignores, in the current transaction.
pub fn add_late_rows(stored: Oid, rows: i64) {
    // SAFETY: a heap of two columns.
    unsafe {
        if let Some((table, _)) = table_and_index(c"rollup_late", c"rollup_late_stored") {
            let table = Open::table(table, LockMode::RowExclusive);
            let mut values: [Datum; 2] = [stored.into(), rows.into()];
            catalog_write::insert(table.rel(), &mut values, &mut [false; 2]);
        }
    }
}

/// Removes counts that `late_rows` has read.
///
/// # Safety
/// As `remove_marks`.
pub unsafe fn remove_late_rows(places: &[ItemPointerData]) {
    // SAFETY: by contract.
    unsafe { remove_from(c"rollup_late", c"rollup_late_stored", places) };
}

/// Enters a new rollup: the columns of `varve.rollup` in their order.
pub fn add(values: &mut [Datum], nulls: &mut [bool]) {
    // SAFETY: the caller gives what the table has.
    unsafe {
        if let Some((table, _)) = table_and_index(c"rollup", c"rollup_stored") {
            let table = Open::table(table, LockMode::RowExclusive);
            catalog_write::insert(table.rel(), values, nulls);
        }
    }
}

/// What of a rollup moves on as time goes.
#[derive(Clone, Copy)]
pub enum Limit {
    Threshold,
    Watermark,
    Removed,
    /// 1: rows of times that retention has removed are counted, and not refused.
    IgnoresLate,
}

/// Moves a limit of a rollup, and says so in its label where a dump has to know.
pub fn move_on(stored: Oid, limit: Limit, to: i64) {
    let column = match limit {
        Limit::Threshold => column::THRESHOLD,
        Limit::Watermark => column::WATERMARK,
        Limit::Removed => column::REMOVED,
        Limit::IgnoresLate => column::IGNORES_LATE,
    };
    // SAFETY: the row is found by a snapshot that is taken now, and no one else changes it: refreshes exclude each other.
    unsafe {
        let (table, index, by) = (c"rollup", c"rollup_stored", column::STORED);
        let now = Snapshot::NONE;
        let mut changed = None;
        scan(table, index, by, stored, now, |row| {
            changed = Some((row.row.with(column, to.into()), row.rollup()))
        });
        let (Some((row, mut rollup)), Some((table, _))) = (changed, table_and_index(table, index))
        else {
            return;
        };
        let table = Open::table(table, LockMode::RowExclusive);
        catalog_write::update(table.rel(), &row);
        match limit {
            Limit::Threshold => return,
            Limit::Watermark => rollup.watermark = to,
            Limit::Removed => rollup.removed = to,
            Limit::IgnoresLate => rollup.ignores_late = to != 0,
        }
        Label::of(&rollup).write(rollup.view);
        transaction::next_command();
    }
}

/// Removes a rollup that is being dropped, and its marks.
pub fn remove(stored: Oid) {
    // SAFETY: the tables are heaps, and rows are found by a snapshot that is taken now.
    unsafe {
        let mut entries = Vec::new();
        let (table, index, by) = (c"rollup", c"rollup_stored", column::STORED);
        let now = Snapshot::NONE;
        scan(table, index, by, stored, now, |row| {
            entries.push(row.row.place())
        });
        if let Some((table, _)) = table_and_index(table, index) {
            let table = Open::table(table, LockMode::RowExclusive);
            for entry in &entries {
                catalog_write::delete(table.rel(), *entry);
            }
        }
        let mut gone = Vec::new();
        let (table, index) = (c"rollup_mark", c"rollup_mark_stored");
        scan(table, index, column::MARK_STORED, stored, now, |row| {
            gone.push(row.row.place())
        });
        remove_marks(&gone);
        remove_late_rows(&late_rows(stored, now).1);
    }
}

/// Removes marks that a refresh has read, all of them its own to remove.
///
/// # Safety
/// `marks` must come from `marks`, in this transaction, with a lock that keeps other refreshes out.
pub unsafe fn remove_marks(marks: &[ItemPointerData]) {
    // SAFETY: by contract.
    unsafe { remove_from(c"rollup_mark", c"rollup_mark_stored", marks) };
}

/// Removes rows of one of varve's tables.
///
/// # Safety
/// As `remove_marks`; `places` must be of rows of this table.
unsafe fn remove_from(table: &CStr, index: &CStr, places: &[ItemPointerData]) {
    // SAFETY: the callers' contract.
    unsafe {
        let Some((table, _)) = table_and_index(table, index) else {
            return;
        };
        let table = Open::table(table, LockMode::RowExclusive);
        for place in places {
            catalog_write::delete(table.rel(), *place);
        }
    }
}

/// A row of one of the tables, while it is looked at.
struct Row<'a> {
    row: catalog_scan::Row<'a>,
    values: Vec<Datum>,
    nulls: Vec<bool>,
}

impl Row<'_> {
    /// A column that is never null.
    fn int8(&self, column: i32) -> i64 {
        self.values[column as usize - 1].value() as i64
    }

    fn text(&self, column: i32) -> Option<String> {
        let at = column as usize - 1;
        // SAFETY: a column of texts; the tuple is pinned.
        unsafe { String::from_datum(self.values[at], self.nulls[at]) }
    }

    fn is_by_ddl(&self) -> bool {
        self.int8(column::MARK_BY_DDL) as u8 != 0
    }

    /// Has the row been inserted, by now, by a transaction that is committed, or by this one?
    fn has_come(&self) -> bool {
        match self.row.inserter() {
            Inserter::Committed => true,
            Inserter::Aborted => false,
            Inserter::Unknown(by) => is_done(by),
        }
    }

    /// Has the row been deleted, as a snapshot shows it? Marks are deleted, and never updated or locked.
    fn has_gone(&self, snapshot: Snapshot<'_>) -> bool {
        self.row.deleter().is_some_and(|by| {
            transaction::is_current(by) || (!snapshot.is_running(by) && is_done(by))
        })
    }

    fn oid(&self, column: i32) -> Oid {
        Oid::from_u32(self.int8(column) as u32)
    }

    fn rollup(&self) -> Rollup {
        Rollup {
            stored: self.oid(column::STORED),
            source: self.oid(column::SOURCE),
            view: self.oid(column::VIEW),
            time_column: self.int8(column::TIME_COLUMN) as i16,
            width_max: self.int8(column::WIDTH_MAX),
            over_max: self.int8(column::OVER_MAX),
            threshold: self.int8(column::THRESHOLD),
            watermark: self.int8(column::WATERMARK),
            bucket_column: self.int8(column::BUCKET_COLUMN) as i16,
            removed: self.int8(column::REMOVED),
            below: self.oid(column::BELOW),
            key_column: self.int8(column::KEY_COLUMN) as i16,
            key_stored: self.int8(column::KEY_STORED) as i16,
            ignores_late: self.int8(column::IGNORES_LATE) != 0,
        }
    }
}

/// Is a transaction committed, or this one?
fn is_done(transaction: TransactionId) -> bool {
    // One that runs is asked for first, as it may end meanwhile.
    transaction::is_current(transaction)
        || (!transaction::is_in_progress(transaction) && transaction::did_commit(transaction))
}

/// Shows the rows of a table whose column is `oid`.
fn scan(
    table: &CStr,
    index: &CStr,
    column: i32,
    oid: Oid,
    snapshot: Snapshot<'_>,
    mut show: impl FnMut(&Row),
) {
    let Some((table, index)) = table_and_index(table, index) else {
        return;
    };
    let table = Open::table(table, LockMode::AccessShare);
    let key = Key::oid(column, oid);
    catalog_scan::each(table.rel(), Some(index), &[key], snapshot, |row| {
        let (values, nulls) = row.columns();
        show(&Row { row, values, nulls });
        true
    });
}

/// A table of ours and an index of it; nothing while the extension is being created, or where it is not.
fn table_and_index(table: &CStr, index: &CStr) -> Option<(Oid, Oid)> {
    names::table_and_index(c"varve", table, index)
}
