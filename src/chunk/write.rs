//! Writing chunks: pieces first, then the header that names them. Everything goes through
//! `heap_insert` and `heap_delete`, so WAL, visibility and free space are heap's.

use super::low_page;
use super::notes::Note;
use super::place;
use super::read::Chunk;
use crate::guc;
use crate::pg::error::{self, Code};
use crate::pg::news;
use crate::pg::relation::Table;
use crate::pg::replication::UnidentifiedChanges;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple::BareTuple;
use crate::pg::{activity, heap, page};
use crate::pg::{CommandId, TM_Result};
use std::cell::Cell;
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{self, Header, Piece, Section, BODY_BYTES, PIECE_BYTES};
use varve_columns::tuple::note;
use varve_columns::tuple::runs::Pieces;
use varve_columns::tuple::statics::Statics;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// Piece numbers of spilled sections start here; each depth has numbers of its own.
pub const STATICS_BASE: u32 = 0x4000_0000;
pub const DELETE_MAP_BASE: u32 = 0x8000_0000;
pub const DEPTH_STEP: u32 = 0x0100_0000;
/// What the fixed part of a header and two section heads can take.
pub const HEADER_ROOM: usize = BODY_BYTES - 45 - 24;
/// What the static section leaves for the area, for slots and for later delete maps.
pub const DELETE_MAP_ROOM: usize = 320;
/// What slots leave for it.
const LEAST_DELETE_MAP_ROOM: usize = 36;

/// What a header has left for its delete map.
pub fn delete_map_room(header: &Header) -> usize {
    HEADER_ROOM - header.statics.encoded_len() - header.area.encoded_len() - header.slot_bytes()
}

/// The slots of a header whose static section and area are known: as many as leave room for a delete map in pieces.
pub fn empty_slots(header: &Header) -> Vec<u8> {
    let taken = header.statics.encoded_len() + header.area.encoded_len() + LEAST_DELETE_MAP_ROOM;
    let room = HEADER_ROOM.saturating_sub(taken + 1) / note::SLOT_BYTES;
    let mut slots = note::empty_slots(header.rows);
    slots.truncate(room * note::SLOT_BYTES);
    slots
}

/// The slots of a header that takes the place of one that names notes, beside a delete map of `map_bytes` inside it: `least` of them at least, which
/// the other had, too. They are more than those of a chunk that has not changed, since whoever changed single rows will change others, and each
/// header costs entries in the indexes; but no more than leave room for the delete map, as long as there is room for that.
fn slots_of_next(header: &Header, map_bytes: usize, least: usize) -> Vec<u8> {
    let first = empty_slots(header).len() / note::SLOT_BYTES;
    let taken = header.statics.encoded_len() + header.area.encoded_len() + 1;
    let room = |for_map: usize| HEADER_ROOM.saturating_sub(taken + for_map) / note::SLOT_BYTES;
    let beside = room(map_bytes.max(LEAST_DELETE_MAP_ROOM));
    let most = if beside >= first {
        beside
    } else {
        room(DELETE_MAP_ROOM)
    };
    let wanted = note::slots_of_changed(header.rows);
    vec![0; most.min(wanted).max(first).max(least) * note::SLOT_BYTES]
}

/// The slots of a header that is copied with so many notes.
pub fn slots_for(header: &Header, notes: usize) -> Vec<u8> {
    let mut slots = empty_slots(header);
    slots.resize(slots.len().max(notes * note::SLOT_BYTES), 0);
    slots
}

/// What the static section of a header leaves for others, where that names so many notes.
pub fn room_beside_notes(header: &Header, notes: usize) -> usize {
    let of_notes = 1 + notes * note::SLOT_BYTES;
    let others = header.area.encoded_len() + of_notes + LEAST_DELETE_MAP_ROOM;
    DELETE_MAP_ROOM.max(others)
}

thread_local! {
    static HEADERS_WRITTEN: Cell<u64> = const { Cell::new(0) };
    static BYTES_WRITTEN: Cell<u64> = const { Cell::new(0) };
}

/// A row of the tail was written at `at`, which must not be what a compressed row is called.
pub fn expect_real(table: Table<'_>, at: Tid) {
    if at.is_virtual() {
        let name = table.name();
        error::raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("no place for a row in table \"{name}\""),
            "A varve table holds rows in its first 2,147,483,648 pages only.",
            "Partition the table.",
        )
    }
}

