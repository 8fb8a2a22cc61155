//! What `varve.rollup` and `varve.rollup_mark` say, read and written without the rights of whoever is asking: the tables are
//! the extension's, and nobody else may read them.

use super::label::Label;
use super::ranges::Ranges;
use crate::chunk::chunk_cache;
use crate::pg::descriptor::Descriptor;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{Open, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction;
use core::ffi::CStr;
use pgrx::{pg_sys, FromDatum, IntoDatum};

/// A row of `varve.rollup`. Times are in the unit of the source's time column.
#[derive(Clone, Debug)]
pub struct Rollup {
    /// The table of stored buckets; it names the rollup.
    pub stored: pg_sys::Oid,
    /// What users query.
    pub view: pg_sys::Oid,
    /// The table that it is computed from, in the end.
    pub source: pg_sys::Oid,
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
    pub below: pg_sys::Oid,
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
    pub const COUNT: usize = 14;
    pub const MARK_STORED: i32 = 1;
    pub const MARK_FIRST: i32 = 2;
    pub const MARK_LAST: i32 = 3;
    pub const MARK_SERIES: i32 = 4;
    pub const MARK_BY_DDL: i32 = 5;
    pub const LATE_STORED: i32 = 1;
    pub const LATE_ROWS: i32 = 2;
}

/// The rollups that are computed from a table, in the end, as they are now.
pub fn of_source(source: pg_sys::Oid) -> Vec<Rollup> {
    let mut found = Vec::new();
    // SAFETY: no snapshot means one that is taken now.
    unsafe {
        scan(
            c"rollup",
            c"rollup_source",
            column::SOURCE,
            source,
            Snapshot::NONE,
            |row| found.push(row.rollup()),
        );
    }
    found
}

/// A rollup, as a snapshot shows it; without a snapshot, as it is now.
///
/// `snapshot` must be null, registered or active.
pub fn find(stored: pg_sys::Oid, snapshot: Snapshot<'_>) -> Option<Rollup> {
    let mut found = None;
    // SAFETY: the snapshot is valid.
    unsafe {
        scan(
            c"rollup",
            c"rollup_stored",
            column::STORED,
            stored,
            snapshot,
            |row| found = Some(row.rollup()),
        );
    }
    found
}

/// The rollups that are computed from the stored table of another one, as they are now.
pub fn of_stored(below: pg_sys::Oid) -> Vec<Rollup> {
    let mut found = Vec::new();
    // SAFETY: no snapshot means one that is taken now.
    unsafe {
        scan(
            c"rollup",
            c"rollup_below",
            column::BELOW,
            below,
            Snapshot::NONE,
            |row| found.push(row.rollup()),
        );
    }
    found
}

/// The rollup of a view, as it is now.
pub fn of_view(view: pg_sys::Oid) -> Option<Rollup> {
    let mut found = None;
    // SAFETY: no snapshot means one that is taken now.
    unsafe {
        scan(
            c"rollup",
            c"rollup_view",
            column::VIEW,
            view,
            Snapshot::NONE,
            |row| found = Some(row.rollup()),
        );
    }
    found
}

/// The table that a rollup is computed from, in the end; None for a table that stores no rollup's buckets.
pub fn source_of(stored: pg_sys::Oid) -> Option<pg_sys::Oid> {
    find(stored, Snapshot::NONE).map(|rollup| rollup.source)
}

/// What has been changed in a rollup's source since it was stored.
#[derive(Default)]
pub struct Marks {
    /// The times of all marks.
    pub times: Ranges,
    /// Each mark: first and last time, and the series that it is of; None: of any.
    pub all: Vec<(i64, i64, Option<String>)>,
    pub places: Vec<pg_sys::ItemPointerData>,
}

/// The marks of a rollup, as a snapshot shows them. Those of DDL, which is no matter of snapshots, show at once to all.
///
/// `snapshot` must be registered or active.
pub fn marks(stored: pg_sys::Oid, snapshot: Snapshot<'_>) -> Marks {
    let mut marks = Marks::default();
    let (table, index, by) = (c"rollup_mark", c"rollup_mark_stored", column::MARK_STORED);
    // SAFETY: the snapshot is valid; a row is pinned while it is shown.
    unsafe {
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
    }
    marks
}

/// The times of all marks of a rollup, of those too that are not committed.
pub fn marked_by_anybody(stored: pg_sys::Oid) -> Ranges {
    let (table, index, by) = (c"rollup_mark", c"rollup_mark_stored", column::MARK_STORED);
    let mut times = Ranges::default();
    let mut dirty = chunk_cache::dirty_snapshot();
    // SAFETY: the snapshot lives as long as the scan; a row is pinned while it is shown.
    unsafe {
        let dirty = Snapshot::from_ptr(&mut dirty);
        scan(table, index, by, stored, dirty, |row| {
            times.add(row.int8(column::MARK_FIRST), row.int8(column::MARK_LAST));
        });
    }
    times
}

impl Marks {
    unsafe fn add(&mut self, row: &Row) {
        let (first, last) = (row.int8(column::MARK_FIRST), row.int8(column::MARK_LAST));
        self.times.add(first, last);
        self.all.push((first, last, row.text(column::MARK_SERIES)));
        // SAFETY: the row is shown now.
        self.places.push(unsafe { (*row.tuple).t_self });
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
pub fn add_marks(stored: pg_sys::Oid, mark: Mark, times: &Ranges) {
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
            let text = series.unwrap_or(pg_sys::Datum::from(0usize));
            let mut values = [
                stored.into(),
                first.into(),
                last.into(),
                text,
                by_ddl.into(),
            ];
            let mut nulls = [false, false, false, series.is_none(), false];
            insert(marks.rel(), &mut values, &mut nulls);
        }
    }
}

/// How many rows a rollup has ignored, as a snapshot shows it, and where that is counted.
///
/// `snapshot` must be registered or active.
pub fn late_rows(
    stored: pg_sys::Oid,
    snapshot: Snapshot<'_>,
) -> (i64, Vec<pg_sys::ItemPointerData>) {
    let (mut rows, mut places) = (0, Vec::new());
    // SAFETY: the snapshot is valid.
    unsafe {
        let (table, index, by) = (c"rollup_late", c"rollup_late_stored", column::LATE_STORED);
        scan(table, index, by, stored, snapshot, |row| {
            rows += row.int8(column::LATE_ROWS);
            places.push((*row.tuple).t_self);
        });
    }
    (rows, places)
}

/// Counts rows that a rollup ignores, in the current transaction.
pub fn add_late_rows(stored: pg_sys::Oid, rows: i64) {
    // SAFETY: a heap of two columns.
    unsafe {
        if let Some((table, _)) = table_and_index(c"rollup_late", c"rollup_late_stored") {
            let table = Open::table(table, LockMode::RowExclusive);
            let mut values: [pg_sys::Datum; 2] = [stored.into(), rows.into()];
            insert(table.rel(), &mut values, &mut [false; 2]);
        }
    }
}

/// Removes counts that `late_rows` has read.
///
/// # Safety
/// As `remove_marks`.
pub unsafe fn remove_late_rows(places: &mut [pg_sys::ItemPointerData]) {
    // SAFETY: by contract.
    unsafe { remove_from(c"rollup_late", c"rollup_late_stored", places) };
}

/// Enters a new rollup: the columns of `varve.rollup` in their order.
pub fn add(values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
    // SAFETY: the caller gives what the table has.
    unsafe {
        if let Some((table, _)) = table_and_index(c"rollup", c"rollup_stored") {
            let table = Open::table(table, LockMode::RowExclusive);
            insert(table.rel(), values, nulls);
        }
    }
}

unsafe fn insert(table: Table<'_>, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
    // SAFETY: the callers' contract; both tables are heaps with plain indexes, like a catalog.
    unsafe {
        let tuple = pg_sys::heap_form_tuple(
            table.descriptor().as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        pg_sys::CatalogTupleInsert(table.as_ptr(), tuple);
        pg_sys::heap_freetuple(tuple);
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
pub fn move_on(stored: pg_sys::Oid, limit: Limit, to: i64) {
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
            changed = Some((row.with(column, to), row.rollup()))
        });
        let (Some((tuple, mut rollup)), Some((table, _))) =
            (changed, table_and_index(table, index))
        else {
            return;
        };
        let table = Open::table(table, LockMode::RowExclusive);
        pg_sys::CatalogTupleUpdate(table.rel().as_ptr(), &mut (*tuple).t_self, tuple);
        pg_sys::heap_freetuple(tuple);
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
pub fn remove(stored: pg_sys::Oid) {
    // SAFETY: the tables are heaps, and rows are found by a snapshot that is taken now.
    unsafe {
        let mut entries = Vec::new();
        let (table, index, by) = (c"rollup", c"rollup_stored", column::STORED);
        let now = Snapshot::NONE;
        scan(table, index, by, stored, now, |row| {
            entries.push((*row.tuple).t_self)
        });
        if let Some((table, _)) = table_and_index(table, index) {
            let table = Open::table(table, LockMode::RowExclusive);
            for entry in &mut entries {
                pg_sys::simple_heap_delete(table.rel().as_ptr(), entry);
            }
        }
        let mut gone = Vec::new();
        let (table, index) = (c"rollup_mark", c"rollup_mark_stored");
        scan(table, index, column::MARK_STORED, stored, now, |row| {
            gone.push((*row.tuple).t_self)
        });
        remove_marks(&mut gone);
        remove_late_rows(&mut late_rows(stored, now).1);
    }
}

/// Removes marks that a refresh has read, all of them its own to remove.
///
/// # Safety
/// `marks` must come from `marks`, in this transaction, with a lock that keeps other refreshes out.
pub unsafe fn remove_marks(marks: &mut [pg_sys::ItemPointerData]) {
    // SAFETY: by contract.
    unsafe { remove_from(c"rollup_mark", c"rollup_mark_stored", marks) };
}

unsafe fn remove_from(table: &CStr, index: &CStr, places: &mut [pg_sys::ItemPointerData]) {
    // SAFETY: the callers' contract.
    unsafe {
        let Some((table, _)) = table_and_index(table, index) else {
            return;
        };
        let table = Open::table(table, LockMode::RowExclusive);
        for place in places {
            pg_sys::simple_heap_delete(table.rel().as_ptr(), place);
        }
    }
}

/// A row of one of the tables, while it is looked at.
struct Row<'a> {
    tuple: pg_sys::HeapTuple,
    descriptor: Descriptor<'a>,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl<'a> Row<'a> {
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
    unsafe fn has_come(&self) -> bool {
        // SAFETY: the tuple is pinned; nobody else writes but hints.
        unsafe {
            let header = (*self.tuple).t_data;
            let by = (*header).t_choice.t_heap.t_xmin;
            let hints = u32::from((*header).t_infomask);
            if hints & pg_sys::HEAP_XMIN_COMMITTED != 0 {
                return true;
            }
            hints & pg_sys::HEAP_XMIN_INVALID == 0 && is_done(by)
        }
    }

    /// Has the row been deleted, as a snapshot shows it?
    unsafe fn has_gone(&self, snapshot: Snapshot<'_>) -> bool {
        // SAFETY: the tuple is pinned; marks are deleted, and never updated or locked.
        unsafe {
            let header = (*self.tuple).t_data;
            let by = (*header).t_choice.t_heap.t_xmax;
            let hints = u32::from((*header).t_infomask);
            if hints & pg_sys::HEAP_XMAX_INVALID != 0 || by == pg_sys::InvalidTransactionId {
                return false;
            }
            transaction::is_current(by) || (!snapshot.is_running(by) && is_done(by))
        }
    }

    fn oid(&self, column: i32) -> pg_sys::Oid {
        pg_sys::Oid::from_u32(self.int8(column) as u32)
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

    /// A copy with another value in one column.
    unsafe fn with(&self, column: i32, value: i64) -> pg_sys::HeapTuple {
        let at = column as usize - 1;
        let mut values = [pg_sys::Datum::from(0); column::COUNT];
        let mut replace = [false; column::COUNT];
        values[at] = value.into();
        replace[at] = true;
        // SAFETY: the tuple is pinned by its scan; the arrays have an entry for each column.
        unsafe {
            pg_sys::heap_modify_tuple(
                self.tuple,
                self.descriptor.as_ptr(),
                values.as_mut_ptr(),
                [false; column::COUNT].as_mut_ptr(),
                replace.as_mut_ptr(),
            )
        }
    }
}

/// Is a transaction committed, or this one?
fn is_done(transaction: pg_sys::TransactionId) -> bool {
    // One that runs is asked for first, as it may end meanwhile.
    transaction::is_current(transaction)
        || (!transaction::is_in_progress(transaction) && transaction::did_commit(transaction))
}

/// Shows the rows of a table whose column is `oid`.
unsafe fn scan(
    table: &CStr,
    index: &CStr,
    column: i32,
    oid: pg_sys::Oid,
    snapshot: Snapshot<'_>,
    mut show: impl FnMut(&Row),
) {
    // SAFETY: the callers' contract; the tables are heaps with these indexes.
    unsafe {
        let Some((table, index)) = table_and_index(table, index) else {
            return;
        };
        let table = Open::table(table, LockMode::AccessShare);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            column as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_OIDEQ),
            oid.into(),
        );
        let scan = pg_sys::systable_beginscan(
            table.rel().as_ptr(),
            index,
            true,
            snapshot.as_ptr(),
            1,
            &mut key,
        );
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let descriptor = table.rel().descriptor();
            let count = descriptor.len();
            let (mut values, mut nulls) = (vec![pg_sys::Datum::from(0); count], vec![false; count]);
            pg_sys::heap_deform_tuple(
                tuple,
                descriptor.as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            show(&Row {
                tuple,
                descriptor,
                values,
                nulls,
            });
        }
        pg_sys::systable_endscan(scan);
    }
}

/// A table of ours and an index of it; nothing while the extension is being created, or where it is not.
unsafe fn table_and_index(table: &CStr, index: &CStr) -> Option<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: syscache look-ups by name.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"varve".as_ptr(), true);
        let table = pg_sys::get_relname_relid(table.as_ptr(), schema);
        let index = pg_sys::get_relname_relid(index.as_ptr(), schema);
        (table != pg_sys::InvalidOid && index != pg_sys::InvalidOid).then_some((table, index))
    }
}
