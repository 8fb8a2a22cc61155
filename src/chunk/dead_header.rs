//! Headers that nobody can see any more, whose index entries need not be read again. A chunk of which single rows are changed leaves one
//! behind with every some forty changes, until VACUUM.

use super::tuple_kind::{classify, TupleKind};
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;

/// Is the header that an index entry names dead to all snapshots? The answer may be no where it is yes.
///
/// # Safety
/// `table` must be open, and the entry's page pinned: so the place is not used for anything else meanwhile.
pub unsafe fn is_dead(table: Table<'_>, header: Tid) -> bool {
    // SAFETY: by contract; the page is pinned, and locked while its tuple is looked at.
    unsafe {
        if !table.has_block(header.block) {
            return false;
        }
        let mut cursor = PageCursor::new(table);
        cursor.go(header.block);
        cursor.locked(|page| match page.tuple(header.offset) {
            Some(item) => classify(&item) == TupleKind::Header && cursor.is_surely_dead(item),
            // Its tuple was pruned away; the line pointer stays until VACUUM has removed the entries.
            None => page.is_dead(header.offset),
        })
    }
}
