//! Keys whose series index is dropped. Rows of the tail had their entries in that one alone (`am::unique::enter`), so the key's own btree is built again, with
//! entries of all of them: when the statement ends, or, where nobody of ours is told of that, before the transaction commits.

use super::{known, written_row};
use crate::catalog::keys;
use crate::catalog::layout;
use crate::pg::error::{self, Code};
use crate::pg::index_rebuild;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::relation_lookup;
use crate::pg::snapshot;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::Oid;

thread_local! {
    /// Tables that have lost such an index, and how many rows had been written then. What was rolled back is there again, and needs nothing.
    static BEREFT: PerTransaction<Vec<(Oid, u64)>> = PerTransaction::default();
}

/// Notes that an index is about to go, which is still there. Concurrently it cannot, where a key needs it: others enter keys meanwhile.
///
/// # Safety
/// Called by the object access hook: who drops an index has locked its table.
pub unsafe fn before_drop(index: Oid, concurrently: bool) {
    if relation_lookup::access_method(index) != Some(layout::index_am()) {
        return;
    }
    let table = relation_lookup::table_of_index(index);
    let Some(open) = table.and_then(|table| Open::existing_table(table, LockMode::Held)) else {
        return;
    };
    let keys = keys::of(open.rel());
    // SAFETY: the table is open.
    let has_chunks = unsafe { keys.has_chunks(open.rel()) };
    let mut needing = keys
        .unique
        .iter()
        .filter(|unique| unique.does_without_btree(has_chunks) && unique.hangs_on(index));
    let Some(unique) = needing.next() else {
        return;
    };
    if concurrently {
        let name = |oid: Oid| relation_lookup::name(oid).unwrap_or_default();
        error::raise(
            Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop index \"{}\" concurrently", name(index)),
            &format!(
                "Its entries are those of unique index \"{}\".",
                name(unique.index)
            ),
            "Drop it without CONCURRENTLY, or make another series index of the same columns first.",
        )
    }
    let lost = (open.rel().oid(), written_row::count());
    BEREFT.with_borrow_mut(|bereft| bereft.push(lost));
}

/// Builds the btrees of keys that no series index settles any more. It checks them where rows have been written meanwhile.
pub fn rebuild() {
    if BEREFT.with_borrow(Vec::is_empty) {
        return;
    }
    for (table, count) in BEREFT.take() {
        if relation_lookup::has_rows(table) {
            let trusts = count == written_row::count();
            snapshot::with_latest(|_| rebuild_of(table, trusts));
        }
    }
}

fn rebuild_of(table: Oid, trusts: bool) {
    let Some(open) = Open::existing_table(table, LockMode::Share) else {
        return;
    };
    let is_concerned = |&oid: &Oid| {
        let index = OpenIndex::open(oid, LockMode::AccessExclusive);
        let form = index.rel().form();
        layout::is_plain_key(index.rel()) && form.indisvalid && form.indimmediate
    };
    let keys = keys::of(open.rel());
    let unsettled = |unique: &&keys::Unique| unique.complete_companion().is_none();
    let left = keys.unique.iter().filter(unsettled);
    let left: Vec<Oid> = left
        .map(|unique| unique.index)
        .filter(is_concerned)
        .collect();
    for index in left {
        // SAFETY: the index is one of the table's, both are locked, and nothing of it is open.
        let build = || unsafe { index_rebuild::rebuild(open.rel(), index, trusts) };
        if trusts {
            known::while_built_again(build);
        } else {
            build();
        }
    }
}
