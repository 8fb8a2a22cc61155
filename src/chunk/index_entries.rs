//! Entries of the series indexes of a table. A tail row has one, like in any btree. A chunk has
//!
//! * where it is *keyed*, one per series: (key, greatest time of the series in the chunk). Keyed chunks of
//!   one table never overlap: of two that hold the same series, one has no time below the other's
//!   greatest; mergers see to that. A long series may have more of them, *steps*, each at the time of a `ROWS_PER_STEP`th row:
//!   where rows are gone, so that who looks for a time passes by the tail rows of one step, not by those of all the chunk, and at
//!   least for `MOST_ROWS_WITHOUT_STEP` rows. Besides, one with NULL
//!   keys: the chunk's greatest time, the *end*. But a chunk
//!   of many short series that share first keys is entered as in the next case, which takes far fewer entries;
//! * otherwise, where it is merged, or of one series: one per value of the first key column, all other
//!   columns NULL. Scans find it by its first key, but do not learn from the index what times it has;
//! * else one with all columns NULL, where every scan looks. Few chunks may be there for long.
//!
//! Where series are so short that this would be more than an entry for `ROWS_PER_SERIES` rows, and first keys are integers, they
//! are entered by *cells*: stretches of `CELL_KEYS` first keys, each by its first one, as in the second case.
//!
//! The TID of a chunk's entry is its header's with `HEADER_BIT` set in the block number, so that scans
//! tell entries apart without visiting the table.

use crate::catalog::layout;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::image;
use crate::pg::lock_mode::LockMode;
use crate::pg::nbtree;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::tid::Tid;
use crate::pg::types;
use crate::pg::{Datum, Oid};
use smallvec::SmallVec;
use varve_columns::chunk::{Layout, BLOCK_ROWS};
use varve_columns::summary::Bound;
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED};

const HEADER_BIT: u32 = 1 << 31;
/// Where a first key has at most so many series in a shared chunk, it is as good as the whole key.
const SERIES_PER_FIRST_KEY: usize = 32;
/// A chunk that is entered by first keys, or by cells of them, has at most one entry for so many rows.
const ROWS_PER_ENTRY: usize = 64;
/// Series that have fewer rows in a chunk, on average, are entered by cells where they can be.
const ROWS_PER_SERIES: usize = 128;
/// Except by cells that have at least so many of them each, on average: an entry for each key would be more.
const KEYS_PER_CELL: usize = 32;
/// First keys of a cell: a power of two.
const CELL_KEYS: i64 = 64;
/// Where a cell has at most so many series in a shared chunk, it is as good as their keys.
const SERIES_PER_CELL: usize = 256;
/// Rows of a series in a keyed chunk between two entries of it, if some of them are gone: those of two blocks of times.
pub const ROWS_PER_STEP: u32 = 2 * BLOCK_ROWS as u32;
/// The most rows between two entries. Rows that come late may lie there, and those that the chunk's rows were updated to by who has not
/// committed or has rolled back, or that notes name.
const MOST_ROWS_WITHOUT_STEP: u32 = 4 * ROWS_PER_STEP;
/// Entries of a page of a series index, about: what the planner knows of them without looking.
pub const ENTRIES_PER_PAGE: f64 = 200.0;

/// TID under which indexes enter the header at `header`.
pub fn entry_of_header(header: Tid) -> Tid {
    Tid {
        block: header.block | HEADER_BIT,
        ..header
    }
}

/// The header that an index entry names; `None` for the entry of a tail row.
pub fn header_of_entry(entry: Tid) -> Option<Tid> {
    (entry.block & HEADER_BIT != 0).then_some(Tid {
        block: entry.block & !HEADER_BIT,
        ..entry
    })
}

/// The cell of a first key: the least that a key in it can be.
pub fn cell_of(first_key: i64) -> i64 {
    first_key & !(CELL_KEYS - 1)
}

/// The first keys that a cell may have.
pub fn keys_of_cell(cell: i64) -> core::ops::RangeInclusive<i64> {
    cell..=cell + (CELL_KEYS - 1)
}

