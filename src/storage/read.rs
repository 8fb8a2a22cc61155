//! Reading chunks: a header version is opened from its tuple; columns are decoded block by block when
//! somebody asks for them. Pieces are found by TID, and prove by chunk id and number what they are.

use super::datum::{self, Datums};
use super::write::{DELETE_MAP_BASE, DEPTH_STEP, STATICS_BASE};
use crate::pg::error;
use crate::pg::page::PageCursor;
use crate::pg::relation;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::{self, ChunkHeader, ColumnDirectory};
use varve_columns::column::Column;
use varve_columns::error::Corrupt;
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

    fn newer(version: u8) -> Self {
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
    fn at(self, place: impl core::fmt::Display) -> Self {
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

/// Raises "snapshot too old" where that is why something is missing: old_snapshot_threshold lets vacuum take
/// away what the statement's snapshot still sees.
///
/// # Safety
/// `table` must be open.
pub unsafe fn check_snapshot_age(table: pg_sys::Relation) {
    // SAFETY: by contract.
    #[cfg(any(feature = "pg14", feature = "pg15", feature = "pg16"))]
    unsafe {
        if pg_sys::old_snapshot_threshold >= 0 && pg_sys::ActiveSnapshotSet() {
            pg_sys::TestForOldSnapshot_impl(pg_sys::GetActiveSnapshot(), table);
        }
    }
    #[cfg(not(any(feature = "pg14", feature = "pg15", feature = "pg16")))]
    let _ = table;
}

/// Bytes `range` of the string that lies in `pieces`.
///
/// # Safety
/// `table` must be open.
pub unsafe fn read_bytes(
    table: pg_sys::Relation,
    chunk: u64,
    base: u32,
    pieces: &Pieces,
    range: Range<usize>,
) -> Result<Vec<u8>, Damage> {
    if range.end > pieces.len as usize || range.start > range.end {
        return Err(Damage::new("payload range out of bounds"));
    }
    // SAFETY: by contract.
    let blocks = unsafe { relation::blocks(table) };
    if range.len() as u64 > u64::from(blocks) * u64::from(pg_sys::BLCKSZ) {
        return Err(Damage::new("more payload than the table has pages"));
    }
    let mut out = Vec::with_capacity(range.len());
    let mut cursor = PageCursor::new(table);
    let mut at = range.start;
    while at < range.end {
        let number = at / PIECE_BYTES;
        let data = read_piece(&mut cursor, blocks, chunk, base, pieces, number)?;
        append(&mut out, data, number, &mut at, range.end, pieces)?;
    }
    Ok(out)
}

/// Data of one piece, valid while the cursor stays on its page.
fn read_piece<'a>(
    cursor: &'a mut PageCursor,
    blocks: u32,
    chunk: u64,
    base: u32,
    pieces: &Pieces,
    number: usize,
) -> Result<&'a [u8], Damage> {
    let tid = pieces.tids[number];
    let missing = || Damage::new(format!("piece {number} at {tid} is missing"));
    let found = cursor.tuple(tid, blocks).ok_or_else(missing)?;
    // SAFETY: pinned by the cursor; a tuple's body does not change while it is pinned.
    let (body, zero) = unsafe {
        (
            tuple::body(found.header, found.len),
            tuple::attribute_count(found.header) == 0,
        )
    };
    match header::decode(body) {
        Ok(StorageTuple::Piece(piece))
            if zero && piece.chunk == chunk && piece.number == base + number as u32 =>
        {
            Ok(piece.data)
        }
        _ => Err(missing()),
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
struct PieceCache(Vec<(usize, Vec<u8>)>);

const CACHED_PIECES: usize = 32;

impl PieceCache {
    fn get(&self, number: usize) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(cached, _)| *cached == number);
        found.map(|(_, data)| &data[..])
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(_, data)| data.capacity()).sum()
    }

    fn add(&mut self, number: usize, data: Vec<u8>) {
        if self.0.len() == CACHED_PIECES {
            self.0.remove(0);
        }
        self.0.push((number, data));
    }
}

