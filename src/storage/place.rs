//! Where compaction puts storage tuples: into the lowest holes of the table's file, so that its end runs
//! empty and can be cut off. Heap's own choice of a page is anywhere; so before each insert the page that
//! heap tries first is set to the next one with room.

use crate::pg::page::PageCursor;
use crate::pg::relation;
use pgrx::pg_sys;
use std::cell::RefCell;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// Room that the largest storage tuple needs, its line pointer included.
const ROOM_BYTES: usize = 2032 + 4;
/// How far ahead a page with free low line pointers is looked for.
const HEADER_SEARCH: u32 = 64;

struct State {
    table: pg_sys::Oid,
    next: u32,
    end: u32,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// While it lives, storage tuples of one table are placed below page `end` where there is room.
pub struct LowFirst;

impl LowFirst {
    /// # Safety
    /// `table` must be open.
    pub unsafe fn begin(table: pg_sys::Relation, end: u32) -> LowFirst {
        // SAFETY: by contract.
        let state = unsafe {
            State {
                table: relation::oid(table),
                next: 0,
                end: end.min(relation::blocks(table)),
            }
        };
        STATE.with_borrow_mut(|active| *active = Some(state));
        LowFirst
    }

    /// True when there is no room left below the end.
    pub fn is_full(&self) -> bool {
        STATE.with_borrow(|active| active.as_ref().is_none_or(|state| state.next >= state.end))
    }
}

impl Drop for LowFirst {
    fn drop(&mut self) {
        STATE.with_borrow_mut(|active| *active = None);
    }
}

/// Makes heap try the lowest page with room for a storage tuple first; a header needs a low line
/// pointer too. Does nothing where no `LowFirst` is active for the table.
pub fn aim(table: pg_sys::Relation, header: bool) {
    STATE.with_borrow_mut(|active| {
        // SAFETY: callers are about to insert into the open table.
        let Some(state) = active
            .as_mut()
            .filter(|state| state.table == unsafe { relation::oid(table) })
        else {
            return;
        };
        let mut cursor = PageCursor::new(table);
        while state.next < state.end && free_bytes(table, &mut cursor, state.next).0 < ROOM_BYTES {
            state.next += 1;
        }
        let mut block = state.next;
        if header {
            let stop = state.end.min(block + HEADER_SEARCH);
            block = (block..stop)
                .find(|&block| {
                    let (free, pointers) = free_bytes(table, &mut cursor, block);
                    free >= ROOM_BYTES && pointers < MAX_HEADER_OFFSET
                })
                .unwrap_or(block);
        }
        if block < state.end {
            // SAFETY: the file was opened by reading from it.
            unsafe { (*(*table).rd_smgr).smgr_targblock = block };
        }
    });
}

/// Free bytes of a page and the number of its line pointers; nothing where the free space map says so.
fn free_bytes(table: pg_sys::Relation, cursor: &mut PageCursor, block: u32) -> (usize, u16) {
    // SAFETY: the table is open.
    if unsafe { pg_sys::GetRecordedFreeSpace(table, block) } < 2032 {
        return (0, 0);
    }
    cursor.go(block);
    cursor.locked(|page| (page.free_bytes(), page.line_pointers()))
}

/// Bytes below page `end` that storage tuples can fill, by the free space map.
///
/// # Safety
/// `table` must be open.
pub unsafe fn room_below(table: pg_sys::Relation, end: u32) -> u64 {
    (0..end)
        .map(|block| {
            // SAFETY: by contract.
            let free = unsafe { pg_sys::GetRecordedFreeSpace(table, block) };
            (free / 2032 * 2032) as u64
        })
        .sum()
}