/// Counts the headers that this process has written.
pub fn headers_written() -> u64 {
    HEADERS_WRITTEN.get()
}

/// Counts the bytes of headers, pieces and notes that this process has written, without their tuple headers.
pub fn bytes_written() -> u64 {
    BYTES_WRITTEN.get()
}

/// Pages below these were tried for a header.
#[derive(Default)]
struct Tried {
    near_end: u32,
    anywhere: u32,
}

/// Where and as what a chunk is written.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub table: Table<'a>,
    pub command: CommandId,
    /// `HEAP_INSERT_*` options of the statement, such as frozen.
    pub options: i32,
}

impl<'a> Target<'a> {
    /// Target for the current command, without options.
    ///
    /// `table` must be open with a lock that allows writing, inside a transaction.
    pub fn current(table: Table<'a>) -> Self {
        Target {
            table,
            command: transaction::command(true),
            options: 0,
        }
    }

    fn insert(&self, body: &[u8]) -> Tid {
        debug_assert!(body.len() <= BODY_BYTES);
        let tuple = BareTuple::new(self.table.oid(), body);
        let tid = heap::insert_unseen(self.table, &tuple, self.command, self.options);
        BYTES_WRITTEN.set(BYTES_WRITTEN.get() + body.len() as u64);
        place::placed(self.table, body.len(), tid);
        tid
    }

    /// Writes `bytes` in pieces numbered from `base`.
    pub fn write_bytes(&self, chunk: u64, base: u32, bytes: &[u8], rows: u32) -> Pieces {
        let count = bytes.len().div_ceil(PIECE_BYTES).max(1);
        let tids = bytes
            .chunks(PIECE_BYTES)
            .enumerate()
            .map(|(at, data)| {
                error::check_interrupts();
                let piece = Piece {
                    chunk,
                    number: base + at as u32,
                    rows_share: rows as f32 / count as f32,
                    data,
                };
                let body = piece.encode();
                place::aim(self.table, body.len(), false);
                self.insert(&body)
            })
            .collect();
        Pieces {
            len: bytes.len() as u32,
            tids,
        }
    }

    /// A section of at most `room` bytes inside the header; what is longer goes into pieces.
    pub fn write_section(&self, chunk: u64, base: u32, bytes: Vec<u8>, room: usize) -> Section {
        spill(bytes, room, |depth, bytes| {
            self.write_bytes(chunk, base + depth * DEPTH_STEP, bytes, 0)
        })
    }

    /// Inserts a header at a line pointer that virtual TIDs can name.
    pub fn insert_header(&self, header: &Header) -> Tid {
        HEADERS_WRITTEN.set(HEADERS_WRITTEN.get() + 1);
        let body = header.encode();
        assert!(
            body.len() <= BODY_BYTES,
            "BUG: header of {} bytes",
            body.len()
        );
        place::aim(self.table, body.len(), true);
        let end = guc::header_pages();
        let mut tried = Tried::default();
        let mut is_high = low_page::is_aimed_too_high(self.table, body.len());
        loop {
            let is_new = is_high && self.aim_elsewhere(body.len(), &mut tried, end);
            let tid = self.insert(&body);
            if is_new {
                place::added(self.table, tid.block);
            }
            is_high = tid.offset > MAX_HEADER_OFFSET || tid.block >= end;
            if !is_high {
                return tid;
            }
            self.discard_header(tid);
            error::check_interrupts();
        }
    }

    /// Makes a page with room and a low line pointer the next to be filled by this backend; is it a new one?
    fn aim_elsewhere(&self, bytes: usize, tried: &mut Tried, end: u32) -> bool {
        let may_grow = self.table.blocks() < end;
        let (found, below) = match may_grow {
            true => {
                let found = low_page::aim_before_growing(self.table, bytes, tried.near_end);
                (found, &mut tried.near_end)
            }
            false => {
                let found = low_page::aim(self.table, bytes, tried.anywhere, end);
                (found, &mut tried.anywhere)
            }
        };
        match found {
            Some(block) => *below = (*below).max(block + 1),
            None if may_grow => self.use_new_page(),
            None => self.refuse_header(end),
        }
        found.is_none()
    }

