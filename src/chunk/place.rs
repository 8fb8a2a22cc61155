//! Where compaction puts storage tuples: into the lowest holes of the table's file, so that its end runs
//! empty and can be cut off. Heap's own choice of a page is anywhere; so before each insert the page that
//! heap tries first is set. Full pieces go to the lowest page with room for one, and what is shorter
//! (headers, last pieces) into the room that pages of full pieces have left.

use crate::pg::error;
use crate::pg::free_space::FreeSpace;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::Oid;
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
    /// Line pointers that a header can have, and the next tuples get.
    low: u16,
}

struct State {
    table: Oid,
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
    pub fn begin(table: Table<'_>) -> LowFirst {
        let state = State {
            table: table.oid(),
            free_space: FreeSpace::default(),
            end: table.blocks(),
            next: 0,
            next_for_header: 0,
            reserved: None,
            last: None,
            rests: VecDeque::new(),
        };
        STATE.with_borrow_mut(|active| *active = Some(state));
        LowFirst
    }

    /// Is there room below page `cut` for the next chunk? Sets a page aside for its header then.
    ///
    /// # Safety
    /// `table` must be the one that it was begun with.
    pub unsafe fn reserve(&self, table: Table<'_>, sizes: Sizes, cut: u32) -> bool {
        let mut has_room = false;
        within(table, |state| {
            let mut cursor = PageCursor::new(table);
            state.reserved = None;
            state.reserved = state.page_for_header(&mut cursor, room(sizes.header), cut);
            has_room =
                state.reserved.is_some() && state.has_room_for_pieces(&mut cursor, sizes, cut);
        });
        has_room
    }
}

/// How long the storage tuples of a chunk are.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub header: usize,
    /// Pieces of the largest size.
    pub full_pieces: u64,
    /// The last piece, where it is shorter; else 0.
    pub last_piece: usize,
}

impl Drop for LowFirst {
    fn drop(&mut self) {
        STATE.with_borrow_mut(|active| *active = None);
    }
}

/// Is a `LowFirst` active for the table?
pub fn is_active(table: Table<'_>) -> bool {
    let mut is_active = false;
    within(table, |_| is_active = true);
    is_active
}

/// Makes heap try the best page for a storage tuple with a body of `bytes` first; a header needs a low
/// line pointer too. Does nothing where no `LowFirst` is active for the table.
pub fn aim(table: Table<'_>, bytes: usize, header: bool) {
    within(table, |state| {
        let mut cursor = PageCursor::new(table);
        let room = room(bytes);
        if header {
            if let Some(block) = state.reserved.take() {
                let (free, low) = look(&mut cursor, block);
                state.remember(block, free, low);
            }
        }
        let block = state
            .take_rest(&mut cursor, room, header)
            .or_else(|| match header {
                true => state.next_page_for_header(&mut cursor, room),
                false => state.next_page(&mut cursor),
            });
        if let Some(block) = block {
            table.fill_next(block);
        }
    });
}

/// Notes a page that was added to the table for a header.
pub fn added(table: Table<'_>, block: u32) {
    within(table, |state| {
        let (free, low) = look(&mut PageCursor::new(table), block);
        state.remember(block, free, low);
    });
}

/// Notes where heap has put a tuple.
pub fn placed(table: Table<'_>, bytes: usize, at: Tid) {
    within(table, |state| {
        let full = bytes == BODY_BYTES;
        match state.last {
            Some(last) if full && last != at.block => {
                let (free, low) = look(&mut PageCursor::new(table), last);
                state.remember(last, free, low);
                state.last = Some(at.block);
            }
            None if full => state.last = Some(at.block),
            _ => {}
        }
    });
}

/// What a tuple with a body of so many bytes takes of a page.
fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(8) + AROUND_BYTES
}

fn within(table: Table<'_>, body: impl FnOnce(&mut State)) {
    STATE.with_borrow_mut(|active| {
        let oid = table.oid();
        if let Some(state) = active.as_mut().filter(|state| state.table == oid) {
            body(state);
        }
    });
}

impl State {
    /// Takes room for a tuple of the remembered page that suits it best.
    fn take_rest(&mut self, cursor: &mut PageCursor, room: usize, header: bool) -> Option<u32> {
        let rest = self.find_rest(cursor, room, header, u32::MAX)?;
        self.remember(rest.block, rest.free - room, rest.low.saturating_sub(1));
        Some(rest.block)
    }

    /// The remembered page below `cut` that a tuple fills best. Pieces leave those alone that can take headers, as long as there are others:
    /// small ones would take all low line pointers.
    fn find_rest(
        &mut self,
        cursor: &mut PageCursor,
        room: usize,
        header: bool,
        cut: u32,
    ) -> Option<Rest> {
        let reserved = self.reserved;
        let fits = |rest: &Rest| {
            let is_free = reserved != Some(rest.block) && rest.block < cut;
            is_free && rest.free >= room && !(header && rest.low == 0)
        };
        while let Some(at) = (0..self.rests.len())
            .filter(|&at| fits(&self.rests[at]))
            .min_by_key(|&at| {
                let rest = &self.rests[at];
                (rest.low > 0, rest.free, core::cmp::Reverse(at))
            })
        {
            let block = self.rests[at].block;
            // Others insert too.
            let (free, low) = look(cursor, block);
            let now = Rest { block, free, low };
            if fits(&now) {
                return Some(now);
            }
            self.rests.remove(at);
            self.remember(block, free, low);
        }
        None
    }

