//! Marks whose files are gone. A table is dropped with its mark by a session that has loaded the library; a session that has not,
//! and one that runs no hooks, leaves the mark. It does no harm, and goes here.

use super::chunk_marker::{marks_and_index, Marks};
use super::marker_file::File;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{Open, Table};
use pgrx::pg_sys;
use std::cell::Cell;

/// How often a session looks for them.
const EVERY_US: i64 = 60_000_000;

thread_local! {
    static SWEPT: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Takes away marks of files that no table has, now and then. The lock, which is not waited for, keeps out all transactions that have
/// written chunks: each mark that is seen then is of a file that `pg_class` has, or of none.
///
/// # Safety
/// Must run in a transaction that has written no chunk and ends soon.
pub unsafe fn sweep() {
    // SAFETY: a time; the extension's own table, opened with a lock.
    unsafe {
        let now = pg_sys::GetCurrentTimestamp();
        if SWEPT
            .get()
            .is_some_and(|then| now.saturating_sub(then) < EVERY_US)
        {
            return;
        }
        let Some((marks, _)) = marks_and_index() else {
            return;
        };
        let lock = LockMode::ShareRowExclusive as pg_sys::LOCKMODE;
        if !pg_sys::ConditionalLockRelationOid(marks, lock) {
            return;
        }
        SWEPT.set(Some(now));
        let Some(marks) = Marks::locked() else {
            return;
        };
        let mut gone = Vec::new();
        let classes = Open::table(pg_sys::RelationRelationId, LockMode::AccessShare);
        marks.each(None, |at, file| {
            error::check_interrupts();
            if !is_used(classes.rel(), &file) {
                gone.push(at);
            }
            true
        });
        gone.into_iter().for_each(|at| marks.delete_at(at));
        marks.close(false);
    }
}

/// Has any relation the file, or another one of its number?
fn is_used(classes: Table<'_>, file: &File) -> bool {
    let columns = [
        (pg_sys::Anum_pg_class_reltablespace, file.tablespace),
        (pg_sys::Anum_pg_class_relfilenode, file.number),
    ];
    let mut keys = [pg_sys::ScanKeyData::default(); 2];
    // SAFETY: the index is of these columns, in this order.
    unsafe {
        for (key, (column, value)) in keys.iter_mut().zip(columns) {
            pg_sys::ScanKeyInit(
                key,
                column as pg_sys::AttrNumber,
                pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                pg_sys::Oid::from(pg_sys::F_OIDEQ),
                value.into(),
            );
        }
        let scan = pg_sys::systable_beginscan(
            classes.as_ptr(),
            pg_sys::Oid::from(pg_sys::ClassTblspcRelfilenodeIndexId),
            true,
            core::ptr::null_mut(),
            2,
            keys.as_mut_ptr(),
        );
        let found = !pg_sys::systable_getnext(scan).is_null();
        pg_sys::systable_endscan(scan);
        found
    }
}