    fn refuse_header(&self, end: u32) -> ! {
        let name = self.table.name();
        error::raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("no place for a chunk header in table \"{name}\""),
            &format!("A varve table holds headers of chunks in its first {end} pages only, and none of them has room."),
            "VACUUM finds the room that deleted rows have left. Partition a table that is full.",
        )
    }

    /// Frees a header that landed at too high a line pointer. Readers ignore headers there, so it does
    /// not matter that the next command of this transaction could still see the tuple.
    fn discard_header(&self, tid: Tid) {
        delete_tuple(self.table, tid, self.command + 1, false);
    }

    /// Extends the table by a page and makes it the next to be filled by this backend.
    fn use_new_page(&self) {
        let block = page::extend(self.table);
        self.table.fill_next(block);
    }

    /// Writes a whole chunk and returns the TID of its header. `header` comes without sections.
    pub fn write_chunk(&self, mut header: Header, mut statics: Statics, payload: &[u8]) -> Tid {
        crate::catalog::chunk_marker::mark(self.table);
        self.aim_together(&header, &statics, payload);
        statics.payload = self.write_bytes(header.chunk, 0, payload, header.rows);
        header.statics = self.write_section(
            header.chunk,
            STATICS_BASE,
            statics.encode(),
            HEADER_ROOM - DELETE_MAP_ROOM,
        );
        header.delete_map = Section::Inline(Vec::new());
        header.slots = empty_slots(&header);
        let tid = self.insert_header(&header);
        // Sessions that know up to which times there are chunks look again.
        news::is_due();
        // heap_insert counted tuples; people count rows.
        let written = statics.payload.tids.len() as i64 + 1;
        activity::count_inserts(self.table, i64::from(header.rows) - written);
        tid
    }

    /// Makes a page the next to be filled that has room for all of a small chunk, so that readers of many of these look at one page for each;
    /// if it is a small one. Compact chooses pages by itself.
    fn aim_together(&self, header: &Header, statics: &Statics, payload: &[u8]) {
        let columns = statics.encode().len() + size_of::<Tid>();
        if payload.len() > PIECE_BYTES
            || columns > HEADER_ROOM - DELETE_MAP_ROOM
            || place::is_active(self.table)
        {
            return;
        }
        let piece = BODY_BYTES - PIECE_BYTES + payload.len();
        let header_bytes = header.encode().len() + columns + note::empty_slots(header.rows).len();
        let sizes = [piece, header_bytes.min(BODY_BYTES)];
        let is_found = low_page::aim_together(self.table, &sizes);
        if !is_found && self.table.blocks() < guc::header_pages() {
            self.use_new_page();
        }
    }

    /// Writes a note; its chunk's header does not name it yet.
    pub fn insert_note(&self, body: &[u8]) -> Tid {
        place::aim(self.table, body.len(), false);
        let tid = self.insert(body);
        // heap_insert counted a tuple; people count rows.
        activity::count_inserts(self.table, -1);
        tid
    }

    /// Writes a chunk again, with its id and all that is gone in its delete map, at new places.
    pub fn copy_chunk(&self, chunk: &Chunk, payload: &[u8]) -> Tid {
        let mut header = Header::clone(&chunk.header);
        let mut statics = chunk.statics.clone();
        statics.payload = self.write_bytes(header.chunk, 0, payload, header.rows);
        header.statics = self.write_section(
            header.chunk,
            STATICS_BASE,
            statics.encode(),
            HEADER_ROOM - DELETE_MAP_ROOM,
        );
        header.slots = empty_slots(&header);
        let room = delete_map_room(&header);
        header.delete_map =
            self.write_section(header.chunk, DELETE_MAP_BASE, chunk.map.encode(), room);
        self.insert_header(&header)
    }

    /// Writes the successor of a header with a new delete map, and deletes the old version with its notes, which the map says, too.
    /// Notes of transactions in progress go on being named.
    pub fn replace_header(&self, chunk: &Chunk, header: &Header, map: &DeleteMap) -> Tid {
        let old = chunk.tid;
        let mut next = header.clone();
        next.deleted = map.deleted();
        next.statics = header.statics.clone();
        let (has_rows, map) = (map.deleted() < header.rows, map.encode());
        let has_notes = !(chunk.notes.seen.is_empty() && chunk.notes.pending.is_empty());
        next.slots = match (has_rows, has_notes) {
            (true, true) => slots_of_next(&next, map.len(), chunk.notes.pending.len()),
            (true, false) => empty_slots(&next),
            (false, _) => Vec::new(),
        };
        note::fill(&mut next.slots, header.chunk, &chunk.notes.pending);
        let room = delete_map_room(&next);
        next.delete_map = self.write_section(header.chunk, DELETE_MAP_BASE, map, room);
        let tid = self.insert_header(&next);
        delete_section(
            self.table,
            header.chunk,
            DELETE_MAP_BASE,
            &header.delete_map,
            self.command,
        );
        delete_notes(self.table, &chunk.notes.seen, self.command);
        delete_tuple(self.table, old, self.command, true);
        tid
    }

    /// Writes one note in place of all that a header names, and the successor of the header with it. The delete map stays where it
    /// is, in its pieces.
    pub fn gather_notes(&self, chunk: &Chunk, body: &[u8]) -> Tid {
        let mut next = Header::clone(&chunk.header);
        next.deleted = chunk.base.deleted();
        let mut notes = vec![self.insert_note(body)];
        notes.extend_from_slice(&chunk.notes.pending);
        next.slots = slots_of_next(&next, next.delete_map.encoded_len(), notes.len());
        note::fill(&mut next.slots, next.chunk, &notes);
        let tid = self.insert_header(&next);
        delete_notes(self.table, &chunk.notes.seen, self.command);
        delete_tuple(self.table, chunk.tid, self.command, true);
        tid
    }
}

