//! Reading chunks: a header version is opened from its tuple. Pieces are found by TID, and prove by chunk id and number what
//! they are.

use super::datum;
use super::notes::{self, Note, Notes, View};
use super::vectors::Vectors;
use super::write::{DELETE_MAP_BASE, DEPTH_STEP, STATICS_BASE};
use crate::pg::error;
use crate::pg::page::{self, Page, PageCursor, PageTuple};
use crate::pg::relation::{self, Address, Table};
use crate::pg::tid::Tid;
use crate::pg::tuple;
use crate::pg::{Buffer, CommandId, TransactionId, BLCKSZ};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::rc::Rc;
use varve_columns::chunk::{self, ChunkHeader, ColumnDirectory};
use varve_columns::column::Column;
use varve_columns::error::Corrupt;
use varve_columns::summary::Bound;
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{self, Header, Section, StorageTuple, PIECE_BYTES};
use varve_columns::tuple::runs::Pieces;
use varve_columns::tuple::statics::Statics;

/// Why a chunk cannot be read; raised by `Damage::raise`, listed by `varve.verify`.
#[derive(Clone, Debug)]
pub struct Damage {
    what: String,
    /// Nothing is wrong but that the bytes are of this later version.
    newer: Option<u8>,
}

impl Damage {
    pub fn new(what: impl core::fmt::Display) -> Self {
        Damage {
            what: what.to_string(),
            newer: None,
        }
    }

    pub fn newer(version: u8) -> Self {
        Damage {
            what: format!("format version {version} is newer than this varve"),
            newer: Some(version),
        }
    }

    fn of(error: Corrupt) -> Self {
        match error {
            Corrupt::Version { found, .. } => Damage::newer(found),
            Corrupt::Bytes { what, .. } => Damage::new(what),
        }
    }

    /// Says where in a chunk it is.
    pub fn at(self, place: impl core::fmt::Display) -> Self {
        Damage {
            what: format!("{place}: {}", self.what),
            ..self
        }
    }

    /// Raises XX001 for a damaged chunk, 0A000 for one of a later version.
    pub fn raise(&self, table: &str, chunk: u64, header: Tid) -> ! {
        let Some(version) = self.newer else {
            error::raise_corrupt(table, format!("chunk {chunk:016x} at {header}: {self}"))
        };
        let known = header::VERSION.min(chunk::FORMAT_VERSION);
        error::raise(
            error::Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("chunk format version {version} is newer than this varve"),
            &format!(
                "Table \"{table}\" has chunk {chunk:016x} at {header} of version {version}; this library reads versions up to {known}."
            ),
            "Install the version of varve that wrote it, or a later one.",
        )
    }
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.what)
    }
}

/// Bytes `range` of the string that lies in `pieces`.
pub fn read_bytes(
    table: Table<'_>,
    chunk: u64,
    base: u32,
    pieces: &Pieces,
    range: Range<usize>,
) -> Result<Vec<u8>, Damage> {
    if range.end > pieces.len as usize || range.start > range.end {
        return Err(Damage::new("payload range out of bounds"));
    }
    let blocks = table.blocks();
    if range.len() as u64 > u64::from(blocks) * u64::from(BLCKSZ) {
        return Err(Damage::new("more payload than the table has pages"));
    }
    let mut out = Vec::with_capacity(range.len());
    let mut cursor = PageCursor::new(table);
    let mut at = range.start;
    while at < range.end {
        let number = at / PIECE_BYTES;
        let data = read_piece(&mut cursor, chunk, base, pieces, number)?;
        append(&mut out, data, number, &mut at, range.end, pieces)?;
    }
    Ok(out)
}

/// Data of one piece, valid while the cursor stays on its page.
fn read_piece<'a>(
    cursor: &'a mut PageCursor,
    chunk: u64,
    base: u32,
    pieces: &Pieces,
    number: usize,
) -> Result<&'a [u8], Damage> {
    let tid = pieces.tids[number];
    let missing = || Damage::new(format!("piece {number} at {tid} is missing"));
    let found = cursor.tuple_at(tid).ok_or_else(missing)?;
    piece_data(found, chunk, base + number as u32).ok_or_else(missing)
}