/// The bytes of a header section, wherever they are.
///
/// # Safety
/// `table` must be open.
pub unsafe fn read_section(
    table: pg_sys::Relation,
    chunk: u64,
    base: u32,
    section: &Section,
) -> Result<Vec<u8>, Damage> {
    let (mut depth, crc, mut pieces) = match section {
        Section::Inline(bytes) => return Ok(bytes.clone()),
        Section::Spilled { depth, crc, pieces } => (*depth, *crc, pieces.clone()),
    };
    loop {
        let base = base + u32::from(depth) * DEPTH_STEP;
        // SAFETY: by contract.
        let bytes = unsafe { read_bytes(table, chunk, base, &pieces, 0..pieces.len as usize) }?;
        if depth == 0 {
            if crc != header::section_checksum(&bytes) {
                return Err(Damage::new("checksum of a header section"));
            }
            return Ok(bytes);
        }
        pieces = Pieces::decode(&mut &bytes[..]).map_err(Damage::new)?;
        depth -= 1;
    }
}

/// All pieces that a header section occupies, those of outer depths included.
///
/// # Safety
/// `table` must be open.
pub unsafe fn section_pieces(
    table: pg_sys::Relation,
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
        // SAFETY: by contract.
        let bytes = unsafe { read_bytes(table, chunk, base, &pieces, 0..pieces.len as usize) }?;
        pieces = Pieces::decode(&mut &bytes[..]).map_err(Damage::new)?;
        depth -= 1;
    }
}

/// A header version with what it names, without any column data yet.
pub struct Chunk {
    pub table: Cell<pg_sys::Relation>,
    pub tid: Tid,
    /// Who wrote this header version, as the tuple says.
    pub xmin: pg_sys::TransactionId,
    pub raw_command: pg_sys::CommandId,
    pub header: Header,
    pub statics: Statics,
    pub columns: ChunkHeader,
    pub map: DeleteMap,
    cache: RefCell<PieceCache>,
}

impl Chunk {
    /// Opens a header from its tuple body.
    ///
    /// # Safety
    /// `table` must be open; `tuple` must be pinned.
    pub unsafe fn open(
        table: pg_sys::Relation,
        tid: Tid,
        data: pg_sys::HeapTupleHeader,
        len: u32,
    ) -> Result<Chunk, Damage> {
        // SAFETY: by contract.
        let (body, xmin, raw_command) = unsafe {
            (
                tuple::body(data, len),
                tuple::xmin(data),
                (*data).t_choice.t_heap.t_field3.t_cid,
            )
        };
        let header = match header::decode(body) {
            Ok(StorageTuple::Header(header)) => header,
            Ok(StorageTuple::Piece(_)) => {
                return Err(Damage::new("a piece where a header should be"))
            }
            Err(header::NEWER_VERSION) => return Err(Damage::newer(body[4])),
            Err(error) => return Err(Damage::new(error)),
        };
        let id = header.chunk;
        // SAFETY: by contract.
        let statics = unsafe { read_section(table, id, STATICS_BASE, &header.statics) }?;
        let statics = Statics::decode(&statics).map_err(Damage::new)?;
        // SAFETY: by contract.
        let map = unsafe { read_section(table, id, DELETE_MAP_BASE, &header.delete_map) }?;
        let map = DeleteMap::decode(&map, header.rows).map_err(Damage::new)?;
        if map.deleted() != header.deleted {
            return Err(Damage::new("number of deleted rows"));
        }
        let columns = ChunkHeader::parse(&statics.columns).map_err(Damage::of)?;
        if columns.rows() != header.rows
            || columns.columns().len() != usize::from(statics.attributes)
        {
            return Err(Damage::new("shape of the column headers"));
        }
        Ok(Chunk {
            table: Cell::new(table),
            tid,
            xmin,
            raw_command,
            header,
            statics,
            columns,
            map,
            cache: RefCell::default(),
        })
    }

    /// Raises an error for damage in this chunk.
    pub fn raise(&self, damage: &Damage) -> ! {
        // SAFETY: the table is open while the chunk is used.
        let table = unsafe {
            check_snapshot_age(self.table.get());
            relation::name(self.table.get())
        };
        damage.raise(&table, self.header.chunk, self.tid)
    }

