//! Marks of files that have chunks. Ordinary indexes cover tail rows only, so the planner may use them as
//! long as a table has no chunk; a mark tells it that at the price of one index look-up. A mark is made in
//! the transaction of the first chunk, and seen by whoever can see that chunk. It names the file, so that
//! TRUNCATE and rewrites start afresh, and goes with the data when the file moves; it is never taken back.

use super::layout;
use crate::pg::relation::{self, Open};
use crate::pg::transaction::{Access, PerTransaction};
use pgrx::pg_sys;

thread_local! {
    /// Files that this transaction has marked. What a part of it marked may be gone when that ends.
    static MARKED: PerTransaction<Vec<pg_sys::Oid>> = PerTransaction::until_a_part_ends();
}

/// May the table have chunks, now or before its layout is changed by somebody who locks it?
///
/// # Safety
/// `table` must be open with a lock.
pub unsafe fn may_have_chunks(table: pg_sys::Relation) -> bool {
    // SAFETY: by contract.
    unsafe { layout::can_get_chunks(table) || is_marked(table) }
}

/// Has the table's file had chunks?
///
/// # Safety
/// `table` must be open with a lock.
pub unsafe fn is_marked(table: pg_sys::Relation) -> bool {
    // SAFETY: by contract; the marks live in a heap with one index over an OID column.
    unsafe {
        let file = relation::file_number(table);
        let Some((marks, index)) = marks_and_index() else {
            return true;
        };
        let marks = pg_sys::table_open(marks, pg_sys::AccessShareLock as i32);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            1,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_OIDEQ),
            file.into(),
        );
        let scan =
            pg_sys::systable_beginscan(marks, index, true, core::ptr::null_mut(), 1, &mut key);
        let found = !pg_sys::systable_getnext(scan).is_null();
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(marks, pg_sys::AccessShareLock as i32);
        found
    }
}

/// Marks the table's file, where that has not been done. To be called before a chunk is written.
///
/// # Safety
/// `table` must be open for writing.
pub unsafe fn mark(table: pg_sys::Relation) {
    // SAFETY: by contract.
    unsafe {
        let file = relation::file_number(table);
        if MARKED.with_borrow(|marked| marked.contains(&file)) {
            return;
        }
        if !is_marked(table) {
            if let Some((marks, index)) = marks_and_index() {
                insert(marks, index, file);
                // Plans that use an ordinary index are to be made anew.
                pg_sys::CacheInvalidateRelcache(table);
            }
        }
        MARKED.with_borrow_mut(|marked| marked.push(file));
    }
}

/// Marks the file of a table with keys while nobody else can be using it: from now on everybody looks into its chunks, so
/// batches may bring the first one. Where others may use the table, compact brings it (`await_old_plans`).
///
/// # Safety
/// `table` must be open, by a process that may write.
pub unsafe fn mark_if_alone(table: pg_sys::Relation) {
    // SAFETY: by contract.
    unsafe {
        let is_alone = relation::is_created_here(table) || relation::is_locked_exclusively(table);
        // In torture mode others get chunks too, but not before somebody commits.
        let wanted = is_alone
            && layout::has_constraint_index(table)
            && !layout::keeps_rows_in_tail(table)
            && layout::of(table).time.is_some();
        if wanted {
            mark(table);
        }
    }
}

/// Before the first row of a table is sealed: waits for the end of transactions that may use an ordinary
/// index by a plan of a time when the table could get no chunks, or enter keys without looking for them in
/// chunks. Only a series index can have changed that without a lock that waits for them anyway: it gives a
/// table a time column whose types tell of none, or lets keys be found in chunks.
///
/// # Safety
/// `table` must be open with the lock of compact.
pub unsafe fn await_old_plans(table: pg_sys::Relation) {
    // SAFETY: by contract.
    unsafe {
        if can_have_old_plans(table) {
            let mode = pg_sys::AccessExclusiveLock as i32;
            pg_sys::WaitForLockers(lock_tag(table), mode, false);
        }
    }
}

/// Is there no transaction that `await_old_plans` would wait for?
///
/// # Safety
/// See `await_old_plans`.
pub unsafe fn has_no_old_plans(table: pg_sys::Relation) -> bool {
    // SAFETY: by contract; the list is palloc'd.
    unsafe {
        if !can_have_old_plans(table) {
            return true;
        }
        let mut count = 0;
        let mode = pg_sys::AccessExclusiveLock as i32;
        let list = pg_sys::GetLockConflicts(&lock_tag(table), mode, &mut count);
        pg_sys::pfree(list.cast());
        count == 0
    }
}

unsafe fn can_have_old_plans(table: pg_sys::Relation) -> bool {
    // SAFETY: the callers' contract.
    unsafe {
        let has_always_been_able = !layout::has_constraint_index(table)
            && (layout::has_calendar_column(table) || layout::has_only_series_indexes(table));
        !has_always_been_able && !is_marked(table)
    }
}

unsafe fn lock_tag(table: pg_sys::Relation) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: set when a backend connects.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        // SAFETY: the callers' contract.
        locktag_field2: unsafe { relation::oid(table) }.to_u32(),
        locktag_field3: 0,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    }
}

/// Marks the file that the table's data is about to be copied to, where its present one is marked.
///
/// # Safety
/// `table` must be open and locked exclusively.
pub unsafe fn carry(table: pg_sys::Relation, to: pg_sys::Oid) {
    // SAFETY: by contract.
    unsafe {
        let from = relation::file_number(table);
        if MARKED.with_borrow(|marked| marked.contains(&from)) || is_marked(table) {
            if let Some((marks, index)) = marks_and_index() {
                insert(marks, index, to);
            }
        }
    }
}

/// Inserts a mark that logical decoding does not see: marks are no subscriber's business.
unsafe fn insert(marks: pg_sys::Oid, index: pg_sys::Oid, file: pg_sys::Oid) {
    // SAFETY: the marks are a heap of one column, without triggers, with one index over it.
    unsafe {
        let marks = Open::table(marks, pg_sys::RowExclusiveLock);
        let index = Open::index(index, pg_sys::RowExclusiveLock);
        let (mut value, mut null) = (pg_sys::Datum::from(file), false);
        let tuple = pg_sys::heap_form_tuple((*marks.rel()).rd_att, &mut value, &mut null);
        pg_sys::heap_insert(
            marks.rel(),
            tuple,
            pg_sys::GetCurrentCommandId(true),
            pg_sys::HEAP_INSERT_NO_LOGICAL as i32,
            core::ptr::null_mut(),
        );
        pg_sys::index_insert(
            index.rel(),
            &mut value,
            &mut null,
            &mut (*tuple).t_self,
            marks.rel(),
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
            false,
            pg_sys::BuildIndexInfo(index.rel()),
        );
    }
}

/// The table of marks and its index; nothing while the extension is being created.
unsafe fn marks_and_index() -> Option<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: syscache look-ups by name.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"varve".as_ptr(), true);
        let marks = pg_sys::get_relname_relid(c"chunk_files".as_ptr(), schema);
        let index = pg_sys::get_relname_relid(c"chunk_files_file".as_ptr(), schema);
        (marks != pg_sys::InvalidOid && index != pg_sys::InvalidOid).then_some((marks, index))
    }
}
