//! Marks whose files are gone. A table is dropped with its mark by a session that has loaded the library; a session that has not,
//! and one that runs no hooks, leaves the mark. It does no harm, and goes here.

use super::chunk_marker::{marks_and_index, Marks};
use super::marker_file::File;
use crate::pg::catalogs;
use crate::pg::clock;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags;
use crate::pg::relation::Table;
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
    let now = clock::now();
    if SWEPT
        .get()
        .is_some_and(|then| now.saturating_sub(then) < EVERY_US)
    {
        return;
    }
    let Some((marks, _)) = marks_and_index() else {
        return;
    };
    if !lock_tags::try_lock_relation(marks, LockMode::ShareRowExclusive) {
        return;
    }
    SWEPT.set(Some(now));
    let Some(marks) = Marks::locked() else {
        return;
    };
    let mut gone = Vec::new();
    let classes = catalogs::open_classes();
    marks.each(None, |at, file| {
        error::check_interrupts();
        if !is_used(classes.rel(), &file) {
            gone.push(at);
        }
        true
    });
    gone.into_iter().for_each(|at| marks.delete_at(at));
}

/// Has any relation the file, or another one of its number?
fn is_used(classes: Table<'_>, file: &File) -> bool {
    catalogs::has_file(classes, file.tablespace, file.number)
}
