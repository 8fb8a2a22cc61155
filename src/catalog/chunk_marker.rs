//! Marks of files that have chunks. Ordinary indexes cover tail rows only, so the planner may use them as
//! long as a table has no chunk; a mark tells it that at the price of one index look-up. A mark is made in
//! the transaction of the first chunk, and seen by whoever can see that chunk. It names the file, so that
//! TRUNCATE and rewrites start afresh, and goes with the data when the file moves. The transaction that drops or
//! replaces a file takes its mark away (`drop_marker`); what is left over is swept (`marker_sweep`).

use super::layout;
use super::marker_file::{File, COLUMNS};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{OpenIndex, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction::{self, Access, PerTransaction};
use pgrx::pg_sys;

thread_local! {
    /// Files that this transaction has marked. What a part of it marked may be gone when that ends.
    static MARKED: PerTransaction<Vec<File>> = PerTransaction::until_a_part_ends();
}

/// Has the table's file had chunks?
pub fn is_marked(table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    unsafe {
        let file = File::of(table);
        marks_and_index().is_none_or(|(marks, index)| {
            let marks = Marks::open(marks, index, LockMode::AccessShare);
            let found = marks.any(&file);
            marks.close(true);
            found
        })
    }
}

/// Marks the table's file, where that has not been done. To be called before a chunk is written.
pub fn mark(table: Table<'_>) {
    // SAFETY: the table is open.
    unsafe {
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
                pg_sys::CacheInvalidateRelcache(table.as_ptr());
            }
            marks.close(false);
        }
        MARKED.with_borrow_mut(|marked| marked.push(file));
    }
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
    // SAFETY: the table is open.
    unsafe {
        if can_have_old_plans(table) {
            let mode = LockMode::AccessExclusive.as_raw();
            pg_sys::WaitForLockers(lock_tag(table), mode, false);
        }
    }
}

/// Is there no transaction that `await_old_plans` would wait for?
pub fn has_no_old_plans(table: Table<'_>) -> bool {
    // SAFETY: the table is open; the list is palloc'd.
    unsafe {
        if !can_have_old_plans(table) {
            return true;
        }
        let mut count = 0;
        let mode = LockMode::AccessExclusive.as_raw();
        let list = pg_sys::GetLockConflicts(&lock_tag(table), mode, &mut count);
        pg_sys::pfree(list.cast());
        count == 0
    }
}

fn can_have_old_plans(table: Table<'_>) -> bool {
    let has_always_been_able = !layout::has_constraint_index(table)
        && (layout::has_calendar_column(table) || layout::has_only_series_indexes(table));
    !has_always_been_able && !is_marked(table)
}

fn lock_tag(table: Table<'_>) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: set when a backend connects.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: table.oid().to_u32(),
        locktag_field3: 0,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    }
}

/// The file that the table's data is about to be copied to has the mark from now on, where its present one is marked.
///
/// `table` must be open and locked exclusively.
pub fn carry(table: Table<'_>, to: File) {
    // SAFETY: the table is open.
    unsafe {
        let from = File::of(table);
        if from == to || !MARKED.with_borrow(|marked| marked.contains(&from)) && !is_marked(table) {
            return;
        }
        if let Some((marks, index)) = marks_and_index() {
            let marks = Marks::open(marks, index, LockMode::RowExclusive);
            marks.insert(&to);
            marks.delete(&from);
            marks.close(false);
        }
    }
}

/// Takes away the mark of a table's file, which goes when the transaction commits.
///
/// `table` must be open and locked exclusively.
pub fn drop_marker(table: Table<'_>) {
    // SAFETY: the table is open.
    unsafe {
        if let Some((marks, index)) = marks_and_index() {
            let marks = Marks::open(marks, index, LockMode::RowExclusive);
            marks.delete(&File::of(table));
            marks.close(false);
        }
    }
}

/// The table of marks, open with its index.
pub struct Marks {
    table: pg_sys::Relation,
    index: pg_sys::Oid,
    lock: LockMode,
}

impl Marks {
    /// # Safety
    /// Both must be OIDs of `marks_and_index`. To be closed, but for errors.
    unsafe fn open(marks: pg_sys::Oid, index: pg_sys::Oid, lock: LockMode) -> Marks {
        Marks {
            // SAFETY: by contract.
            table: unsafe { pg_sys::table_open(marks, lock.as_raw()) },
            index,
            lock,
        }
    }

    /// Those that exist, for who has locked them already.
    pub fn locked() -> Option<Marks> {
        // SAFETY: the extension's own table.
        let (marks, index) = marks_and_index()?;
        // SAFETY: as above; the caller has the lock.
        Some(unsafe { Marks::open(marks, index, LockMode::Held) })
    }

    pub fn close(self, unlock: bool) {
        let lock = if unlock { self.lock } else { LockMode::Held };
        // SAFETY: opened by `open`.
        unsafe { pg_sys::table_close(self.table, lock.as_raw()) };
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
    pub fn each(
        &self,
        file: Option<&File>,
        mut visit: impl FnMut(pg_sys::ItemPointerData, File) -> bool,
    ) {
        let mut keys = file.map(File::scan_keys).unwrap_or_default();
        // SAFETY: the marks are a heap of `COLUMNS` columns, none null, with one index over all of them.
        unsafe {
            // A serializable transaction, which looks at marks to plan a query, is in no conflict with who sets another mark.
            let committed = Snapshot::now();
            let scan = pg_sys::systable_beginscan(
                self.table,
                self.index,
                file.is_some(),
                committed.as_ptr(),
                keys.len() as i32,
                keys.as_mut_ptr(),
            );
            loop {
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null()
                    || !visit(
                        (*tuple).t_self,
                        File::read(Table::from_ptr(self.table), tuple),
                    )
                {
                    break;
                }
            }
            pg_sys::systable_endscan(scan);
        }
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
    pub fn delete_at(&self, mut at: pg_sys::ItemPointerData) {
        // SAFETY: the tuple was seen by a snapshot of this command; the table is open for writing.
        unsafe {
            let mut failure = pg_sys::TM_FailureData::default();
            pg_sys::heap_delete(
                self.table,
                &mut at,
                transaction::command(true),
                core::ptr::null_mut(),
                true,
                &mut failure,
                false,
            );
        }
    }

    /// Inserts a mark that logical decoding does not see: marks are no subscriber's business.
    unsafe fn insert(&self, file: &File) {
        // SAFETY: the marks are a heap without triggers, with one index over all columns.
        unsafe {
            let index = OpenIndex::open(self.index, LockMode::RowExclusive);
            let (mut values, mut nulls) = (file.values(), [false; COLUMNS]);
            let tuple = pg_sys::heap_form_tuple(
                (*self.table).rd_att,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            pg_sys::heap_insert(
                self.table,
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
                self.table,
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                false,
                pg_sys::BuildIndexInfo(index.rel().as_ptr()),
            );
        }
    }
}

/// The table of marks and its index; nothing while the extension is being created.
pub fn marks_and_index() -> Option<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: syscache look-ups by name.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"varve".as_ptr(), true);
        let marks = pg_sys::get_relname_relid(c"chunk_files".as_ptr(), schema);
        let index = pg_sys::get_relname_relid(c"chunk_files_file".as_ptr(), schema);
        (marks != pg_sys::InvalidOid && index != pg_sys::InvalidOid).then_some((marks, index))
    }
}
