//! Room that replaced headers, their notes and delete maps leave. Heap prunes a page when somebody comes by, but tells the free space map nothing
//! of it, so the file would grow until VACUUM. A session remembers on which pages it has deleted such tuples, and returns to them the next time
//! that it replaces a header, when nobody sees the tuples any more.

use super::read::{self, Chunk};
use super::write::DELETE_MAP_BASE;
use crate::pg::free_space;
use crate::pg::horizon::Horizon;
use crate::pg::relation::Table;
use crate::pg::transaction;
use crate::pg::{Oid, TransactionId};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Replaced headers whose pages are remembered.
const MOST_REPLACED: usize = 16;
/// Pages that are looked at for one of them.
const MOST_PAGES: usize = 128;

/// What a transaction leaves when it commits.
struct Left {
    table: Oid,
    file: Oid,
    by: TransactionId,
    /// Ascending, each once.
    pages: Vec<u32>,
}

thread_local! {
    static LEFT: RefCell<VecDeque<Left>> = const { RefCell::new(VecDeque::new()) };
}

/// Remembers the pages of a header that this transaction has replaced, with its notes and, where that has gone with it, its delete map.
///
/// `table` must be open for writing, and the chunk's.
pub fn remember(table: Table<'_>, replaced: &Chunk, with_map: bool) {
    let map = &replaced.header.delete_map;
    let map = match with_map {
        true => read::section_pieces(table, replaced.header.chunk, DELETE_MAP_BASE, map),
        false => Ok(Vec::new()),
    };
    // What cannot be read leaves no room that is worth a search.
    let map = map.unwrap_or_default().into_iter().map(|piece| piece.block);
    let notes = replaced.notes.seen.iter().map(|note| note.tid.block);
    let mut pages: Vec<u32> = notes.chain(map).chain([replaced.tid.block]).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.truncate(MOST_PAGES);
    let left = Left {
        table: table.oid(),
        file: table.file_number(),
        by: transaction::id(),
        pages,
    };
    LEFT.with_borrow_mut(|all| {
        if all.len() >= MOST_REPLACED {
            all.pop_front();
        }
        all.push_back(left);
    });
}

/// Makes the room known that this session's earlier transactions have left in a table.
pub fn make_known(table: Table<'_>) {
    let (oid, file) = (table.oid(), table.file_number());
    let horizon = Horizon::of(table);
    let over = LEFT.with_borrow_mut(|all| {
        let is_over = |left: &Left| left.table == oid && horizon.is_behind(left.by);
        let at = all.iter().position(is_over)?;
        all.remove(at)
    });
    let Some(left) = over.filter(|left| left.file == file) else {
        return;
    };
    let (Some(&first), Some(&last)) = (left.pages.first(), left.pages.last()) else {
        return;
    };
    // Pages are pruned as by any reader; the map is a hint.
    for &page in &left.pages {
        if table.has_block(page) {
            free_space::prune(table, page);
        }
    }
    free_space::make_known(table, first..last + 1);
}