    /// A page below `cut` that can take a header.
    fn page_for_header(&mut self, cursor: &mut PageCursor, room: usize, cut: u32) -> Option<u32> {
        if let Some(rest) = self.find_rest(cursor, room, true, cut) {
            return Some(rest.block);
        }
        self.seek_for_header(cursor, room)?;
        Some(self.next_for_header).filter(|&block| block < cut)
    }

    /// Is there room below `cut` for the next full piece and the last one?
    fn has_room_for_pieces(&mut self, cursor: &mut PageCursor, sizes: Sizes, cut: u32) -> bool {
        let wanted = match sizes.full_pieces {
            0 => room(sizes.last_piece),
            _ => ROOM_BYTES,
        };
        if self.find_rest(cursor, wanted, false, cut).is_some() {
            return true;
        }
        self.next_page(cursor);
        self.next < cut
    }

    /// The lowest page with room for a full piece, or the one where the last went.
    fn next_page(&mut self, cursor: &mut PageCursor) -> Option<u32> {
        while self.next < self.end {
            error::check_interrupts();
            let (free, low) = self.room_of(cursor, self.next, ROOM_BYTES);
            if free >= ROOM_BYTES && self.reserved != Some(self.next) {
                return Some(self.next);
            }
            if self.last != Some(self.next) {
                self.remember(self.next, free, low);
            }
            self.next += 1;
        }
        self.last
    }

    /// Free bytes and low line pointers of a page. One that has less than `wanted` is not read: the map says how much that is, and all low line
    /// pointers are free as far as anybody knows. Who takes it looks first.
    fn room_of(&mut self, cursor: &mut PageCursor, block: u32, wanted: usize) -> (usize, u16) {
        match self.free_space.of(cursor.relation(), block) {
            free if free < REST_BYTES || free + UNKNOWN_BYTES < wanted => (free, MAX_HEADER_OFFSET),
            _ => look(cursor, block),
        }
    }

    /// The lowest page with room and a low line pointer for a header; it is remembered with what the header leaves.
    fn next_page_for_header(&mut self, cursor: &mut PageCursor, room: usize) -> Option<u32> {
        let (free, low) = self.seek_for_header(cursor, room)?;
        self.remember(self.next_for_header, free - room, low - 1);
        Some(self.next_for_header)
    }

    /// Goes up to a page that can take a header of `room` bytes; its free bytes and low line pointers.
    fn seek_for_header(&mut self, cursor: &mut PageCursor, room: usize) -> Option<(usize, u16)> {
        while self.next_for_header < self.end {
            error::check_interrupts();
            let block = self.next_for_header;
            let (free, low) = self.room_of(cursor, block, room);
            if low > 0 {
                if free >= room {
                    return Some((free, low));
                }
                self.remember(block, free, low);
            }
            self.next_for_header += 1;
        }
        None
    }

    fn remember(&mut self, block: u32, free: usize, low: u16) {
        if free < REST_BYTES {
            return;
        }
        self.rests.retain(|rest| rest.block != block);
        if self.rests.len() == RESTS {
            self.rests.pop_front();
        }
        self.rests.push_back(Rest { block, free, low });
    }
}

/// Free bytes of a page, and how many line pointers it has that a header can have.
fn look(cursor: &mut PageCursor, block: u32) -> (usize, u16) {
    cursor.go(block);
    cursor.locked(|page| {
        let low = (1..=MAX_HEADER_OFFSET).filter(|&offset| !page.is_used(offset));
        (page.free_bytes(), low.count() as u16)
    })
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
pub struct Rooms<'a> {
    free_space: FreeSpace,
    cursor: PageCursor<'a>,
}

impl<'a> Rooms<'a> {
    /// # Safety
    /// `table` must stay open while the value is used.
    pub fn new(table: Table<'a>) -> Rooms<'a> {
        Rooms {
            free_space: FreeSpace::default(),
            cursor: PageCursor::new(table),
        }
    }

    pub fn of(&mut self, block: u32) -> Room {
        error::check_interrupts();
        let bytes = self.free_space.of(self.cursor.relation(), block);
        Room {
            full: (bytes / ROOM_BYTES) as u64,
            bytes: if bytes < REST_BYTES { 0 } else { bytes as u64 },
        }
    }

    /// How many headers of so many bytes a page can take: low line pointers are what pages of many small tuples lack.
    pub fn headers_of(&mut self, block: u32, bytes: usize) -> usize {
        if self.of(block).bytes == 0 {
            return 0;
        }
        let (free, low) = look(&mut self.cursor, block);
        usize::from(low).min(free / room(bytes))
    }
}
