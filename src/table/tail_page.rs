//! Which pages rows of the tail go to. Heap puts a row on any page that has room for it, and chunks leave a little on most of theirs: a thousand
//! rows would change hundreds of pages, all of which compact and VACUUM look at then. So a session goes on with a page that has
//! room for a piece, as long as there are such pages, and then with new ones. What smaller holes there are is left to headers and last pieces.
//! Heap is told where to begin; it chooses by itself where a page is full, so a row here and there goes to a small hole yet.

use crate::catalog::layout;
use crate::pg::free_space;
use crate::pg::heap;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::Oid;
use std::cell::Cell;
use varve_columns::tuple::header::BODY_BYTES;

/// A tuple's header and its line pointer.
const AROUND_BYTES: usize = 24 + 4;
/// What the largest storage tuple takes of a page.
const ROOM_BYTES: usize = BODY_BYTES + AROUND_BYTES;
/// So many pages of which the map says too much are looked at.
const LOOKS: usize = 16;

#[derive(Clone, Copy)]
struct Last {
    file: Oid,
    block: u32,
    /// The page is another one than was chosen: it has to be looked at.
    has_moved: bool,
    /// No page with room is known.
    is_full: bool,
}

thread_local! {
    /// Where this session's last row has gone, or its next one is to go.
    static LAST: Cell<Last> = const {
        Cell::new(Last { file: Oid::INVALID, block: 0, has_moved: false, is_full: false })
    };
}

/// Chooses the page for the next row, and returns the options to insert it with. Looks at a page where the rows before have gone to
/// another one than was chosen, and opens indexes for that: between two rows, not while one is entered.
pub fn choose(table: Table<'_>, options: i32) -> i32 {
    let mut last = LAST.get();
    if last.file != table.file_number() {
        return options;
    }
    if last.has_moved {
        last = next(table, last);
        LAST.set(last);
    }
    match last.is_full {
        true => options | heap::NEW_PAGES,
        false => options,
    }
}

/// A row has gone to a page.
pub fn note(table: Table<'_>, at: Tid) {
    let (last, file) = (LAST.get(), table.file_number());
    if (last.file, last.block) != (file, at.block) {
        LAST.set(Last {
            file,
            block: at.block,
            has_moved: true,
            is_full: false,
        });
    }
}

fn next(table: Table<'_>, last: Last) -> Last {
    let mut cursor = PageCursor::new(table);
    let wanted = table.page_room_for(ROOM_BYTES);
    let is_there = last.block < table.blocks();
    let has_room = is_there && free_bytes(&mut cursor, last.block) >= wanted;
    let (found, is_full) = match has_room {
        true => (Some(last.block), false),
        false if layout::can_get_chunks(table) => {
            let found = page_with_room(&mut cursor, table, wanted);
            (found, found.is_none())
        }
        // VACUUM may have cut the file off before the page.
        false => (Some(last.block).filter(|_| is_there), false),
    };
    if let Some(block) = found.filter(|_| !has_room) {
        table.fill_next(block);
    }
    Last {
        block: found.unwrap_or(last.block),
        has_moved: false,
        is_full,
        ..last
    }
}

fn page_with_room(cursor: &mut PageCursor, table: Table<'_>, wanted: usize) -> Option<u32> {
    let mut next = free_space::page_with(table, wanted);
    for _ in 0..LOOKS {
        let block = next?;
        let free = match block < table.blocks() {
            true => free_bytes(cursor, block),
            false => 0,
        };
        if free >= wanted {
            return next;
        }
        next = free_space::page_instead_of(table, block, free, wanted);
    }
    None
}

fn free_bytes(cursor: &mut PageCursor, block: u32) -> usize {
    cursor.go(block);
    cursor.locked(|page| page.free_bytes())
}
