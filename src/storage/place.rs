//! Where compaction puts storage tuples: into the lowest holes of the table's file, so that its end runs
//! empty and can be cut off. Heap's own choice of a page is anywhere; so before each insert the page that
//! heap tries first is set. Full pieces go to the lowest page with room for one, and what is shorter
//! (headers, last pieces) into the room that pages of full pieces have left.

use crate::pg::error;
use crate::pg::page::PageCursor;
use crate::pg::relation;
use crate::pg::tid::Tid;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::VecDeque;
use varve_columns::tuple::header::BODY_BYTES;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// A tuple's header and its line pointer.
const AROUND_BYTES: usize = 24 + 4;
/// Room that the largest storage tuple needs.
const ROOM_BYTES: usize = BODY_BYTES + AROUND_BYTES;
/// Less room than this is not worth remembering.
const REST_BYTES: usize = 256;
/// Pages with a rest of room that are remembered.
const RESTS: usize = 64;

/// A page with less room than a full piece needs.
#[derive(Clone, Copy)]
struct Rest {
    block: u32,
    free: usize,
    pointers: u16,
}

struct State {
    table: pg_sys::Oid,
    next: u32,
    end: u32,
    /// Where the last full piece went.
    last: Option<u32>,
    /// Newest last.
    rests: VecDeque<Rest>,
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
                last: None,
                rests: VecDeque::new(),
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

/// Makes heap try the best page for a storage tuple with a body of `bytes` first; a header needs a low
/// line pointer too. Does nothing where no `LowFirst` is active for the table.
pub fn aim(table: pg_sys::Relation, bytes: usize, header: bool) {
    within(table, |state| {
        let mut cursor = PageCursor::new(table);
        let room = bytes.next_multiple_of(8) + AROUND_BYTES;
        let block = match state.take_rest(&mut cursor, room, header) {
            Some(block) => Some(block),
            None => state.next_page(table, &mut cursor),
        };
        if let Some(block) = block {
            // SAFETY: the file was opened by reading from it, or by an insertion.
            unsafe { (*(*table).rd_smgr).smgr_targblock = block };
        }
    });
}

/// Notes where heap has put a tuple.
pub fn placed(table: pg_sys::Relation, bytes: usize, at: Tid) {
    within(table, |state| {
        let full = bytes == BODY_BYTES;
        match state.last {
            Some(last) if full && last != at.block => {
                let (free, pointers) = look(&mut PageCursor::new(table), last);
                state.remember(last, free, pointers);
                state.last = Some(at.block);
            }
            None if full => state.last = Some(at.block),
            _ => {}
        }
    });
}

fn within(table: pg_sys::Relation, body: impl FnOnce(&mut State)) {
    STATE.with_borrow_mut(|active| {
        // SAFETY: callers insert into the open table.
        let oid = unsafe { relation::oid(table) };
        if let Some(state) = active.as_mut().filter(|state| state.table == oid) {
            body(state);
        }
    });
}

impl State {
    /// The remembered page that a tuple fills best.
    fn take_rest(&mut self, cursor: &mut PageCursor, room: usize, header: bool) -> Option<u32> {
        let fits =
            |rest: &Rest| rest.free >= room && !(header && rest.pointers >= MAX_HEADER_OFFSET);
        while let Some(at) = (0..self.rests.len())
            .filter(|&at| fits(&self.rests[at]))
            .min_by_key(|&at| (self.rests[at].free, core::cmp::Reverse(at)))
        {
            let rest = self.rests.remove(at).expect("BUG: no such page");
            // Others insert too.
            let (free, pointers) = look(cursor, rest.block);
            let now = Rest {
                free,
                pointers,
                ..rest
            };
            if fits(&now) {
                self.remember(rest.block, free - room, pointers + 1);
                return Some(rest.block);
            }
        }
        None
    }

    /// The lowest page with room for a full piece, or the one where the last went.
    fn next_page(&mut self, table: pg_sys::Relation, cursor: &mut PageCursor) -> Option<u32> {
        while self.next < self.end {
            error::check_interrupts();
            // SAFETY: the table is open.
            let recorded = unsafe { pg_sys::GetRecordedFreeSpace(table, self.next) };
            if recorded >= REST_BYTES {
                let (free, pointers) = look(cursor, self.next);
                if free >= ROOM_BYTES {
                    return Some(self.next);
                }
                if self.last != Some(self.next) {
                    self.remember(self.next, free, pointers);
                }
            }
            self.next += 1;
        }
        self.last
    }

    fn remember(&mut self, block: u32, free: usize, pointers: u16) {
        if free < REST_BYTES {
            return;
        }
        if self.rests.len() == RESTS {
            self.rests.pop_front();
        }
        self.rests.push_back(Rest {
            block,
            free,
            pointers,
        });
    }
}

/// Free bytes of a page and the number of its line pointers.
fn look(cursor: &mut PageCursor, block: u32) -> (usize, u16) {
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
            error::check_interrupts();
            // SAFETY: by contract.
            let free = unsafe { pg_sys::GetRecordedFreeSpace(table, block) };
            (free / 2032 * 2032) as u64
        })
        .sum()
}
