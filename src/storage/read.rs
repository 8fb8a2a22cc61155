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
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{self, Header, Piece, Section, StorageTuple, PIECE_BYTES};
use varve_columns::tuple::runs::Pieces;
use varve_columns::tuple::statics::Statics;

/// What is wrong with a chunk; raised as XX001 by `Chunk::raise`, listed by `varve.verify`.
#[derive(Clone, Debug)]
pub struct Damage(pub String);

impl Damage {
    fn new(what: impl core::fmt::Display) -> Self {
        Damage(what.to_string())
    }
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
    let mut out = Vec::with_capacity(range.len());
    let mut cursor = PageCursor::new(table);
    // SAFETY: by contract.
    let blocks = unsafe { relation::blocks(table) };
    let mut at = range.start;
    while at < range.end {
        let number = at / PIECE_BYTES;
        let tid = pieces.tids[number];
        let missing = || Damage(format!("piece {number} at {tid} is missing"));
        let found = cursor.tuple(tid, blocks).ok_or_else(missing)?;
        // SAFETY: pinned by the cursor; a tuple's body does not change while it is pinned.
        let body = unsafe { tuple::body(found.header, found.len) };
        // SAFETY: as above.
        let zero = unsafe { tuple::attribute_count(found.header) } == 0;
        let Ok(StorageTuple::Piece(Piece {
            chunk: owner,
            number: stored,
            data,
            ..
        })) = header::decode(body)
        else {
            return Err(missing());
        };
        if !zero || owner != chunk || stored != base + number as u32 {
            return Err(missing());
        }
        let start = at - number * PIECE_BYTES;
        let end = (range.end - number * PIECE_BYTES).min(PIECE_BYTES);
        let slice = data
            .get(start..end)
            .ok_or_else(|| Damage(format!("piece {number} at {tid} is too short")))?;
        out.extend_from_slice(slice);
        at = number * PIECE_BYTES + end;
    }
    Ok(out)
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
    let (mut depth, mut crc, mut pieces) = match section {
        Section::Inline(bytes) => return Ok(bytes.clone()),
        Section::Spilled { depth, crc, pieces } => (*depth, Some(*crc), pieces.clone()),
    };
    loop {
        let base = base + u32::from(depth) * DEPTH_STEP;
        // SAFETY: by contract.
        let bytes = unsafe { read_bytes(table, chunk, base, &pieces, 0..pieces.len as usize) }?;
        if crc
            .take()
            .is_some_and(|crc| crc != header::section_checksum(&bytes))
        {
            return Err(Damage::new("checksum of a header section"));
        }
        if depth == 0 {
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
        let header = match header::decode(body).map_err(Damage::new)? {
            StorageTuple::Header(header) => header,
            StorageTuple::Piece(_) => return Err(Damage::new("a piece where a header should be")),
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
        let columns = ChunkHeader::parse(&statics.columns).map_err(Damage::new)?;
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
        })
    }

    /// Raises XX001 for damage in this chunk.
    pub fn raise(&self, damage: &Damage) -> ! {
        // SAFETY: the table is open while the chunk is used.
        let table = unsafe { relation::name(self.table.get()) };
        error::raise_corrupt(
            &table,
            format!(
                "chunk {:016x} at {}: {}",
                self.header.chunk, self.tid, damage.0
            ),
        )
    }

    /// Payload bytes.
    pub fn payload(&self, range: Range<u32>) -> Result<Vec<u8>, Damage> {
        // SAFETY: the table is open while the chunk is used.
        unsafe {
            read_bytes(
                self.table.get(),
                self.header.chunk,
                0,
                &self.statics.payload,
                range.start as usize..range.end as usize,
            )
        }
    }

    pub fn directory(&self, column: usize) -> Result<ColumnDirectory, Damage> {
        let head = self.columns.column(column);
        let bytes = self.payload(head.directory.clone())?;
        ColumnDirectory::parse(head, &bytes)
            .map_err(|corrupt| Damage(format!("column {}: {corrupt}", column + 1)))
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
        let bytes = self.payload(entry.bytes.clone())?;
        chunk::decode_block(self.columns.column(column), entry, &bytes, out).map_err(
            |corrupt| Damage(format!("column {}, block {block}: {corrupt}", column + 1)),
        )?;
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

#[derive(Default)]
struct ColumnState {
    directory: Option<ColumnDirectory>,
    rows: Range<u32>,
    datums: Datums,
    /// Blocks decoded before whose by-reference values a slot may still point to.
    retired: Vec<(Range<u32>, Datums)>,
}

impl ColumnState {
    /// Makes `block` the current one.
    fn switch(&mut self, block: (Range<u32>, Datums), by_value: bool) {
        let rows = core::mem::replace(&mut self.rows, block.0);
        let datums = core::mem::replace(&mut self.datums, block.1);
        if !by_value && !rows.is_empty() {
            self.retired.push((rows, datums));
        }
    }
}

/// A chunk with the blocks that were decoded so far. Slots share it.
pub struct Reader {
    pub chunk: Chunk,
    columns: RefCell<Vec<ColumnState>>,
    scratch: RefCell<Option<Column>>,
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
        })
    }

    pub fn rows(&self) -> u32 {
        self.chunk.header.rows
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
        let mut columns = self.columns.borrow_mut();
        // SAFETY: by contract.
        let attributes = unsafe { relation::attributes(descriptor) };
        for at in wanted {
            let (value, null) = match columns.get_mut(at) {
                Some(state) if !attributes[at].attisdropped => {
                    if !state.rows.contains(&row) {
                        self.decode(state, at, row, &attributes[at]);
                    }
                    state.datums.get((row - state.rows.start) as usize)
                }
                Some(_) => (pg_sys::Datum::from(0), true),
                // SAFETY: by contract.
                None => unsafe { datum::missing(descriptor, at + 1) },
            };
            // SAFETY: by contract.
            unsafe {
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
    }

    /// One attribute (from 0) of one row.
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
        let attribute = unsafe { &relation::attributes(descriptor)[at] };
        match columns.get_mut(at) {
            Some(state) if !attribute.attisdropped => {
                if !state.rows.contains(&row) {
                    self.decode(state, at, row, attribute);
                }
                state.datums.get((row - state.rows.start) as usize)
            }
            Some(_) => (pg_sys::Datum::from(0), true),
            // SAFETY: by contract.
            None => unsafe { datum::missing(descriptor, at + 1) },
        }
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
            .position(|(rows, _)| rows.contains(&row));
        if let Some(known) = known {
            let block = state.retired.swap_remove(known);
            return state.switch(block, attribute.attbyval);
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
            return Err(Damage(format!(
                "column {} has another storage type",
                at + 1
            )));
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
        state.switch((rows, datums), attribute.attbyval);
        Ok(())
    }
}