/// The data of a tuple if it is the piece that is looked for. Its body does not change.
fn piece_data<'p>(found: PageTuple<'p>, chunk: u64, number: u32) -> Option<&'p [u8]> {
    let zero = found.attribute_count() == 0;
    match header::decode(found.body()) {
        Ok(StorageTuple::Piece(piece))
            if zero && piece.chunk == chunk && piece.number == number =>
        {
            Some(piece.data)
        }
        _ => None,
    }
}

/// Appends what piece `number` has of the bytes from `at` to `end`, and moves `at` behind it.
fn append(
    out: &mut Vec<u8>,
    data: &[u8],
    number: usize,
    at: &mut usize,
    end: usize,
    pieces: &Pieces,
) -> Result<(), Damage> {
    let first = number * PIECE_BYTES;
    let stop = (end - first).min(PIECE_BYTES);
    let slice = data.get(*at - first..stop).ok_or_else(|| {
        Damage::new(format!(
            "piece {number} at {} is too short",
            pieces.tids[number]
        ))
    })?;
    out.extend_from_slice(slice);
    *at = first + stop;
    Ok(())
}

/// Pieces of a chunk's payload that were read last: neighbouring columns and blocks share pieces, and
/// pieces share pages, so that a page is visited once.
#[derive(Default)]
struct PieceCache {
    pieces: FxHashMap<usize, Vec<u8>>,
    /// Their numbers, the one that was read first in front.
    order: VecDeque<usize>,
}

/// Ten columns that are looked at in turn each have a piece in use, with the others on its page.
const CACHED_PIECES: usize = 128;
/// Where a chunk has more pieces, those beside a piece are not wanted with it: who looks for few rows comes to others.
const MOST_PIECES_READ_AHEAD: usize = 256;
/// Pieces of a chunk that is small.
const MOST_PIECES_BESIDE_HEADER: usize = 2;

/// Bytes of a block that memory is kept for.
const MOST_KEPT_BYTES: usize = 256 << 10;

thread_local! {
    /// Memory for the bytes of the block that is decoded.
    static BLOCK_BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl PieceCache {
    fn get(&self, number: usize) -> Option<&[u8]> {
        self.pieces.get(&number).map(|data| &data[..])
    }

    fn bytes(&self) -> usize {
        self.pieces.values().map(Vec::capacity).sum()
    }

    fn add(&mut self, number: usize, data: Vec<u8>) {
        if self.order.len() == CACHED_PIECES {
            let first = self.order.pop_front();
            first.map(|first| self.pieces.remove(&first));
        }
        if self.pieces.insert(number, data).is_none() {
            self.order.push_back(number);
        }
    }
}

/// The bytes of a header section, wherever they are.
pub fn read_section<'s>(
    table: Table<'_>,
    chunk: u64,
    base: u32,
    section: &'s Section,
) -> Result<Cow<'s, [u8]>, Damage> {
    let (mut depth, crc, mut pieces) = match section {
        Section::Inline(bytes) => return Ok(Cow::Borrowed(bytes)),
        Section::Spilled { depth, crc, pieces } => (*depth, *crc, pieces.clone()),
    };
    loop {
        let base = base + u32::from(depth) * DEPTH_STEP;
        let bytes = read_bytes(table, chunk, base, &pieces, 0..pieces.len as usize)?;
        if depth == 0 {
            if crc != header::section_checksum(&bytes) {
                return Err(Damage::new("checksum of a header section"));
            }
            return Ok(Cow::Owned(bytes));
        }
        pieces = Pieces::decode(&mut &bytes[..]).map_err(Damage::new)?;
        depth -= 1;
    }
}