/// Length of the first keys of an index that may enter chunks by cells: they are integers.
pub fn cell_length(index: Index<'_>) -> Option<i16> {
    // SAFETY: the index is open; the array has an entry for each column.
    unsafe {
        if index.form().indnkeyatts < 2 {
            return None;
        }
        match *(*index.as_ptr()).rd_opcintype {
            types::INT2OID => Some(2),
            types::INT4OID => Some(4),
            types::INT8OID => Some(8),
            _ => None,
        }
    }
}

/// Values of one index entry.
pub struct Entry {
    pub values: Vec<Datum>,
    pub nulls: Vec<bool>,
}

/// The open series indexes of a table.
pub struct SeriesIndexes<'a> {
    table: Table<'a>,
    indexes: Vec<OpenIndex>,
}

impl<'a> SeriesIndexes<'a> {
    /// Opens them for inserting: those that are ready for it, valid or not.
    pub fn open(table: Table<'_>) -> SeriesIndexes<'_> {
        let series = layout::index_am();
        let indexes = table
            .index_oids()
            .into_iter()
            .map(|oid| OpenIndex::open(oid, LockMode::RowExclusive))
            .filter(|index| index.rel().class().relam == series && index.rel().form().indisready)
            .collect();
        SeriesIndexes { table, indexes }
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Those but for some: who enters rows into these does not say so here.
    pub fn without(mut self, others: &[Oid]) -> SeriesIndexes<'a> {
        self.indexes
            .retain(|index| !others.contains(&index.rel().oid()));
        self
    }

    /// Enters a tail row whose columns are `values` and `nulls`.
    ///
    /// # Safety
    /// Both must have an entry for each column of the table.
    pub unsafe fn enter_row(&self, values: &[Datum], nulls: &[bool], at: Tid) {
        for index in &self.indexes {
            // SAFETY: the index and its table are open for writing.
            unsafe {
                let columns = key_columns(index.rel());
                let mut entry: Vec<_> = columns.iter().map(|&column| values[column]).collect();
                let mut null: Vec<_> = columns.iter().map(|&column| nulls[column]).collect();
                nbtree::insert(self.table, index.rel(), &mut entry, &mut null, at);
            }
        }
    }

    /// Can everything be decoded that the entries of a chunk are made of?
    pub fn try_header(&self, chunk: &Chunk) -> Result<(), Damage> {
        let header = &chunk.header;
        let stated = header.has(FLAG_ONE_SERIES) && header.rows <= ROWS_PER_STEP;
        for index in &self.indexes {
            let columns = key_columns(index.rel());
            let keys = columns.len() - usize::from(stated);
            chunk.try_columns(columns.into_iter().take(keys))?;
        }
        Ok(())
    }

    /// Enters the header at `at` of a chunk of which these rows are gone.
    pub fn enter_header(&self, chunk: &Reader, gone: &DeleteMap, at: Tid) {
        for index in &self.indexes {
            // SAFETY: the index and its table are open for writing.
            unsafe {
                let entries = header_entries(self.table, index.rel(), chunk, gone);
                for mut entry in entries.with_steps() {
                    nbtree::insert(
                        self.table,
                        index.rel(),
                        &mut entry.values,
                        &mut entry.nulls,
                        entry_of_header(at),
                    );
                }
            }
        }
    }
}

/// Table columns of an index, from 0; the last one is time.
pub fn key_columns(index: Index<'_>) -> SmallVec<[usize; 4]> {
    // SAFETY: the index is open.
    unsafe {
        let form = index.form();
        let count = form.indnkeyatts as usize;
        let columns = core::slice::from_raw_parts(form.indkey.values.as_ptr(), count);
        columns.iter().map(|&number| number as usize - 1).collect()
    }
}

/// The entries of a chunk in one index.
#[derive(Default)]
pub struct ChunkEntries {
    /// Those by which scans find its rows.
    pub needed: Vec<Entry>,
    /// Those that make this quicker. An index that was built before there were any has none, and is as good.
    pub steps: Vec<Entry>,
    /// Those that would if more rows were gone. An index that was built when each chunk had all steps has them.
    pub other_steps: Vec<Entry>,
}

impl ChunkEntries {
    pub fn with_steps(self) -> impl Iterator<Item = Entry> {
        self.needed.into_iter().chain(self.steps)
    }
}

/// The entries that an index has for a chunk of which these rows are gone; their values live as long as the reader. A tombstone has
/// none: it has no row to be found, and no payload to read a key from.
pub fn header_entries(
    table: Table<'_>,
    index: Index<'_>,
    reader: &Reader,
    gone: &DeleteMap,
) -> ChunkEntries {
    // SAFETY: table and index are open.
    unsafe {
        let columns = key_columns(index);
        let chunk = &reader.chunk;
        if chunk.header.has(FLAG_TOMBSTONE) {
            return ChunkEntries::default();
        }
        if !is_keyed(chunk, &columns) {
            return in_section(table, index, reader, &columns);
        }
        let descriptor = table.descriptor();
        let (time, keys) = columns.split_last().expect("BUG: an index without columns");
        let series = if chunk.header.has(FLAG_ONE_SERIES) {
            core::iter::once(0..chunk.header.rows).collect()
        } else {
            let all = all_runs(reader, descriptor, keys);
            let by_first = all_runs(reader, descriptor, &keys[..1]);
            let firsts = by_first.len();
            let few = firsts * ROWS_PER_ENTRY <= chunk.header.rows as usize;
            if few && firsts < all.len() && all.len() <= firsts * SERIES_PER_FIRST_KEY {
                return in_section(table, index, reader, &columns);
            }
            if all.len() * ROWS_PER_SERIES > chunk.header.rows as usize {
                let cells = cell_entries(table, index, reader, &columns, &by_first);
                if let Some(needed) =
                    cells.filter(|cells| all.len() <= cells.len() * SERIES_PER_CELL)
                {
                    return ChunkEntries {
                        needed,
                        ..ChunkEntries::default()
                    };
                }
            }
            all
        };
        let attribute = &descriptor.attributes()[*time];
        let mut entries = ChunkEntries::default();
        for rows in series {
            let key = keys.iter();
            let key: Vec<_> = key
                .map(|&key| reader.value(descriptor, rows.start, key).0)
                .collect();
            let entry = |time| Entry {
                values: key.iter().copied().chain([time]).collect(),
                nulls: vec![false; columns.len()],
            };
            let last = reader_time(reader, descriptor, *time, rows.end - 1);
            for step in steps(reader, descriptor, *time, rows, gone) {
                if step.time == time_value(last, attribute.attlen) {
                    continue;
                }
                let entry = entry(time_datum(step.time, attribute.attlen));
                match step.is_wanted {
                    true => entries.steps.push(entry),
                    false => entries.other_steps.push(entry),
                }
            }
            entries.needed.push(entry(last));
        }
        if !keys.is_empty() {
            let mut values = vec![Datum::from(0usize); columns.len()];
            let mut nulls = vec![true; columns.len()];
            let last = keys.len();
            values[last] = time_datum(chunk.header.max_time, attribute.attlen);
            nulls[last] = false;
            entries.needed.push(Entry { values, nulls });
        }
        entries
    }
}

/// `section_entries`, without steps.
///
/// # Safety
/// As `section_entries`.
unsafe fn in_section(
    table: Table<'_>,
    index: Index<'_>,
    reader: &Reader,
    columns: &[usize],
) -> ChunkEntries {
    ChunkEntries {
        // SAFETY: the caller's contract.
        needed: unsafe { section_entries(table, index, reader, columns) },
        ..ChunkEntries::default()
    }
}

/// An entry for each cell of a chunk whose rows lie in `by_first`, runs of equal first keys that ascend. `None` where there are
/// no cells, or too many of them.
///
/// # Safety
/// `table` must be open, and the reader's; `index` an open series index of it, with these `columns`.
unsafe fn cell_entries(
    table: Table<'_>,
    index: Index<'_>,
    reader: &Reader,
    columns: &[usize],
    by_first: &[core::ops::Range<u32>],
) -> Option<Vec<Entry>> {
    // SAFETY: the caller's contract.
    unsafe {
        let length = cell_length(index)?;
        let mut cells = Vec::new();
        for rows in by_first {
            let (value, isnull) = reader.value(table.descriptor(), rows.start, columns[0]);
            if isnull {
                return None;
            }
            let cell = cell_of(time_value(value, length));
            if cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        let few_rows = cells.len() * ROWS_PER_ENTRY > reader.chunk.header.rows as usize;
        if few_rows && cells.len() * KEYS_PER_CELL > by_first.len() {
            return None;
        }
        let first = |cell| (time_datum(cell, length), false);
        Some(
            cells
                .into_iter()
                .map(|cell| first_key_entry(first(cell), columns.len()))
                .collect(),
        )
    }
}

/// The entry of a chunk that is known by a first key.
fn first_key_entry(first: (Datum, bool), columns: usize) -> Entry {
    let mut values = vec![Datum::from(0usize); columns];
    let mut nulls = vec![true; columns];
    (values[0], nulls[0]) = first;
    Entry { values, nulls }
}

/// Where a series may have a step.
struct Step {
    time: i64,
    /// Rows between the one before it and this one are gone, or there are many.
    is_wanted: bool,
}

/// The steps of `rows`, those of a series, of which some are gone: ascending, one for a time. Only a column in one block is decoded for them.
///
/// # Safety
/// `descriptor` must be that of the chunk's table.
unsafe fn steps(
    reader: &Reader,
    descriptor: Descriptor<'_>,
    time: usize,
    rows: core::ops::Range<u32>,
    gone: &DeleteMap,
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // SAFETY: the caller's contract.
    unsafe {
        let length = descriptor.attributes()[time].attlen;
        let (mut start, mut since) = (rows.start, rows.start);
        while rows.end - start > ROWS_PER_STEP {
            error::check_interrupts();
            let step = start..start + ROWS_PER_STEP;
            let end = step.end;
            let known = last_of_block(reader, time, step);
            let time = known.unwrap_or_else(|| {
                let (value, _) = reader.value(descriptor, end - 1, time);
                time_value(value, length)
            });
            let is_wanted = end - since >= MOST_ROWS_WITHOUT_STEP || !gone.is_clear(since..end);
            if is_wanted {
                since = end;
            }
            match steps.last_mut() {
                Some(last) if last.time == time => last.is_wanted |= is_wanted,
                _ => steps.push(Step { time, is_wanted }),
            }
            start = end;
        }
    }
    steps
}

/// The time of the last of some rows that are sorted by time, if a block of these, and no other rows, ends with it and tells.
fn last_of_block(reader: &Reader, time: usize, rows: core::ops::Range<u32>) -> Option<i64> {
    // A column that was added later has no blocks.
    reader.chunk.columns.columns().get(time)?;
    reader.with_directory(time, |directory| {
        let block = directory
            .blocks()
            .get(directory.block_of_row(rows.end - 1))?;
        let is_last = block.rows.end == rows.end && block.rows.start >= rows.start;
        match block.max {
            Bound::Int(max) if is_last && block.nulls == 0 => Some(max),
            _ => None,
        }
    })
}

/// Entries with NULL times, of a chunk that is not keyed.
///
/// # Safety
/// As `cell_entries`.
unsafe fn section_entries(
    table: Table<'_>,
    index: Index<'_>,
    reader: &Reader,
    columns: &[usize],
) -> Vec<Entry> {
    let header = &reader.chunk.header;
    let entry = |first| first_key_entry(first, columns.len());
    let any = || vec![entry((Datum::from(0usize), true))];
    let by_first_key = (header.level > 0 || header.has(FLAG_ONE_SERIES))
        && columns.len() > 1
        && own_columns(&reader.chunk) == columns;
    if !by_first_key {
        return any();
    }
    // SAFETY: the caller's contract.
    unsafe {
        let descriptor = table.descriptor();
        let series = all_runs(reader, descriptor, &columns[..1]);
        if series.len() > 1 && series.len() * ROWS_PER_ENTRY > header.rows as usize {
            let cells = cell_entries(table, index, reader, columns, &series);
            return cells.unwrap_or_else(any);
        }
        series
            .into_iter()
            .map(|rows| entry(reader.value(descriptor, rows.start, columns[0])))
            .collect()
    }
}

/// Time of a row, without decoding anything where the header knows it.
///
/// # Safety
/// `descriptor` must be that of the chunk's table.
unsafe fn reader_time(reader: &Reader, descriptor: Descriptor<'_>, time: usize, row: u32) -> Datum {
    let header = &reader.chunk.header;
    // SAFETY: the caller's contract.
    unsafe {
        if header.has(FLAG_ONE_SERIES) {
            let attribute = &descriptor.attributes()[time];
            time_datum(header.max_time, attribute.attlen)
        } else {
            reader.value(descriptor, row, time).0
        }
    }
}

/// Divides all rows of a chunk into runs of equal `columns`. What comes out is kept with what has been decoded of the chunk.
///
/// # Safety
/// `descriptor` must be that of the chunk's table.
unsafe fn all_runs(
    reader: &Reader,
    descriptor: Descriptor<'_>,
    columns: &[usize],
) -> Vec<core::ops::Range<u32>> {
    let rows = reader.rows();
    if let Some(starts) = reader.runs(columns) {
        let ends = starts.iter().skip(1).copied().chain([rows]);
        let runs = starts.iter().zip(ends).map(|(&start, end)| start..end);
        return runs.collect();
    }
    // SAFETY: by contract.
    let runs = unsafe { runs(reader, descriptor, columns, 0..rows) };
    reader.know_runs(columns, runs.iter().map(|run| run.start).collect());
    runs
}

/// Divides `rows` of a chunk into runs of equal `columns`.
///
/// # Safety
/// `descriptor` must be that of the chunk's table.
pub unsafe fn runs(
    reader: &Reader,
    descriptor: Descriptor<'_>,
    columns: &[usize],
    rows: core::ops::Range<u32>,
) -> Vec<core::ops::Range<u32>> {
    let varying: Vec<usize> = columns
        .iter()
        .copied()
        .filter(|&column| varies(&reader.chunk, column))
        .collect();
    let mut out = Vec::new();
    let mut start = rows.start;
    // SAFETY: by contract. Values of blocks that were decoded before stay where they are.
    unsafe {
        let attributes = descriptor.attributes();
        let read = |row: u32| -> Vec<(Datum, bool)> {
            let value = |&column: &usize| reader.value(descriptor, row, column);
            varying.iter().map(value).collect()
        };
        let mut now = if rows.is_empty() {
            Vec::new()
        } else {
            read(start)
        };
        for row in rows.start + 1..rows.end {
            let same = varying.iter().zip(&now).all(|(&column, old)| {
                let new = reader.value(descriptor, row, column);
                let attribute = &attributes[column];
                new.1 == old.1 && (new.1 || image::same_image(new.0, old.0, attribute))
            });
            if !same {
                out.push(start..row);
                start = row;
                now = read(row);
            }
        }
    }
    if start < rows.end {
        out.push(start..rows.end);
    }
    out
}

/// Can a column of a chunk have more than one value?
fn varies(chunk: &Chunk, column: usize) -> bool {
    chunk
        .columns
        .columns()
        .get(column)
        .is_some_and(|head| !matches!(head.layout, Layout::AllNull | Layout::Constant(_)))
}

/// Is the chunk entered under its keys in an index over `columns` (from 0, the last is time)?
fn is_keyed(chunk: &Chunk, columns: &[usize]) -> bool {
    let header = &chunk.header;
    header.has(FLAG_SORTED) && !header.has(FLAG_UNKEYED) && own_columns(chunk) == columns
}

/// Columns (from 0) by which the rows of a chunk are sorted, time last.
pub fn own_columns(chunk: &Chunk) -> Vec<usize> {
    chunk.statics.columns_of_order()
}

/// A time as a datum of an attribute of `length` bytes.
pub fn time_datum(time: i64, length: i16) -> Datum {
    let value = match length {
        2 => i64::from(time as i16),
        4 => i64::from(time as i32),
        _ => time,
    };
    Datum::from(value as usize)
}

/// A datum of an attribute of `length` bytes as a time.
pub fn time_value(value: Datum, length: i16) -> i64 {
    match length {
        2 => i64::from(value.value() as i16),
        4 => i64::from(value.value() as i32),
        _ => value.value() as i64,
    }
}

/// Enters the header at `at` of a chunk, of which these rows are gone, into all series indexes of its table.
pub fn index_header(table: Table<'_>, chunk: &Reader, gone: &DeleteMap, at: Tid) {
    SeriesIndexes::open(table).enter_header(chunk, gone, at);
}
