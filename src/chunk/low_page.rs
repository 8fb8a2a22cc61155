//! Pages for headers: those that have room and a low line pointer, by the free space map, which VACUUM keeps. One is looked for in all of a
//! file that is longer than virtual TIDs reach. Before another file grows, one is looked for near its end, and then among pages that are nearly
//! empty, wherever these are. No page is looked at twice by a transaction for the header of a chunk that has its pieces elsewhere.

use crate::pg::error;
use crate::pg::free_space::{self, FreeSpace};
use crate::pg::page::{Page, PageCursor};
use crate::pg::relation::Table;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::{Oid, BLCKSZ};
use std::collections::HashMap;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// A tuple's header and its line pointer, as heap counts them.
const AROUND_BYTES: usize = 24 + 4;

/// So many pages are near the end of a file: what a page of the map is about.
const NEAR_PAGES: u32 = 4096;
/// Of those so many are looked at for one header.
const NEAR_LOOKS: usize = 16;

/// Free bytes of a page that has a few short tuples at most: its low line pointers are free, too, as a rule.
const EMPTY_BYTES: usize = BLCKSZ as usize * 15 / 16;
/// So many of these pages are looked at.
const EMPTY_LOOKS: usize = 8;

thread_local! {
    /// By file: no page below has room for a header.
    static NEXT: PerTransaction<HashMap<Oid, u32>> = PerTransaction::default();
    /// The same of pages near the end.
    static NEXT_NEAR: PerTransaction<HashMap<Oid, u32>> = PerTransaction::default();
}

/// The first page below `end` and not below `from` that can take a header of `bytes`, and makes it the one that heap tries first.
pub fn aim(table: Table<'_>, bytes: usize, from: u32, end: u32) -> Option<u32> {
    let file = table.file_number();
    let known = NEXT.with_borrow(|next| next.get(&file).copied().unwrap_or(0));
    let end = end.min(table.blocks());
    let wanted = Wanted::of(table, &[bytes]);
    let (found, next) = find(table, known.max(from)..end, wanted, usize::MAX);
    NEXT.with_borrow_mut(|all| all.insert(file, next));
    if let Some(block) = found {
        table.fill_next(block);
    }
    found
}

/// The first page near the end of the file, and not below `from`, that can take a header of `bytes`, as `aim`, or one that is nearly empty. A few
/// pages are looked at.
pub fn aim_before_growing(table: Table<'_>, bytes: usize, from: u32) -> Option<u32> {
    let file = table.file_number();
    let known = NEXT_NEAR.with_borrow(|next| next.get(&file).copied().unwrap_or(0));
    let end = table.blocks();
    let near = known.max(from).max(end.saturating_sub(NEAR_PAGES))..end;
    let wanted = Wanted::of(table, &[bytes]);
    let (found, next) = find(table, near, wanted, NEAR_LOOKS);
    NEXT_NEAR.with_borrow_mut(|all| all.insert(file, next));
    let found = found.or_else(|| find_empty(table, wanted));
    if let Some(block) = found {
        table.fill_next(block);
    }
    found
}

/// Makes a page that can take tuples of `sizes` bytes, the last of which is a header, the one that heap tries first, as far as there is one:
/// the page that heap would try, one near the end of the file, or one that is nearly empty.
pub fn aim_together(table: Table<'_>, sizes: &[usize]) -> bool {
    let end = table.blocks();
    if end == 0 {
        return false;
    }
    let wanted = Wanted::of(table, sizes);
    let aimed = table.filled_next();
    // A session that has written nothing yet tries the last page.
    let aimed = if aimed < end { aimed } else { end - 1 };
    let mut cursor = PageCursor::new(table);
    cursor.go(aimed);
    let found = match cursor.locked(|page| wanted.fits(page)) {
        true => Some(aimed),
        false => {
            let near = end.saturating_sub(NEAR_PAGES)..end;
            let (found, _) = find(table, near, wanted, NEAR_LOOKS);
            found.or_else(|| find_empty(table, wanted))
        }
    };
    if let Some(block) = found {
        table.fill_next(block);
    }
    found.is_some()
}

/// Would heap put a header of `bytes` at too high a line pointer, on the page that it tries first?
pub fn is_aimed_too_high(table: Table<'_>, bytes: usize) -> bool {
    let blocks = table.blocks();
    let block = table.filled_next();
    if block >= blocks {
        return false;
    }
    let wanted = Wanted::of(table, &[bytes]);
    let mut cursor = PageCursor::new(table);
    cursor.go(block);
    cursor.locked(|page| page.free_bytes() >= wanted.room && !wanted.fits(page))
}

/// What a page must have for some tuples.
#[derive(Clone, Copy)]
struct Wanted {
    room: usize,
    /// Line pointers that virtual TIDs can name.
    low_pointers: usize,
}

impl Wanted {
    /// For tuples of `sizes` bytes, the last of which is a header.
    fn of(table: Table<'_>, sizes: &[usize]) -> Wanted {
        let (mut before, mut room) = (0, 0);
        for bytes in sizes {
            let bytes = bytes.next_multiple_of(8) + AROUND_BYTES;
            room = room.max(before + table.page_room_for(bytes));
            before += bytes;
        }
        Wanted {
            room,
            low_pointers: sizes.len(),
        }
    }

    /// The next tuples of a page get the lowest line pointers that are not used.
    fn fits(self, page: &Page) -> bool {
        let low = (1..=MAX_HEADER_OFFSET).filter(|&offset| !page.is_used(offset));
        page.free_bytes() >= self.room && low.take(self.low_pointers).count() == self.low_pointers
    }
}

/// The first of some pages that have what is wanted, and the one to go on with the next time, after so many `looks`.
fn find(
    table: Table<'_>,
    blocks: std::ops::Range<u32>,
    wanted: Wanted,
    mut looks: usize,
) -> (Option<u32>, u32) {
    let mut free_space = FreeSpace::default();
    let mut cursor = PageCursor::new(table);
    let end = blocks.end;
    for block in blocks {
        error::check_interrupts();
        // The map counts in steps, and says a little less than there is.
        if free_space.of(*table, block) + FreeSpace::STEP_BYTES < wanted.room {
            continue;
        }
        if looks == 0 {
            return (None, block);
        }
        looks -= 1;
        cursor.go(block);
        if cursor.locked(|page| wanted.fits(page)) {
            return (Some(block), block);
        }
    }
    (None, end)
}

/// A page that is nearly empty and has what is wanted. The map names another one each time that it is asked, so sessions do not meet on it; it is
/// told what is free on one that is not as empty as it says.
fn find_empty(table: Table<'_>, wanted: Wanted) -> Option<u32> {
    let least = EMPTY_BYTES.max(wanted.room);
    let mut cursor = PageCursor::new(table);
    let mut next = free_space::page_with(table, least);
    for _ in 0..EMPTY_LOOKS {
        let block = next?;
        // VACUUM may have cut the file off before the page.
        let (free, fits) = match table.has_block(block) {
            true => {
                cursor.go(block);
                cursor.locked(|page| (page.free_bytes(), wanted.fits(page)))
            }
            false => (0, false),
        };
        if fits {
            return next;
        }
        next = match free < least {
            true => free_space::page_instead_of(table, block, free, least),
            false => free_space::page_with(table, least),
        };
    }
    None
}
