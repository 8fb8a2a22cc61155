//! Pages for headers in a file that is longer than virtual TIDs reach: those that have room and a low line pointer, by the free space
//! map, which VACUUM keeps. No page is looked at twice by a transaction.

use crate::pg::error;
use crate::pg::free_space::FreeSpace;
use crate::pg::page::{Page, PageCursor};
use crate::pg::relation;
use crate::pg::transaction::{Access, PerTransaction};
use pgrx::pg_sys;
use std::collections::HashMap;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// A tuple's header and its line pointer, as heap counts them.
const AROUND_BYTES: usize = 24 + 4;

thread_local! {
    /// By file: no page below has room for a header.
    static NEXT: PerTransaction<HashMap<pg_sys::Oid, u32>> = PerTransaction::default();
}

/// The first page below `end` and not below `from` that can take a header of `bytes`, and makes it the one that heap tries first.
///
/// # Safety
/// `table` must be open for writing.
pub unsafe fn aim(table: pg_sys::Relation, bytes: usize, from: u32, end: u32) -> Option<u32> {
    // SAFETY: by contract; asking for the number of blocks has opened the file.
    unsafe {
        let file = relation::file_number(table);
        let known = NEXT.with_borrow(|next| next.get(&file).copied().unwrap_or(0));
        let end = end.min(relation::blocks(table));
        let room = bytes.next_multiple_of(8) + AROUND_BYTES + relation::kept_free_bytes(table);
        let found = find(table, known.max(from)..end, room);
        NEXT.with_borrow_mut(|next| next.insert(file, found.unwrap_or(end)));
        if let Some(block) = found {
            (*(*table).rd_smgr).smgr_targblock = block;
        }
        found
    }
}

unsafe fn find(table: pg_sys::Relation, blocks: std::ops::Range<u32>, room: usize) -> Option<u32> {
    // SAFETY: the caller's contract.
    let mut free_space = unsafe { FreeSpace::new(table) };
    let mut cursor = PageCursor::new(table);
    for block in blocks {
        error::check_interrupts();
        // The map counts in steps, and says a little less than there is.
        if free_space.of(block) + FreeSpace::STEP_BYTES < room {
            continue;
        }
        cursor.go(block);
        if cursor.locked(|page| page.free_bytes() >= room && has_low_pointer(page)) {
            return Some(block);
        }
    }
    None
}

/// Will the next tuple of a page have a line pointer that virtual TIDs can name? It gets the lowest that is not used.
fn has_low_pointer(page: &Page) -> bool {
    (1..=MAX_HEADER_OFFSET).any(|offset| !page.is_used(offset))
}