/// All pieces that a header section occupies, those of outer depths included.
pub fn section_pieces(
    table: Table<'_>,
    chunk: u64,
    base: u32,
    section: &Section,
) -> Result<Vec<Tid>, Damage> {
    let Section::Spilled { depth, pieces, .. } = section else {
        return Ok(Vec::new());
    };
    let (mut depth, mut pieces) = (*depth, pieces.clone());
    let mut tids = Vec::new();
    loop {
        tids.extend_from_slice(&pieces.tids);
        if depth == 0 {
            return Ok(tids);
        }
        let base = base + u32::from(depth) * DEPTH_STEP;
        let bytes = read_bytes(table, chunk, base, &pieces, 0..pieces.len as usize)?;
        pieces = Pieces::decode(&mut &bytes[..]).map_err(Damage::new)?;
        depth -= 1;
    }
}

/// A delete map with the rows of notes, which are none of its own.
fn with_notes(base: &DeleteMap, notes: &[Note]) -> Result<DeleteMap, Damage> {
    let mut map = base.clone();
    let runs = notes.iter().flat_map(|note| note.runs.iter());
    map.add(runs).map_err(|row| {
        let mut latest_first = notes.iter().rev();
        let note = latest_first.find(|note| note.runs.iter().any(|run| run.contains(row)));
        let at = note.map(|note| format!("note at {}: ", note.tid));
        Damage::new(format!(
            "{}row {row} was gone already",
            at.unwrap_or_default()
        ))
    })?;
    Ok(map)
}

/// Do notes begin with others that name the same rows?
fn begins_with(notes: &[Note], others: &[Note]) -> bool {
    let mut pairs = notes.iter().zip(others);
    let is_same =
        |note: &Note, other: &Note| Rc::ptr_eq(&note.runs, &other.runs) || note.runs == other.runs;
    notes.len() >= others.len() && pairs.all(|(note, other)| is_same(note, other))
}

/// Notes, and the delete map that has their rows, too.
type Noted = (Rc<[Note]>, Rc<DeleteMap>);

/// What never changes of a header version: all but its slots, who sees it, and who wrote it. With the pieces of its payload that
/// were read last.
pub struct Content {
    /// The header tuple's bytes but for its slots.
    body: Box<[u8]>,
    header: Rc<Header>,
    pub statics: Statics,
    pub columns: ChunkHeader,
    /// The delete map of the header.
    pub base: Rc<DeleteMap>,
    /// The same with the rows of the notes that were asked for last.
    noted: RefCell<Option<Noted>>,
    cache: RefCell<PieceCache>,
    /// What was decoded for whoever reads columns.
    pub vectors: Vectors,
    /// Pieces or rows of notes have come since somebody asked.
    has_grown: Cell<bool>,
}

impl Content {
    /// Reads what the body of a header tuple says, and the sections that it has in pieces; a delete map that `known`, an earlier
    /// version of the chunk, has as well is not read again.
    pub fn read(table: Table<'_>, body: &[u8], known: Option<&Content>) -> Result<Content, Damage> {
        let header = match header::decode(body) {
            Ok(StorageTuple::Header(header)) => header,
            Ok(_) => return Err(Damage::new("a piece where a header should be")),
            Err(header::NEWER_VERSION) => return Err(Damage::newer(body[4])),
            Err(error) => return Err(Damage::new(error)),
        };
        let id = header.chunk;
        let statics = read_section(table, id, STATICS_BASE, &header.statics)?;
        let statics = Statics::decode(&statics).map_err(Damage::new)?;
        let same = known.filter(|known| {
            known.header.chunk == id && known.header.delete_map == header.delete_map
        });
        let map = match same {
            Some(known) => Rc::clone(&known.base),
            None => {
                let map = read_section(table, id, DELETE_MAP_BASE, &header.delete_map)?;
                Rc::new(DeleteMap::decode(&map, header.rows).map_err(Damage::new)?)
            }
        };
        if map.deleted() != header.deleted {
            return Err(Damage::new("number of deleted rows"));
        }
        let columns = ChunkHeader::parse(&statics.columns).map_err(Damage::of)?;
        if columns.rows() != header.rows
            || columns.columns().len() != usize::from(statics.attributes)
        {
            return Err(Damage::new("shape of the column headers"));
        }
        Ok(Content {
            body: body[..header::slots_start(body)].into(),
            header: Rc::new(header),
            statics,
            columns,
            base: map,
            noted: RefCell::default(),
            cache: RefCell::default(),
            vectors: Vectors::default(),
            has_grown: Cell::default(),
        })
    }

