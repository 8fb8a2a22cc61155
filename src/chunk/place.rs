//! Where compaction puts storage tuples: into the lowest holes of the table's file, so that its end runs
//! empty and can be cut off. Heap's own choice of a page is anywhere; so before each insert the page that
//! heap tries first is set. Full pieces go to the lowest page with room for one, and what is shorter
//! (headers, last pieces) into the room that pages of full pieces have left.

use crate::pg::error;
use crate::pg::free_space::FreeSpace;
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
/// The map may say that a page has so much less room than it has: its unit, and a line pointer.
const UNKNOWN_BYTES: usize = FreeSpace::STEP_BYTES + 4;
/// Pages with a rest of room that are remembered.
const RESTS: usize = 256;

/// A page with less room than a full piece needs.
#[derive(Clone, Copy)]
struct Rest {
    block: u32,
    free: usize,
    pointers: u16,
}

struct State {
    table: pg_sys::Oid,
    free_space: FreeSpace,
    end: u32,
    /// No page below has room for a full piece.
    next: u32,
    /// No page below has room and a low line pointer for a header, but those that are remembered.
    next_for_header: u32,
    /// A page that pieces leave to the next header.
    reserved: Option<u32>,
    /// Where the last full piece went.
    last: Option<u32>,
    /// Newest last.
    rests: VecDeque<Rest>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// While it lives, storage tuples of one table are placed on the lowest pages with room that the table had when it began.
pub struct LowFirst;

impl LowFirst {
    /// # Safety
    /// `table` must be open.
    pub unsafe fn begin(table: pg_sys::Relation) -> LowFirst {
        // SAFETY: by contract.
        let state = unsafe {
            State {
                table: relation::oid(table),
                free_space: FreeSpace::new(table),
                end: relation::blocks(table),
                next: 0,
                next_for_header: 0,
                reserved: None,
                last: None,
                rests: VecDeque::new(),
            }
        };
        STATE.with_borrow_mut(|active| *active = Some(state));
        LowFirst
    }

    /// Sets a page aside for the header of the next chunk; returns the higher one of that page and of the one where a full
    /// piece goes next.
    ///
    /// # Safety
    /// `table` must be the one that it was begun with.
    pub unsafe fn reserve(&self, table: pg_sys::Relation) -> u32 {
        let mut block = u32::MAX;
        within(table, |state| {
            let mut cursor = PageCursor::new(table);
            let found = state.seek_for_header(&mut cursor, ROOM_BYTES);
            state.reserved = found.map(|_| state.next_for_header);
            state.next_page(&mut cursor);
            block = state.next.max(state.next_for_header);
        });
        block
    }
}

impl Drop for LowFirst {
    fn drop(&mut self) {
        STATE.with_borrow_mut(|active| *active = None);
    }
}

/// Is a `LowFirst` active for the table?
pub fn is_active(table: pg_sys::Relation) -> bool {
    let mut is_active = false;
    within(table, |_| is_active = true);
    is_active
}

/// Makes heap try the best page for a storage tuple with a body of `bytes` first; a header needs a low
/// line pointer too. Does nothing where no `LowFirst` is active for the table.
pub fn aim(table: pg_sys::Relation, bytes: usize, header: bool) {
    within(table, |state| {
        let mut cursor = PageCursor::new(table);
        let room = bytes.next_multiple_of(8) + AROUND_BYTES;
        if header {
            if let Some(block) = state.reserved.take() {
                let (free, pointers) = look(&mut cursor, block);
                state.remember(block, free, pointers);
            }
        }
        let block = state
            .take_rest(&mut cursor, room, header)
            .or_else(|| match header {
                true => state.next_page_for_header(&mut cursor, room),
                false => state.next_page(&mut cursor),
            });
        if let Some(block) = block {
            // SAFETY: the file was opened by reading from it, or by an insertion.
            unsafe { (*(*table).rd_smgr).smgr_targblock = block };
        }
    });
}

/// Notes a page that was added to the table for a header.
pub fn added(table: pg_sys::Relation, block: u32) {
    within(table, |state| {
        let (free, pointers) = look(&mut PageCursor::new(table), block);
        state.remember(block, free, pointers);
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
        let reserved = self.reserved;
        let fits = |rest: &Rest| {
            rest.free >= room
                && reserved != Some(rest.block)
                && !(header && rest.pointers >= MAX_HEADER_OFFSET)
        };
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
            self.remember(rest.block, free, pointers);
        }
        None
    }

    /// The lowest page with room for a full piece, or the one where the last went.
    fn next_page(&mut self, cursor: &mut PageCursor) -> Option<u32> {
        while self.next < self.end {
            error::check_interrupts();
            let (free, pointers) = self.room_of(cursor, self.next, ROOM_BYTES);
            if free >= ROOM_BYTES && self.reserved != Some(self.next) {
                return Some(self.next);
            }
            if self.last != Some(self.next) {
                self.remember(self.next, free, pointers);
            }
            self.next += 1;
        }
        self.last
    }

    /// Free bytes and line pointers of a page. One that has less than `wanted` is not read: the map says how much that is, and there is no
    /// line pointer as far as anybody knows. Who takes it looks first.
    fn room_of(&mut self, cursor: &mut PageCursor, block: u32, wanted: usize) -> (usize, u16) {
        match self.free_space.of(block) {
            free if free < REST_BYTES || free + UNKNOWN_BYTES < wanted => (free, 0),
            _ => look(cursor, block),
        }
    }

    /// The lowest page with room and a low line pointer for a header; it is remembered with what the header leaves.
    fn next_page_for_header(&mut self, cursor: &mut PageCursor, room: usize) -> Option<u32> {
        let (free, pointers) = self.seek_for_header(cursor, room)?;
        self.remember(self.next_for_header, free - room, pointers + 1);
        Some(self.next_for_header)
    }

    /// Goes up to a page that can take a header of `room` bytes; its free bytes and line pointers.
    fn seek_for_header(&mut self, cursor: &mut PageCursor, room: usize) -> Option<(usize, u16)> {
        while self.next_for_header < self.end {
            error::check_interrupts();
            let block = self.next_for_header;
            let (free, pointers) = self.room_of(cursor, block, room);
            if pointers < MAX_HEADER_OFFSET {
                if free >= room {
                    return Some((free, pointers));
                }
                self.remember(block, free, pointers);
            }
            self.next_for_header += 1;
        }
        None
    }

    fn remember(&mut self, block: u32, free: usize, pointers: u16) {
        if free < REST_BYTES {
            return;
        }
        self.rests.retain(|rest| rest.block != block);
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

/// Room for storage tuples.
#[derive(Clone, Copy, Default)]
pub struct Room {
    /// How many of the largest size.
    pub full: u64,
    /// Bytes for smaller ones.
    pub bytes: u64,
}

/// The room that pages have by the free space map, asked for one after the other.
pub struct Rooms(FreeSpace);

impl Rooms {
    /// # Safety
    /// `table` must stay open while the value is used.
    pub unsafe fn new(table: pg_sys::Relation) -> Rooms {
        // SAFETY: by contract.
        Rooms(unsafe { FreeSpace::new(table) })
    }

    pub fn of(&mut self, block: u32) -> Room {
        error::check_interrupts();
        let bytes = self.0.of(block);
        Room {
            full: (bytes / ROOM_BYTES) as u64,
            bytes: if bytes < REST_BYTES { 0 } else { bytes as u64 },
        }
    }
}
