//! The free space map of a table: asking it for a page, as heap does, and reading it page by page, as freespace.c lays it out. A leaf page of the map has a tree of bytes, whose
//! leaves say how much is free on some four thousand pages of the table, in steps of 32 bytes.

use super::page::MOST_TUPLE_BYTES;
use super::relation::{Relation, Table};
use core::ops::Range;
use pgrx::pg_sys;

const BLOCK_BYTES: usize = pg_sys::BLCKSZ as usize;
const PAGE_HEADER_BYTES: usize = 24;
/// Where the tree begins on a page: behind fp_next_slot.
const TREE_AT: usize = PAGE_HEADER_BYTES + 4;
const NODES: usize = BLOCK_BYTES - TREE_AT;
const INNER_NODES: usize = BLOCK_BYTES / 2 - 1;
const LEAVES: usize = NODES - INNER_NODES;
/// Levels of pages in the map.
const DEPTH: u32 = 3;

/// What the map says, a page of it at a time. It may be out of date: look at the page before you rely on it.
#[derive(Default)]
pub struct FreeSpace {
    /// Number of a leaf page, and its leaves.
    kept: Option<(u32, Vec<u8>)>,
}

impl FreeSpace {
    /// The map's unit.
    pub const STEP_BYTES: usize = BLOCK_BYTES / 256;

    /// Free bytes of a page of the table, at least: of the same table at each call.
    pub fn of(&mut self, table: Relation, block: u32) -> usize {
        let (page, leaf) = (block / LEAVES as u32, block as usize % LEAVES);
        if self.kept.as_ref().is_none_or(|kept| kept.0 != page) {
            self.kept = Some((page, read(table, page)));
        }
        let leaves = self.kept.as_ref().map_or(&[][..], |kept| &kept.1);
        leaves
            .get(leaf)
            .map_or(0, |&step| usize::from(step) * Self::STEP_BYTES)
    }
}

/// A page of which the map says that `bytes` are free on it; it is another one for each session that asks. No page has more than the largest tuple takes, and to
/// ask for that is an error of the server's.
pub fn page_with(table: Table<'_>, bytes: usize) -> Option<u32> {
    if bytes > MOST_TUPLE_BYTES {
        return None;
    }
    // SAFETY: the table is open.
    let block = unsafe { pg_sys::GetPageWithFreeSpace(table.as_ptr(), bytes) };
    (block != pg_sys::InvalidBlockNumber).then_some(block)
}

/// The same of so many `bytes` as `page_with` was asked for, after the map was told that no more than `free` bytes are on the page `block`.
pub fn page_instead_of(table: Table<'_>, block: u32, free: usize, bytes: usize) -> Option<u32> {
    // SAFETY: the table is open.
    let next = unsafe { pg_sys::RecordAndGetPageWithFreeSpace(table.as_ptr(), block, free, bytes) };
    (next != pg_sys::InvalidBlockNumber).then_some(next)
}

/// Frees what nobody can see any more on a page of a table, as a reader that comes by does, and tells the map how much is free there now. There must
/// be such a page.
pub fn prune(table: Table<'_>, block: u32) {
    const SHARE: i32 = pg_sys::BUFFER_LOCK_SHARE as i32;
    const UNLOCK: i32 = pg_sys::BUFFER_LOCK_UNLOCK as i32;
    // SAFETY: the table is open; the page is pinned.
    unsafe {
        let buffer = pg_sys::ReadBuffer(table.as_ptr(), block);
        pg_sys::heap_page_prune_opt(table.as_ptr(), buffer);
        pg_sys::LockBuffer(buffer, SHARE);
        let free = pg_sys::PageGetHeapFreeSpace(pg_sys::BufferGetPage(buffer));
        pg_sys::LockBuffer(buffer, UNLOCK);
        pg_sys::ReleaseBuffer(buffer);
        pg_sys::RecordPageWithFreeSpace(table.as_ptr(), block, free);
    }
}

/// Lets who asks the map for a page find what it was told of some pages.
pub fn make_known(table: Table<'_>, blocks: Range<u32>) {
    // SAFETY: the table is open.
    unsafe { pg_sys::FreeSpaceMapVacuumRange(table.as_ptr(), blocks.start, blocks.end) }
}

/// The leaves of a page; none where the map is shorter.
fn read(table: Relation, page: u32) -> Vec<u8> {
    const SHARE: i32 = pg_sys::BUFFER_LOCK_SHARE as i32;
    const UNLOCK: i32 = pg_sys::BUFFER_LOCK_UNLOCK as i32;
    let fork = pg_sys::ForkNumber::FSM_FORKNUM;
    // SAFETY: the table is open; asking for the number of blocks opens the file.
    unsafe {
        table.blocks();
        let at = place_of(page);
        if !pg_sys::smgrexists((*table.as_ptr()).rd_smgr, fork)
            || at >= pg_sys::RelationGetNumberOfBlocksInFork(table.as_ptr(), fork)
        {
            return Vec::new();
        }
        let mode = pg_sys::ReadBufferMode::RBM_ZERO_ON_ERROR;
        let none = core::ptr::null_mut();
        let buffer = pg_sys::ReadBufferExtended(table.as_ptr(), fork, at, mode, none);
        pg_sys::LockBuffer(buffer, SHARE);
        let data: *const u8 = pg_sys::BufferGetPage(buffer).cast();
        let leaves = core::slice::from_raw_parts(data.add(TREE_AT + INNER_NODES), LEAVES);
        let leaves = leaves.to_vec();
        pg_sys::LockBuffer(buffer, UNLOCK);
        pg_sys::ReleaseBuffer(buffer);
        leaves
    }
}

/// Block of the map's file that has a leaf page: each page that leads to others comes before the first of them.
fn place_of(page: u32) -> u32 {
    let (mut before, mut number) = (0, page);
    for _ in 0..DEPTH {
        before += number + 1;
        number /= LEAVES as u32;
    }
    before - 1
}