/// Deletes one storage tuple, which this transaction has locked or nobody else can change.
pub fn delete_tuple(table: Table<'_>, tid: Tid, command: CommandId, moved: bool) {
    // SAFETY: the table is open for writing, and the tuple is there.
    let result = unsafe { try_delete(table, tid, command, true, moved) };
    if result != TM_Result::TM_Ok {
        error::raise(
            Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "could not change a chunk due to concurrent update",
            &format!("Storage tuple {tid} was changed by another transaction (result {result})."),
            "Retry the transaction.",
        );
    }
}

/// Deletes the notes of a header that is deleted, too.
pub fn delete_notes(table: Table<'_>, notes: &[Note], command: CommandId) {
    for note in notes {
        delete_tuple(table, note.tid, command, false);
    }
}

/// Deletes a tuple whose content is no row's end: a storage tuple, or a row that is `moved` into a chunk. Subscribers hear nothing
/// of it. Without `wait`, a tuple that somebody has locked or is changing stays, and the result says so.
///
/// # Safety
/// `table` must be open for writing; the tuple must be there still, as a snapshot or a lock sees to it.
pub unsafe fn try_delete(
    table: Table<'_>,
    tid: Tid,
    command: CommandId,
    wait: bool,
    moved: bool,
) -> TM_Result::Type {
    let _quiet = UnidentifiedChanges::begin(table);
    // SAFETY: by contract.
    unsafe { heap::delete(table, tid, command, wait, moved) }
}

/// Deletes the pieces of a section, if it has any.
pub fn delete_section(
    table: Table<'_>,
    chunk: u64,
    base: u32,
    section: &Section,
    command: CommandId,
) {
    match super::read::section_pieces(table, chunk, base, section) {
        Ok(tids) => tids
            .into_iter()
            .for_each(|tid| delete_tuple(table, tid, command, false)),
        Err(damage) => error::raise_corrupt(&table.name(), damage.to_string()),
    }
}

/// A section of at most `room` bytes inside the header: what is longer is written by `write`, and then so
/// is the list of its pieces, until that fits.
pub fn spill(
    mut bytes: Vec<u8>,
    room: usize,
    mut write: impl FnMut(u32, &[u8]) -> Pieces,
) -> Section {
    if bytes.len() <= room {
        return Section::Inline(bytes);
    }
    let crc = header::section_checksum(&bytes);
    for depth in 0..8u8 {
        let pieces = write(u32::from(depth), &bytes);
        let section = Section::Spilled { depth, crc, pieces };
        if section.encoded_len() <= room {
            return section;
        }
        let Section::Spilled { pieces, .. } = section else {
            unreachable!("BUG: just built as spilled")
        };
        bytes.clear();
        pieces.encode(&mut bytes);
    }
    error::raise(
        Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "chunk header too large",
        "The places of its pieces cannot be recorded.",
        "Run VACUUM on the table, so that free space is less scattered, and try again.",
    )
}
