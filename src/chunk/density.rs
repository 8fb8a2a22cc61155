//! How many rows there are on some pages: each piece of a chunk says for how many rows it stands, and each header how many of
//! its rows are gone, with the notes that it names.

use super::notes;
use crate::pg::error;
use crate::pg::page::{Page, PageCursor, PageTuple, TupleState};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::pg::vacuum;
use crate::pg::TransactionId;
use std::ops::Range;
use varve_columns::tuple::header::{self, Header, Section, StorageTuple, FLAG_TOMBSTONE};
use varve_columns::tuple::statics::Statics;

/// Pages that VACUUM looks at once more, for `pg_class.reltuples`: 32 MB.
const VACUUM_PAGES: u32 = 4096;
/// The planner looks at the notes of headers that name no more: bulk statements leave one each, and single rows do not count.
pub const FEW_NOTES: usize = 2;

/// What was found on pages that were looked at.
#[derive(Clone, Copy)]
pub struct Density {
    /// Rows of the pages that were looked at.
    pub seen: f64,
    pub rows_per_page: f64,
    /// The standard error of `rows_per_page`, unless all pages were looked at.
    pub error: Option<f64>,
    pub has_chunks: bool,
}

/// Rows of a chunk whose header was read.
pub struct CountedChunk {
    pub chunk: u64,
    pub rows: f64,
    /// Columns (from 0) by which it is sorted, where the header alone tells.
    pub columns: Option<Vec<usize>>,
}

/// Writes the number of rows of a table with chunks to `pg_class`, and tells it to views of statistics, after a vacuum has written the number of
/// its tuples.
///
/// `table` must be open with the lock of VACUUM.
pub fn store_rows(table: Table<'_>) {
    let blocks = table.blocks();
    let found = look_at(table, 0..blocks, VACUUM_PAGES, &[], usize::MAX);
    if found.has_chunks {
        vacuum::store_counted(table, found.rows_per_page.max(0.0) * f64::from(blocks));
    }
}

/// One page of this many that are looked at is one of the last, where the newest load lies, however few pages it has.
const OF_THE_END: u32 = 4;

/// Rows of at most `most` pages, but for those of chunks that were counted: the last pages of `pages`, and others that lie evenly
/// spread over those before. `most_notes` as for `rows_of_pages`.
pub fn look_at(
    table: Table<'_>,
    pages: Range<u32>,
    most: u32,
    counted: &[CountedChunk],
    most_notes: usize,
) -> Density {
    let blocks = pages.end - pages.start;
    let looked = blocks.min(most);
    let at_end = if looked < blocks {
        looked / OF_THE_END
    } else {
        0
    };
    let (blocks_before, spread) = (blocks - at_end, looked - at_end);
    let places = (0..spread).map(|at| {
        let offset = u64::from(at) * u64::from(blocks_before) / u64::from(spread);
        pages.start + offset as u32
    });
    let places = places.chain(pages.start + blocks_before..pages.end);
    // SAFETY: the table is open.
    let (rows, has_chunks) = unsafe { rows_of_pages(table, places, counted, most_notes) };
    let (before, end) = rows.split_at(spread as usize);
    let divisor = f64::from(spread.max(1));
    let mean = before.iter().sum::<f64>() / divisor;
    let squares = before.iter().map(|rows| (rows - mean).powi(2)).sum::<f64>();
    let per_page = |of_pages_before: f64| {
        of_pages_before * f64::from(blocks_before) / f64::from(blocks.max(1))
    };
    Density {
        seen: rows.iter().sum(),
        rows_per_page: per_page(mean) + end.iter().sum::<f64>() / f64::from(blocks.max(1)),
        error: (looked < blocks).then(|| per_page(squares.sqrt() / divisor)),
        has_chunks,
    }
}