    pub fn chunk_id(&self) -> u64 {
        self.header.chunk
    }

    /// What the header tuple says, with the rows that its own delete map says are gone, and no slots filled since.
    pub fn header_as_written(&self) -> &Header {
        &self.header
    }

    /// Has it the payload of another version of its chunk? What is decoded of one is right for the other then.
    pub fn has_payload_of(&self, other: &Content) -> bool {
        let (own, others) = (&self.header, &other.header);
        own.chunk == others.chunk && own.rows == others.rows && own.statics == others.statics
    }

    /// Is it what a header tuple says, of which `body` is the bytes?
    pub fn is_of(&self, body: &[u8]) -> bool {
        body.get(..self.body.len()) == Some(&self.body[..])
            && header::slots_start(body) == self.body.len()
    }

    /// The header, with its slots as they are in `body`, and with the rows that are gone.
    fn header(&self, body: &[u8], deleted: u32) -> Rc<Header> {
        let slots = &body[self.body.len()..];
        if self.header.slots == slots && self.header.deleted == deleted {
            return Rc::clone(&self.header);
        }
        let slots = slots.to_vec();
        let header = Header::clone(&self.header);
        Rc::new(Header {
            slots,
            deleted,
            ..header
        })
    }

    /// The delete map with the rows of notes, which are none of its own.
    fn with_notes(&self, notes: &Notes) -> Result<Rc<DeleteMap>, Damage> {
        if notes.seen.is_empty() {
            return Ok(Rc::clone(&self.base));
        }
        let map = match &*self.noted.borrow() {
            // As a rule there are some more than before.
            Some((known, map)) if begins_with(&notes.seen, known) => {
                if known.len() == notes.seen.len() {
                    return Ok(Rc::clone(map));
                }
                with_notes(map, &notes.seen[known.len()..])?
            }
            _ => with_notes(&self.base, &notes.seen)?,
        };
        let map = Rc::new(map);
        self.has_grown.set(true);
        *self.noted.borrow_mut() = Some((Rc::clone(&notes.seen), Rc::clone(&map)));
        Ok(map)
    }

    /// Can it be used? An error may have struck while it was written to.
    pub fn is_sound(&self) -> bool {
        self.noted.try_borrow_mut().is_ok()
            && self.cache.try_borrow_mut().is_ok()
            && self.vectors.is_sound()
    }

