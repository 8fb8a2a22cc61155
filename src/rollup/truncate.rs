//! TRUNCATE of a source takes along what its rollups have stored, in the same transaction: it is not for snapshots in core, so
//! whoever reads with an older one finds neither rows nor buckets. Core tells of what the statement names before it asks who may and waits for a
//! lock, after which the name may be another table's: so it is noted then, and emptied at the statement's end. Where our library has come with the statement,
//! nobody was told of its beginning, nor is of its end: only of the table's new file. Then the rollups are emptied before the transaction commits.

use super::catalog;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag};
use crate::pg::open::Open;
use crate::pg::owner;
use crate::pg::snapshot;
use crate::pg::sql;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::{Oid, SubTransactionId};

thread_local! {
    /// What statements name that are to empty it, each with the part of the transaction that it runs in.
    static NAMED: PerTransaction<Vec<(Oid, SubTransactionId)>> = PerTransaction::default();
}

/// Notes what a statement names, or has emptied.
pub fn note(table: Oid) {
    let name = (table, transaction::part());
    NAMED.with_borrow_mut(|named| {
        if !named.contains(&name) {
            named.push(name);
        }
    });
}

/// A statement has run, and raised no error: empties what the rollups have stored of those tables that statements of this part of the transaction have
/// named, and locked. A part that was rolled back has left names, and no statement will have its number again.
pub fn empty_noted() {
    if NAMED.with_borrow(Vec::is_empty) {
        return;
    }
    let part = transaction::part();
    let own: Vec<Oid> = NAMED.with_borrow_mut(|named| {
        let own = named.extract_if(.., |(_, of)| *of == part);
        own.map(|(table, _)| table).collect()
    });
    for source in own.into_iter().filter(is_locked) {
        // SAFETY: the table has been emptied, and is locked.
        unsafe { empty(source) };
    }
}

/// The transaction is about to commit: the same for what is left, where the table's file is one that this transaction has made. It has none where the part that
/// has emptied it was rolled back.
pub fn empty_left() {
    for (source, _) in NAMED.take() {
        let is_emptied = is_locked(&source)
            && Open::existing_table(source, LockMode::Held)
                .is_some_and(|open| open.rel().has_new_file());
        if is_emptied {
            // SAFETY: the table has been emptied, and is locked.
            snapshot::with_latest(|_| unsafe { empty(source) });
        }
    }
}

fn is_locked(table: &Oid) -> bool {
    lock_tags::is_held(&Tag::table(*table), LockMode::AccessExclusive)
}

/// Empties what the rollups of a source have stored.
///
/// # Safety
/// Who calls has emptied the source, and has it locked.
unsafe fn empty(source: Oid) {
    // Whoever restores a dump empties each table before he fills it, and may have filled what the rollup stores.
    let refreshed = catalog::of_source(source)
        .into_iter()
        .filter(|rollup| !rollup.is_restored());
    for rollup in refreshed {
        // SAFETY: the right to empty the source is that to empty what is computed from it. Triggers are code of the rollup's owner.
        unsafe {
            let stored = Open::living_table(rollup.stored, LockMode::AccessExclusive);
            let name = stored.rel().qualified_name();
            owner::as_owner(stored.rel().owner(), move || {
                // Core insists that nobody uses what is emptied.
                drop(stored);
                sql::execute(&format!("TRUNCATE {name}"), &[]);
            });
        }
    }
}