    /// Payload bytes.
    pub fn payload(&self, range: Range<u32>) -> Result<Vec<u8>, Damage> {
        let pieces = &self.statics.payload;
        let (mut at, end) = (range.start as usize, range.end as usize);
        if end > pieces.len as usize || at > end {
            return Err(Damage::new("payload range out of bounds"));
        }
        let mut out = Vec::with_capacity(end - at);
        while at < end {
            let number = at / PIECE_BYTES;
            if self.cache.borrow().get(number).is_none() {
                self.cache_page_of(number)?;
            }
            let cache = self.cache.borrow();
            let data = cache.get(number).expect("BUG: piece just read");
            append(&mut out, data, number, &mut at, end, pieces)?;
        }
        Ok(out)
    }

    /// Reads a piece, and the pieces before and behind it that lie on its page.
    fn cache_page_of(&self, number: usize) -> Result<(), Damage> {
        let pieces = &self.statics.payload;
        let table = self.table.get();
        // SAFETY: the table is open while the chunk is used.
        let blocks = unsafe { relation::blocks(table) };
        let mut cursor = PageCursor::new(table);
        let mut cache = self.cache.borrow_mut();
        let mut read = |number| {
            read_piece(&mut cursor, blocks, self.header.chunk, 0, pieces, number)
                .map(<[u8]>::to_vec)
        };
        let wanted = read(number)?;
        let page = pieces.tids[number].block;
        let on_page = |&at: &usize| pieces.tids[at].block == page;
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

    pub fn directory(&self, column: usize) -> Result<ColumnDirectory, Damage> {
        let head = self.columns.column(column);
        self.payload(head.directory.clone())
            .and_then(|bytes| ColumnDirectory::parse(head, &bytes).map_err(Damage::of))
            .map_err(|damage| damage.at(self.column_name(column)))
    }

    /// The name of a column (from 0), for people.
    fn column_name(&self, column: usize) -> String {
        // SAFETY: the table is open while the chunk is used.
        let attributes = unsafe { relation::attributes((*self.table.get()).rd_att) };
        match attributes.get(column) {
            // SAFETY: an attribute of the open table.
            Some(attribute) => unsafe {
                format!("column \"{}\"", relation::attribute_name(attribute))
            },
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
        let entry = directory.block(block);
        let head = self.columns.column(column);
        self.payload(entry.bytes.clone())
            .and_then(|bytes| chunk::decode_block(head, entry, &bytes, out).map_err(Damage::of))
            .map_err(|damage| damage.at(format!("{}, block {block}", self.column_name(column))))?;
        Ok(entry.rows.clone())
    }

    /// All storage tuples of the chunk but its header.
    pub fn piece_tids(&self) -> Result<Vec<Tid>, Damage> {
        let (table, id) = (self.table.get(), self.header.chunk);
        let mut tids = self.statics.payload.tids.clone();
        // SAFETY: the table is open while the chunk is used.
        unsafe {
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
        }
        Ok(tids)
    }
}

/// Blocks that are left for others stay decoded up to this many bytes of each reader: rows may be fetched in any order.
const RETIRED_BYTES: usize = 4 << 20;

/// Decoded rows of one column.
#[derive(Default)]
struct Block {
    rows: Range<u32>,
    datums: Datums,
    /// By-reference values of it were handed out to live as long as the reader.
    lent: bool,
}

impl Block {
    #[inline]
    fn get(&self, row: u32) -> (pg_sys::Datum, bool) {
        self.datums.get((row - self.rows.start) as usize)
    }
}

#[derive(Default)]
struct ColumnState {
    directory: Option<ColumnDirectory>,
    block: Block,
    /// Blocks decoded before whose by-reference values somebody may still point to.
    retired: Vec<Block>,
}

impl ColumnState {
    /// Makes `block` the current one; returns the bytes that retire.
    fn switch(&mut self, block: Block, by_value: bool) -> usize {
        let left = core::mem::replace(&mut self.block, block);
        if by_value || left.rows.is_empty() {
            return 0;
        }
        let bytes = left.datums.bytes();
        self.retired.push(left);
        bytes
    }
}

/// A chunk with the blocks that were decoded so far. Slots share it.
pub struct Reader {
    pub chunk: Chunk,
    columns: RefCell<Vec<ColumnState>>,
    scratch: RefCell<Option<Column>>,
    /// Slots that show a row of it. What each may point to is in the blocks of its row.
    slots: Cell<usize>,
    retired_bytes: Cell<usize>,
}

impl Reader {
    pub fn new(chunk: Chunk) -> Rc<Reader> {
        let columns = (0..chunk.columns.columns().len())
            .map(|_| ColumnState::default())
            .collect();
        Rc::new(Reader {
            chunk,
            columns: RefCell::new(columns),
            scratch: RefCell::new(None),
            slots: Cell::new(0),
            retired_bytes: Cell::new(0),
        })
    }

    pub fn rows(&self) -> u32 {
        self.chunk.header.rows
    }

    /// A slot begins to show rows of the chunk.
    pub fn enter_slot(&self) {
        self.slots.set(self.slots.get() + 1);
    }

    /// A slot shows no row of the chunk any more: nobody uses what it pointed to.
    pub fn leave_slot(&self) {
        self.slots.set(self.slots.get() - 1);
    }

    /// Memory that decoded values and pieces of payload take.
    pub fn kept_bytes(&self) -> usize {
        let columns = self.columns.borrow();
        let blocks = columns
            .iter()
            .flat_map(|state| state.retired.iter().chain([&state.block]));
        let bytes = blocks.map(|block| block.datums.bytes()).sum::<usize>();
        bytes + self.chunk.cache.borrow().bytes()
    }

    /// Lets go of everything decoded that nobody points to.
    pub fn shrink(&self) {
        if self.slots.get() > 0 {
            return;
        }
        let mut columns = self.columns.borrow_mut();
        for state in columns.iter_mut().filter(|state| !state.block.lent) {
            state.block = Block::default();
        }
        self.drop_retired(&mut columns, |_| true);
        *self.scratch.borrow_mut() = None;
        *self.chunk.cache.borrow_mut() = PieceCache::default();
    }

    /// The same, but keeps the current block of each column.
    pub fn trim(&self) {
        *self.scratch.borrow_mut() = None;
        if self.slots.get() == 0 {
            self.drop_retired(&mut self.columns.borrow_mut(), |_| true);
        }
    }

    /// Drops the retired blocks that are `unused` and not lent.
    fn drop_retired(&self, columns: &mut [ColumnState], unused: impl Fn(&Block) -> bool) {
        let mut bytes = 0;
        for state in columns {
            state.retired.retain(|block| block.lent || !unused(block));
            let kept = state.retired.iter().map(|block| block.datums.bytes());
            bytes += kept.sum::<usize>();
        }
        self.retired_bytes.set(bytes);
    }

    /// Writes some attributes (from 0) of `row` to `values` and `nulls`. By-reference values live as
    /// long as the reader.
    ///
    /// # Safety
    /// Both arrays must have room for all of them; `descriptor` is the table's or one that is
    /// compatible with it.
    pub unsafe fn fill(
        &self,
        descriptor: pg_sys::TupleDesc,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    ) {
        for at in wanted {
            // SAFETY: by contract.
            unsafe {
                let (value, null) = self.value(descriptor, row, at);
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
    }

    /// `fill` for a slot that shows `row`: by-reference values live as long as it does.
    ///
    /// # Safety
    /// As `fill`; the slot must have entered.
    pub unsafe fn fill_slot(
        &self,
        descriptor: pg_sys::TupleDesc,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    ) {
        let mut columns = self.columns.borrow_mut();
        for at in wanted {
            // SAFETY: by contract.
            unsafe {
                let (value, null) = self.value_in(&mut columns, descriptor, row, at, false);
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
        if self.retired_bytes.get() > RETIRED_BYTES && self.slots.get() == 1 {
            self.drop_retired(&mut columns, |block| !block.rows.contains(&row));
        }
    }

    /// `fill_slot` where every wanted block is decoded already; false, with some of the attributes written, where one is not.
    /// Raises no error.
    ///
    /// # Safety
    /// As `fill_slot`.
    #[inline]
    pub unsafe fn fill_decoded(
        &self,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    ) -> bool {
        let Ok(columns) = self.columns.try_borrow() else {
            return false;
        };
        for at in wanted {
            let decoded = |state: &&ColumnState| state.block.rows.contains(&row);
            let Some(state) = columns.get(at).filter(decoded) else {
                return false;
            };
            let (value, null) = state.block.get(row);
            // SAFETY: by contract.
            unsafe {
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
        true
    }

    /// One attribute (from 0) of one row; a by-reference value lives as long as the reader.
    ///
    /// # Safety
    /// See `fill`.
    pub unsafe fn value(
        &self,
        descriptor: pg_sys::TupleDesc,
        row: u32,
        at: usize,
    ) -> (pg_sys::Datum, bool) {
        let mut columns = self.columns.borrow_mut();
        // SAFETY: by contract.
        unsafe { self.value_in(&mut columns, descriptor, row, at, true) }
    }

    #[inline]
    unsafe fn value_in(
        &self,
        columns: &mut [ColumnState],
        descriptor: pg_sys::TupleDesc,
        row: u32,
        at: usize,
        lend: bool,
    ) -> (pg_sys::Datum, bool) {
        // SAFETY: the callers' contract.
        let attribute = unsafe { &relation::attributes(descriptor)[at] };
        match columns.get_mut(at) {
            Some(state) if !attribute.attisdropped => self.get(state, at, row, attribute, lend),
            Some(_) => (pg_sys::Datum::from(0), true),
            // SAFETY: as above.
            None => unsafe { datum::missing(descriptor, at + 1) },
        }
    }

    #[inline]
    fn get(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &pg_sys::FormData_pg_attribute,
        lend: bool,
    ) -> (pg_sys::Datum, bool) {
        if !state.block.rows.contains(&row) {
            if let Some(last) = self.last_value(at, row, attribute) {
                return (last, false);
            }
            self.decode(state, at, row, attribute);
        }
        state.block.lent |= lend && !attribute.attbyval;
        state.block.get(row)
    }

    /// A value of the last row that the header has: newest points need no block.
    #[cold]
    fn last_value(
        &self,
        at: usize,
        row: u32,
        attribute: &pg_sys::FormData_pg_attribute,
    ) -> Option<pg_sys::Datum> {
        let head = self.chunk.columns.column(at);
        let known = row + 1 == self.rows() && head.nulls == 0 && datum::fits(head.kind, attribute);
        known.then(|| datum::of_bound(head.kind, head.summary.last))?
    }

    /// Shows the directory of a column (from 0) that the chunk has.
    pub fn with_directory<R>(&self, at: usize, body: impl FnOnce(&ColumnDirectory) -> R) -> R {
        let mut columns = self.columns.borrow_mut();
        let state = &mut columns[at];
        if state.directory.is_none() {
            match self.chunk.directory(at) {
                Ok(directory) => state.directory = Some(directory),
                Err(damage) => self.chunk.raise(&damage),
            }
        }
        body(state.directory.as_ref().expect("BUG: directory just set"))
    }

    #[cold]
    fn decode(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &pg_sys::FormData_pg_attribute,
    ) {
        error::check_interrupts();
        let known = state
            .retired
            .iter()
            .position(|block| block.rows.contains(&row));
        if let Some(known) = known {
            let block = state.retired.swap_remove(known);
            let back = block.datums.bytes();
            let retired = state.switch(block, attribute.attbyval);
            self.retired_bytes
                .set(self.retired_bytes.get() + retired - back);
            return;
        }
        if let Err(damage) = self.try_decode(state, at, row, attribute) {
            self.chunk.raise(&damage);
        }
    }

    fn try_decode(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &pg_sys::FormData_pg_attribute,
    ) -> Result<(), Damage> {
        let kind = self.chunk.columns.column(at).kind;
        if !datum::fits(kind, attribute) {
            let name = self.chunk.column_name(at);
            return Err(Damage::new("another storage type").at(name));
        }
        if state.directory.is_none() {
            state.directory = Some(self.chunk.directory(at)?);
        }
        let directory = state.directory.as_ref().expect("BUG: directory just set");
        let block = directory.block_of_row(row);
        let mut scratch = self.scratch.borrow_mut();
        let column = match scratch.as_mut() {
            Some(column) if column.kind == kind => column,
            _ => scratch.insert(datum::empty(kind)),
        };
        let rows = self.chunk.decode_block(at, directory, block, column)?;
        let datums = Datums::from_column(column, attribute.attlen);
        let block = Block {
            rows,
            datums,
            lent: false,
        };
        let retired = state.switch(block, attribute.attbyval);
        self.retired_bytes.set(self.retired_bytes.get() + retired);
        Ok(())
    }
}