    /// Reads the pieces of a small chunk that lie on the page of its header: who opens it will most likely ask for them, and need
    /// not come back for the page.
    ///
    /// # Safety
    /// `buffer` must be the page of its header, pinned.
    pub unsafe fn cache_beside_header(&self, header: Tid, buffer: Buffer) {
        let pieces = &self.statics.payload;
        if pieces.tids.len() > MOST_PIECES_BESIDE_HEADER {
            return;
        }
        let block = header.block;
        let mut cache = self.cache.borrow_mut();
        let keep = |page: &Page<'_>| {
            for (number, tid) in pieces.tids.iter().enumerate() {
                let found = page.tuple(tid.offset).filter(|_| tid.block == block);
                let data =
                    found.and_then(|found| piece_data(found, self.header.chunk, number as u32));
                // Damage of pieces that nobody has asked for is not reported yet.
                if let Some(data) = data {
                    cache.add(number, data.to_vec());
                    self.has_grown.set(true);
                }
            }
        };
        // SAFETY: by contract.
        unsafe { page::locked(buffer, block, keep) }
    }

    /// Has it come to take more memory since this was asked last?
    pub fn has_grown(&self) -> bool {
        self.has_grown.take() | self.vectors.has_grown()
    }

    /// Memory that pieces of the payload and decoded columns take.
    pub fn kept_bytes(&self) -> usize {
        self.cache.borrow().bytes() + self.vectors.bytes()
    }

    /// Lets go of the pieces that were read, and of decoded columns.
    pub fn forget_pieces(&self) {
        self.forget_bytes();
        self.vectors.forget();
    }

    /// Lets go of the pieces that were read: they are on pages still.
    pub fn forget_bytes(&self) {
        *self.cache.borrow_mut() = PieceCache::default();
    }

    /// Lets go of the pieces that were read, and of decoded values, but keeps what tells where they are.
    pub fn forget_values(&self) {
        self.forget_bytes();
        self.vectors.forget_values();
    }

    /// Memory that it takes, about, but for the pieces.
    pub fn bytes(&self) -> usize {
        let noted = self.noted.borrow();
        let of_notes = noted.as_ref().map_or(0, |(notes, map)| {
            let runs: usize = notes.iter().map(|note| size_of_val(&*note.runs)).sum();
            runs + map.bytes()
        });
        // Body, sections and column headers are kept as bytes, too.
        4 * self.body.len()
            + 2 * self.statics.columns.len()
            + self.statics.payload.tids.len() * size_of::<Tid>()
            + size_of_val(self.columns.columns())
            + self.base.bytes()
            + of_notes
    }
}

/// A header version as somebody sees it, with what it names, without any column data yet.
pub struct Chunk {
    pub table: Cell<Address>,
    pub tid: Tid,
    /// Who wrote this header version, as the tuple says.
    pub xmin: TransactionId,
    /// The same, frozen or not.
    pub raw_writer: TransactionId,
    pub raw_command: CommandId,
    /// `deleted` counts rows of notes, too.
    pub header: Rc<Header>,
    pub content: Rc<Content>,
    /// Which rows are gone: by the delete map of the header, `base`, and by notes.
    pub map: Rc<DeleteMap>,
    pub notes: Notes,
}

impl Deref for Chunk {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

impl Chunk {
    /// Opens a header from its tuple body, with the notes that belong to a view.
    ///
    /// # Safety
    /// `table` must stay open as long as the chunk is used.
    pub unsafe fn open(
        table: Table<'_>,
        item: &PageTuple<'_>,
        view: View,
    ) -> Result<Chunk, Damage> {
        let body = item.body();
        let notes = notes::of_header(table, item.tid, body, header::row_count(body), view, &[])?;
        let content = Rc::new(Content::read(table, body, None)?);
        // SAFETY: by contract.
        unsafe { Chunk::open_with(table, item, content, notes) }
    }

    /// The same with its content and these notes.
    ///
    /// # Safety
    /// As `open`; the content must be of the tuple.
    pub unsafe fn open_with(
        table: Table<'_>,
        item: &PageTuple<'_>,
        content: Rc<Content>,
        notes: Notes,
    ) -> Result<Chunk, Damage> {
        let map = content.with_notes(&notes)?;
        // SAFETY: by contract.
        unsafe {
            Ok(Chunk {
                table: Cell::new(table.address()),
                tid: item.tid,
                xmin: tuple::xmin(item.header()),
                raw_writer: tuple::raw_xmin(item.header()),
                raw_command: tuple::raw_command(item.header()),
                header: content.header(item.body(), map.deleted()),
                content,
                map,
                notes,
            })
        }
    }

    /// Its table.
    #[inline]
    pub fn table(&self) -> Table<'_> {
        // SAFETY: the table that it was opened or found for last (`open`, `chunk_cache`), which is open while the chunk is used.
        unsafe { self.table.get().table() }
    }

    /// The oldest format version of its parts.
    pub fn format(&self) -> u8 {
        self.header.version.min(self.columns.version())
    }

