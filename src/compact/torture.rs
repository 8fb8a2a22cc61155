//! Torture mode, for tests alone: what a transaction has put into the tail of tables, by whatever statement, is sealed by itself
//! when it commits. By then its triggers have run, and it reads nothing any more. Whoever waits for one of the rows follows it as
//! he would after compact. Rows that others have locked stay.

use super::seal;
use crate::catalog::layout;
use crate::chunk::encode;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::row_set::RowSet;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::write::Target;
use crate::guc;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::replication;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple::{self, Formed};
use crate::pg::Oid;
use crate::table::locks::{self, Mover};
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    /// Rows that this transaction has put into the tails of tables, by table and file.
    static WRITTEN: PerTransaction<BTreeMap<(u32, u32), BTreeSet<Tid>>> = PerTransaction::default();
}

/// Remembers a row of the tail that was written at `at`.
pub fn note(table: Table<'_>, at: Tid) {
    if guc::is_torture() {
        let key = (table.oid(), table.file_number());
        let key = (key.0.to_u32(), key.1.to_u32());
        WRITTEN.with_borrow_mut(|written| written.entry(key).or_default().insert(at));
    }
}

/// Seals what the transaction has written, which is about to commit.
pub fn seal() {
    let written = WRITTEN.take();
    if written.is_empty() {
        return;
    }
    // Rows of this very command could not be deleted, and toasted values are read by a snapshot.
    transaction::next_command();
    snapshot::with_that_of_transaction(|_| {
        for ((table, file), rows) in written {
            let oid = Oid::from(table);
            let Some(table) = Open::existing_table(oid, LockMode::RowExclusive) else {
                continue;
            };
            if table.rel().file_number().to_u32() == file {
                seal_rows(table.rel(), rows);
            }
        }
    });
}

fn seal_rows(table: Table<'_>, written: BTreeSet<Tid>) {
    // SAFETY: the table is open.
    unsafe {
        let layout = layout::of(table);
        if !seal::is_allowed(table, &layout) || replication::is_streamed(table) {
            return;
        }
        locks::begin_moving(table, Mover::Inserter);
        let target = Target::current(table);
        let mut rows = RowSet::new(table.descriptor());
        for at in written {
            if let Some(tuple) = living(table, at) {
                if seal::delete_row(table, tuple.tid(), target.command) {
                    rows.push_tuple(PageTuple::of(&*tuple.as_ptr()), table.descriptor());
                }
            }
        }
        if rows.rows > 0 {
            let (order, indexes) = (rows.order(&layout), SeriesIndexes::open(table));
            encode::write_fresh(&target, &rows, &order, &layout, &indexes);
        }
    }
}

/// A copy of the row at `at`, if this transaction has written it and not taken it away.
fn living(table: Table<'_>, at: Tid) -> Option<Formed> {
    // SAFETY: the page is pinned and locked while it is looked at.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned(at, table.blocks())?;
        let buffer = cursor.buffer();
        let mut found = item.to_heap_tuple(table.oid());
        let lives = cursor.locked(|_| {
            let now = Snapshot::now();
            classify(&item) == TupleKind::Row
                && transaction::is_current(tuple::xmin(item.header()))
                && now.sees(&mut found, buffer)
        });
        lives.then(|| Formed::copy(found))
    }
}