/// Rows of each of some pages, but for those of chunks that were counted, and whether any has a part of a chunk. What headers with more than
/// `most_notes` notes name there is not looked at.
///
/// # Safety
/// `table` must be open, and have these pages.
pub unsafe fn rows_of_pages(
    table: Table<'_>,
    pages: impl Iterator<Item = u32>,
    counted: &[CountedChunk],
    most_notes: usize,
) -> (Vec<f64>, bool) {
    let mut cursor = PageCursor::new(table);
    let mut has_chunks = false;
    let horizon = table.horizon();
    let rows_of_page = |block: u32| {
        error::check_interrupts();
        cursor.go(block);
        // Notes are on other pages.
        let mut noted: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut rows = 0.0;
        cursor.locked(|page: &Page| {
            for item in page.tuples() {
                // SAFETY: the page is locked.
                let alive = unsafe { is_alive(&cursor, page, item, horizon) };
                let Some(body) = storage_body(item) else {
                    rows += f64::from(u8::from(alive));
                    continue;
                };
                has_chunks = true;
                let chunk = header::chunk_id(body);
                if alive && !counted.iter().any(|known| known.chunk == chunk) {
                    rows += rows_of(body);
                    let slots = &body[header::slots_start(body).min(body.len())..];
                    if slots.iter().any(|&byte| byte != 0) {
                        noted.push((chunk, slots.to_vec()));
                    }
                }
            }
        });
        for (chunk, slots) in noted {
            let gone = notes::rows_gone(table, chunk, &slots, most_notes);
            rows -= f64::from(gone.unwrap_or(0));
        }
        rows
    };
    let rows = pages.map(rows_of_page).collect();
    (rows, has_chunks)
}

/// Counts the rows of the chunk whose header is at `at`, if that is alive.
pub fn count_chunk(table: Table<'_>, at: Tid) -> Option<CountedChunk> {
    // SAFETY: the table is open; the page is pinned and locked.
    unsafe {
        let horizon = table.horizon();
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned(at, table.blocks())?;
        let header = cursor.locked(|page| {
            let body = storage_body(item).filter(|_| is_alive(cursor, page, item, horizon))?;
            match header::decode(body) {
                Ok(StorageTuple::Header(header)) => Some(header),
                _ => None,
            }
        })?;
        let gone = notes::rows_gone(table, header.chunk, &header.slots, FEW_NOTES).unwrap_or(0);
        Some(CountedChunk {
            chunk: header.chunk,
            rows: f64::from(header.rows.saturating_sub(header.deleted + gone)),
            columns: inline_statics(&header).map(|statics| statics.columns_of_order()),
        })
    }
}

/// Was a tuple written by who has committed, or by this transaction, and not deleted by who has committed?
///
/// # Safety
/// The tuple must be on `page`, which the cursor has locked.
unsafe fn is_alive(
    cursor: &PageCursor<'_>,
    page: &Page<'_>,
    item: PageTuple<'_>,
    horizon: TransactionId,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        match cursor.state_of(page, item, horizon) {
            TupleState::Live | TupleState::Going => true,
            // Rows of this transaction are there for its own queries.
            TupleState::Coming => transaction::is_current(tuple::xmin(item.header())),
            _ => false,
        }
    }
}

/// The body of a tuple that is a storage tuple.
fn storage_body<'p>(item: PageTuple<'p>) -> Option<&'p [u8]> {
    let body = item.body();
    (item.attribute_count() == 0 && header::is_storage(body)).then_some(body)
}

/// Rows that a storage tuple stands for: a piece says it itself; a header takes off those that are gone,
/// and counts all where all columns are constant and there are no pieces.
fn rows_of(body: &[u8]) -> f64 {
    let Ok(StorageTuple::Header(header)) = header::decode(body) else {
        return header::rows_share(body);
    };
    if header.has(FLAG_TOMBSTONE) {
        return 0.0;
    }
    let lacks_pieces =
        inline_statics(&header).is_some_and(|statics| statics.payload.tids.is_empty());
    let stored = if lacks_pieces { header.rows } else { 0 };
    f64::from(stored) - f64::from(header.deleted)
}

/// What a header says of itself, where it does so in its own tuple.
fn inline_statics(header: &Header) -> Option<Statics> {
    match &header.statics {
        Section::Inline(bytes) => Statics::decode(bytes).ok(),
        Section::Spilled { .. } => None,
    }
}