    /// How long the body of the header tuple is.
    pub fn header_bytes(&self) -> usize {
        self.content.body.len() + self.header.slots.len()
    }

    /// Raises an error for damage in this chunk.
    pub fn raise(&self, damage: &Damage) -> ! {
        let table = {
            self.table().check_snapshot_age();
            self.table().name()
        };
        damage.raise(&table, self.header.chunk, self.tid)
    }

    /// Payload bytes.
    pub fn payload(&self, range: Range<u32>) -> Result<Vec<u8>, Damage> {
        let mut out = Vec::new();
        self.add_payload(range, &mut out)?;
        Ok(out)
    }

    /// Appends a range of the payload to some bytes.
    fn add_payload(&self, range: Range<u32>, out: &mut Vec<u8>) -> Result<(), Damage> {
        let pieces = &self.statics.payload;
        let (mut at, end) = (range.start as usize, range.end as usize);
        if end > pieces.len as usize || at > end {
            return Err(Damage::new("payload range out of bounds"));
        }
        // What fills pieces by itself shares few of them with others: it is copied once, from the pages.
        let is_long = end - at >= PIECE_BYTES;
        let mut cursor = PageCursor::new(self.table());
        out.reserve(end - at);
        while at < end {
            let number = at / PIECE_BYTES;
            let cache = self.cache.borrow();
            match cache.get(number) {
                Some(data) => append(out, data, number, &mut at, end, pieces)?,
                None if is_long => {
                    let data = read_piece(&mut cursor, self.header.chunk, 0, pieces, number)?;
                    append(out, data, number, &mut at, end, pieces)?;
                }
                None => {
                    drop(cache);
                    self.cache_page_of(number)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a piece, and of a chunk with few of them the pieces before and behind it that lie on its page.
    fn cache_page_of(&self, number: usize) -> Result<(), Damage> {
        let pieces = &self.statics.payload;
        let mut cursor = PageCursor::new(self.table());
        self.has_grown.set(true);
        let mut cache = self.cache.borrow_mut();
        let mut read = |number| {
            read_piece(&mut cursor, self.header.chunk, 0, pieces, number).map(<[u8]>::to_vec)
        };
        let wanted = read(number)?;
        let page = pieces.tids[number].block;
        let reads_ahead = pieces.tids.len() <= MOST_PIECES_READ_AHEAD;
        let on_page = |&at: &usize| reads_ahead && pieces.tids[at].block == page;
        let before = (0..number).rev().take_while(on_page);
        let behind = (number + 1..pieces.tids.len()).take_while(on_page);
        for at in before.chain(behind) {
            // Damage of pieces that nobody has asked for is not reported yet.
            if let (None, Ok(data)) = (cache.get(at), read(at)) {
                cache.add(at, data);
            }
        }
        cache.add(number, wanted);
        Ok(())
    }

    /// The directory of a column as whoever reads columns shares it.
    pub fn shared_directory(&self, column: usize) -> Result<Rc<ColumnDirectory>, Damage> {
        self.vectors.directory(column, || self.directory(column))
    }

    pub fn directory(&self, column: usize) -> Result<ColumnDirectory, Damage> {
        let head = self.columns.column(column);
        self.payload(head.directory.clone())
            .and_then(|bytes| ColumnDirectory::parse(head, &bytes).map_err(Damage::of))
            .map_err(|damage| damage.at(self.column_name(column)))
    }

    /// The name of a column (from 0), for people.
    pub fn column_name(&self, column: usize) -> String {
        let attributes = self.table().attributes();
        match attributes.get(column) {
            Some(attribute) => format!("column \"{}\"", relation::attribute_name(attribute)),
            None => format!("column {}", column + 1),
        }
    }

    /// Decodes some columns (from 0), to find out whether that is possible.
    pub fn try_columns(&self, columns: impl Iterator<Item = usize>) -> Result<(), Damage> {
        for column in columns.filter(|&column| column < self.columns.columns().len()) {
            let directory = self.directory(column)?;
            let mut values = datum::empty(self.columns.column(column).kind);
            for block in 0..directory.len() {
                error::check_interrupts();
                self.decode_block(column, &directory, block, &mut values)?;
            }
        }
        Ok(())
    }

    /// Decodes the block of `column` that holds `row` into `out`; returns the rows that it covers.
    pub fn decode_block(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
        out: &mut Column,
    ) -> Result<Range<u32>, Damage> {
        self.with_block_bytes(column, directory, block, |bytes| {
            self.decode_bytes(column, directory, block, bytes, out)
        })
    }

    /// Decodes the rows of a window of a block of `column` into `out`, and those that are decoded with them: all of the block, where it takes as much. Returns which.
    pub fn decode_part(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
        window: &Range<u32>,
        out: &mut Column,
    ) -> Result<Range<u32>, Damage> {
        let entry = directory.block(block);
        let start = entry.rows.start;
        let rows = (window.start - start) as usize..(window.end - start) as usize;
        self.with_block_bytes(column, directory, block, |bytes| {
            let told = chunk::decode_part(self.columns.column(column), entry, bytes, rows, out)
                .map_err(|error| self.in_block(Damage::of(error), column, block))?;
            match told {
                Some(rows) => Ok(start + rows.start as u32..start + rows.end as u32),
                None => self.decode_bytes(column, directory, block, bytes, out),
            }
        })
    }

    /// Calls `body` with the bytes of a block of a column (from 0), in memory that serves the next block. What allocates and frees for each of them may
    /// have the allocator get and give back pages all the time.
    fn with_block_bytes<R>(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
        body: impl FnOnce(&[u8]) -> Result<R, Damage>,
    ) -> Result<R, Damage> {
        let mut bytes = BLOCK_BYTES.take();
        bytes.clear();
        self.add_payload(directory.block(block).bytes.clone(), &mut bytes)
            .map_err(|damage| self.in_block(damage, column, block))?;
        let result = body(&bytes);
        if bytes.capacity() <= MOST_KEPT_BYTES {
            BLOCK_BYTES.set(bytes);
        }
        result
    }

    /// The bytes of a block of a column (from 0).
    pub fn block_bytes(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
    ) -> Result<Vec<u8>, Damage> {
        self.payload(directory.block(block).bytes.clone())
            .map_err(|damage| self.in_block(damage, column, block))
    }

    /// Decodes them; returns the rows of the block.
    pub fn decode_bytes(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
        bytes: &[u8],
        out: &mut Column,
    ) -> Result<Range<u32>, Damage> {
        let entry = directory.block(block);
        chunk::decode_block(self.columns.column(column), entry, bytes, out)
            .map_err(|error| self.in_block(Damage::of(error), column, block))?;
        Ok(entry.rows.clone())
    }

    /// The value of a row of the block that they are of, without decoding them. None where it takes that.
    pub fn value_in_bytes(
        &self,
        column: usize,
        directory: &ColumnDirectory,
        block: usize,
        bytes: &[u8],
        row: u32,
    ) -> Result<Option<Bound>, Damage> {
        let entry = directory.block(block);
        let at = (row - entry.rows.start) as usize;
        chunk::value_at(self.columns.column(column), entry, bytes, at)
            .map_err(|error| self.in_block(Damage::of(error), column, block))
    }

    fn in_block(&self, damage: Damage, column: usize, block: usize) -> Damage {
        damage.at(format!("{}, block {block}", self.column_name(column)))
    }

    /// All storage tuples of the chunk but its header.
    pub fn piece_tids(&self) -> Result<Vec<Tid>, Damage> {
        let (table, id) = (self.table(), self.header.chunk);
        let mut tids = self.statics.payload.tids.clone();
        tids.extend(section_pieces(
            table,
            id,
            STATICS_BASE,
            &self.header.statics,
        )?);
        tids.extend(section_pieces(
            table,
            id,
            DELETE_MAP_BASE,
            &self.header.delete_map,
        )?);
        Ok(tids)
    }
}
