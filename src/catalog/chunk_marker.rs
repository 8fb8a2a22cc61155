//! Marks of files that have chunks. Ordinary indexes cover tail rows only, so the planner may use them as
//! long as a table has no chunk; a mark tells it that at the price of one index look-up. A mark is made in
//! the transaction of the first chunk, and seen by whoever can see that chunk. It names the file, so that
//! TRUNCATE and rewrites start afresh, and goes with the data when the file moves. The transaction that drops or
//! replaces a file takes its mark away (`drop_marker`); what is left over is swept (`marker_sweep`).

use super::layout;
use super::marker_file::{File, COLUMNS};
use crate::pg::catalog_scan;
use crate::pg::catalog_write;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags;
use crate::pg::names;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::{ItemPointerData, Oid};

thread_local! {
    /// Files that this transaction has marked. What a part of it marked may be gone when that ends.
    static MARKED: PerTransaction<Vec<File>> = PerTransaction::until_a_part_ends();
}

/// Has the table's file had chunks?
pub fn is_marked(table: Table<'_>) -> bool {
    let file = File::of(table);
    marks_and_index().is_none_or(|(marks, index)| {
        let marks = Marks::open(marks, index, LockMode::AccessShare);
        let found = marks.any(&file);
        marks.unlock();
        found
    })
}

/// Marks the table's file, where that has not been done. To be called before a chunk is written.
pub fn mark(table: Table<'_>) {
    let file = File::of(table);
    if MARKED.with_borrow(|marked| marked.contains(&file)) {
        return;
    }
    if let Some((marks, index)) = marks_and_index() {
        // Who sweeps waits for the end of this transaction, even if the mark is an old one.
        let marks = Marks::open(marks, index, LockMode::RowExclusive);
        if !marks.any(&file) {
            marks.insert(&file);
            // Plans that use an ordinary index are to be made anew.
            table.invalidate();
        }
    }
    MARKED.with_borrow_mut(|marked| marked.push(file));
}

/// Marks the file of a table with keys while nobody else can be using it: from now on everybody looks into its chunks, so
/// batches may bring the first one. Where others may use the table, compact brings it (`await_old_plans`).
///
/// `table` must be open, by a process that may write.
pub fn mark_if_alone(table: Table<'_>) {
    let is_alone = table.is_created_here() || table.is_locked_exclusively();
    // In torture mode others get chunks too, but not before somebody commits.
    let wanted = is_alone
        && layout::has_constraint_index(table)
        && !layout::keeps_rows_in_tail(table)
        && layout::of(table).time.is_some();
    if wanted {
        mark(table);
    }
}

/// Before the first row of a table is sealed: waits for the end of transactions that may use an ordinary
/// index by a plan of a time when the table could get no chunks, or enter keys without looking for them in
/// chunks. Only a series index can have changed that without a lock that waits for them anyway: it gives a
/// table a time column whose types tell of none, or lets keys be found in chunks.
///
/// `table` must be open with the lock of compact.
pub fn await_old_plans(table: Table<'_>) {
    if can_have_old_plans(table) {
        lock_tags::await_users(table);
    }
}

/// Is there no transaction that `await_old_plans` would wait for?
pub fn has_no_old_plans(table: Table<'_>) -> bool {
    !can_have_old_plans(table) || !lock_tags::has_users(table)
}

fn can_have_old_plans(table: Table<'_>) -> bool {
    let has_always_been_able = !layout::has_constraint_index(table)
        && (layout::has_calendar_column(table) || layout::has_only_series_indexes(table));
    !has_always_been_able && !is_marked(table)
}

/// The file that the table's data is about to be copied to has the mark from now on, where its present one is marked.
///
/// `table` must be open and locked exclusively.
pub fn carry(table: Table<'_>, to: File) {
    let from = File::of(table);
    if from == to || !MARKED.with_borrow(|marked| marked.contains(&from)) && !is_marked(table) {
        return;
    }
    if let Some((marks, index)) = marks_and_index() {
        let marks = Marks::open(marks, index, LockMode::RowExclusive);
        marks.insert(&to);
        marks.delete(&from);
    }
}

/// Takes away the mark of a table's file, which goes when the transaction commits.
///
/// `table` must be open and locked exclusively.
pub fn drop_marker(table: Table<'_>) {
    if let Some((marks, index)) = marks_and_index() {
        let marks = Marks::open(marks, index, LockMode::RowExclusive);
        marks.delete(&File::of(table));
    }
}

/// The table of marks, open with its index.
pub struct Marks {
    table: Open,
    index: Oid,
    lock: LockMode,
}

impl Marks {
    /// Both must be OIDs of `marks_and_index`.
    fn open(marks: Oid, index: Oid, lock: LockMode) -> Marks {
        Marks {
            table: Open::table(marks, lock),
            index,
            lock,
        }
    }

    /// Those that exist, for who has locked them already.
    pub fn locked() -> Option<Marks> {
        let (marks, index) = marks_and_index()?;
        Some(Marks::open(marks, index, LockMode::Held))
    }

    fn unlock(self) {
        self.table.unlock(self.lock);
    }

    /// Is the file marked?
    pub fn any(&self, file: &File) -> bool {
        let mut found = false;
        self.each(Some(file), |_, _| {
            found = true;
            false
        });
        found
    }

    /// Shows the marks that can be seen now, of one file or of all, with their places, as long as `visit` wants more.
    pub fn each(&self, file: Option<&File>, mut visit: impl FnMut(ItemPointerData, File) -> bool) {
        let keys = file.map(File::scan_keys);
        let keys = keys.as_ref().map_or(&[][..], |keys| keys);
        let index = file.map(|_| self.index);
        // A serializable transaction, which looks at marks to plan a query, is in no conflict with who sets another mark.
        let committed = Snapshot::now();
        catalog_scan::each(self.table.rel(), index, keys, committed, |mark| {
            visit(mark.place(), File::read(&mark))
        });
    }

    /// Takes away what marks a file.
    fn delete(&self, file: &File) {
        let mut places = Vec::new();
        self.each(Some(file), |at, _| {
            places.push(at);
            true
        });
        for at in places {
            self.delete_at(at);
        }
    }

    /// Takes a mark away, if nobody else has done so.
    pub fn delete_at(&self, at: ItemPointerData) {
        // SAFETY: the tuple was seen by a snapshot of this command; the table is open for writing.
        unsafe { catalog_write::delete_if_there(self.table.rel(), at) }
    }

    /// Inserts a mark that logical decoding does not see: marks are no subscriber's business.
    fn insert(&self, file: &File) {
        let index = OpenIndex::open(self.index, LockMode::RowExclusive);
        let (mut values, mut nulls) = (file.values(), [false; COLUMNS]);
        // SAFETY: the marks are a heap without triggers, of these columns, with one index over all of them.
        unsafe {
            catalog_write::insert_unseen(self.table.rel(), index.rel(), &mut values, &mut nulls);
        }
    }
}

/// The table of marks and its index; nothing while the extension is being created.
pub fn marks_and_index() -> Option<(Oid, Oid)> {
    names::table_and_index(c"varve", c"chunk_files", c"chunk_files_file")
}
