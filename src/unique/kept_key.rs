//! A row that an update has just written with the keys of the one that it replaces. That one was the only row of its keys, and
//! nobody else has had a chance to change that since it was locked: who wants to enter one of these keys waits for whoever changes
//! the row. So its keys need not be looked for in the chunks. btree settles them with the tail's, as ever.

use super::written_row;
use crate::pg::relation::{Index, Table};
use crate::pg::tid::Tid;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::Oid;

thread_local! {
    /// The row, and the count of rows with it.
    static WRITTEN: PerTransaction<Option<(Oid, Tid, u64)>> = PerTransaction::until_a_part_ends();
}

/// The row at `at` has the keys of the one that it replaces, which this transaction has locked to change it.
pub fn note(table: Table<'_>, at: Tid) {
    WRITTEN.replace(Some((table.oid(), at, written_row::count())));
}

/// Are the keys of the row at `at` those of the one that it replaces? Of a deferrable key there may be two rows, and of an index
/// that is not valid yet.
///
/// # Safety
/// `table` and its `index` must be open.
pub unsafe fn is_kept(table: Table<'_>, index: Index<'_>, at: Tid) -> bool {
    let form = index.form();
    let written = Some((table.oid(), at, written_row::count()));
    form.indimmediate && form.indisvalid && WRITTEN.with_borrow(|kept| *kept == written)
}
