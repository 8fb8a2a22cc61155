//! How many rows the planner is told that a table has. `pg_class` states it as of the last VACUUM, ANALYZE or compact, for as many
//! pages as there were. What came behind these is estimated from some pages; all pages, where many were changed since or nothing is
//! stated. Chunks can have ten thousand rows on a page between pages of a hundred: as many as a few look-ups in a
//! series index find are counted by their headers; and of a table of which nothing was stated ever, the server has counted the rows.

use super::holes::{self, Stated};
use super::series_index;
use crate::catalog::layout;
use crate::chunk::density::{self, CountedChunk, Density};
use crate::chunk::index_entries;
use crate::pg::activity;
use crate::pg::nbtree::EntryScan;
use crate::pg::open::OpenIndex;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::visibility_map;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::HashMap;

/// Pages that are looked at, less one for each chunk that was counted.
const PAGES: u32 = 28;
/// Chunks that are counted.
const MOST_COUNTED: usize = 16;
/// Entries that are read of the section of chunks that may have any series, and from the first series on.
const MOST_ENTRIES: usize = 300;
/// Line pointers of a page at most.
const MOST_TUPLES_PER_PAGE: f64 = 291.0;
/// How long an estimate is kept.
const KEPT_US: u64 = 1_000_000;

/// What a backend keeps for a while, until the table has grown by a tenth.
#[derive(Clone, Copy)]
struct Estimate {
    file: pg_sys::Oid,
    /// When the statement began that asked first.
    since: pg_sys::TimestampTz,
    /// The first page that `pg_class` does not know, and the number of pages.
    pages: (u32, u32),
    /// Rows of chunks that were counted, and of the pages that were looked at, of which those are not.
    counted: f64,
    density: Density,
    has_chunks: bool,
}

/// How many times its standard error a number of rows may be away from what some pages say.
const MOST_ERRORS: f64 = 3.0;

impl Estimate {
    /// Rows of `pages` pages: the server's count, where that is one which the pages that were looked at do not rule out. It may be late.
    fn rows(&self, pages: u32, live: Option<f64>) -> f64 {
        let pages = f64::from(pages);
        let found = self.counted + self.density.rows_per_page * pages;
        let (Some(error), Some(live)) = (self.density.error, live) else {
            return found;
        };
        let least = found - MOST_ERRORS * error * pages;
        if live < least.max(self.counted + self.density.seen) {
            return found;
        }
        live
    }
}

thread_local! {
    static ESTIMATES: RefCell<HashMap<pg_sys::Oid, Estimate>> = RefCell::default();
}

/// Rows of a table of `blocks` pages, `None` where heap's own estimate will do: no chunk is in sight.
pub fn rows(table: Table<'_>, blocks: u32) -> Option<f64> {
    // SAFETY: the table is open.
    let stated = unsafe { stated(table, blocks) };
    let (first, is_dense) = (
        stated.pages,
        stated.rows > f64::from(stated.pages) * MOST_TUPLES_PER_PAGE,
    );
    let (mut behind, mut has_chunks) = (0.0, false);
    if first < blocks {
        // Where VACUUM or ANALYZE has counted rows, those that were reported later are counted twice.
        let is_exact = table.class().reltuples < 0.0;
        let live = is_exact.then(|| activity::live_rows(table)).flatten();
        let found = found_from(table, first, blocks);
        behind = found.rows(blocks - first, live);
        has_chunks = found.has_chunks;
    }
    let before = holes::rows(table, &stated, behind);
    (is_dense || has_chunks || before.is_some())
        .then_some((before.unwrap_or(stated.rows) + behind).max(0.0))
}

/// What `pg_class` states; nothing where rows are not known, or a quarter of the pages that nobody had to look at were changed since.
///
/// # Safety
/// `table` must be open, and have `blocks` pages.
unsafe fn stated(table: Table<'_>, blocks: u32) -> Stated {
    let nothing = Stated {
        pages: 0,
        rows: 0.0,
        lacking: 0,
        changed: None,
    };
    // SAFETY: the callers' contract.
    unsafe {
        let form = table.class();
        let (pages, rows) = (form.relpages, form.reltuples);
        if pages < 1 || rows < 0.0 {
            return nothing;
        }
        let pages = (pages as u32).min(blocks);
        let visible = visibility_map::visible_pages(table, blocks);
        // Compact writes none when it is done, and leaves bits; of tables that have none, it is not known whether they had any.
        let visible_then = match form.relallvisible {
            0 if visible == 0 => None,
            0 => Some(pages),
            some => Some((some as u32).min(pages)),
        };
        let changed = visible_then.map(|then| then.saturating_sub(visible));
        if changed.is_some_and(|changed| {
            changed as usize > holes::PAGES && changed > visible_then.unwrap_or(0) / 4
        }) {
            return nothing;
        }
        Stated {
            pages,
            rows: f64::from(rows),
            lacking: pages.saturating_sub(visible),
            changed,
        }
    }
}

/// What the pages from `first` on have, as this backend remembers it or finds it out. The table must have `blocks` pages, more than `first`.
fn found_from(table: Table<'_>, first: u32, blocks: u32) -> Estimate {
    let (oid, file, now) = (
        table.oid(),
        table.file_number(),
        transaction::statement_started(),
    );
    let known = ESTIMATES.with_borrow(|estimates| {
        let &estimate = estimates.get(&oid)?;
        let (first_then, blocks_then) = estimate.pages;
        let fits = estimate.file == file
            && first_then == first
            && now.abs_diff(estimate.since) < KEPT_US
            && blocks - first > PAGES
            && blocks.abs_diff(blocks_then) <= (blocks_then - first) / 10;
        fits.then_some(estimate)
    });
    known.unwrap_or_else(|| {
        let counted = if blocks - first > PAGES {
            count_some(table, first)
        } else {
            Vec::new()
        };
        let looked = PAGES - counted.len() as u32;
        let density = density::look_at(table, first..blocks, looked, &counted, density::FEW_NOTES);
        let estimate = Estimate {
            file,
            since: now,
            pages: (first, blocks),
            counted: counted.iter().map(|chunk| chunk.rows).sum(),
            density,
            has_chunks: density.has_chunks || !counted.is_empty(),
        };
        ESTIMATES.with_borrow_mut(|estimates| estimates.insert(oid, estimate));
        estimate
    })
}

/// Chunks with headers on pages from `first` on that a series index finds at once: those that may have any series, and those of
/// the first series.
fn count_some(table: Table<'_>, first: u32) -> Vec<CountedChunk> {
    let mut headers: Vec<Tid> = Vec::new();
    // SAFETY: the index stays open until the scan has ended, and nothing is fetched by it.
    unsafe {
        // One that is being built has no pages yet.
        let is_built = |index: &OpenIndex| {
            !pg_sys::ReindexIsProcessingIndex(index.rel().oid()) && index.rel().blocks() > 0
        };
        let Some(index) = layout::series_indexes(table).into_iter().find(is_built) else {
            return Vec::new();
        };
        let nulls = series_index::all_null(index.rel());
        let any = Snapshot::any();
        let mut entries = EntryScan::begin(index.rel(), any, nulls.len());
        for keys in [&nulls[..], &[]] {
            entries.restart(keys);
            let mut left = MOST_ENTRIES;
            while left > 0 && headers.len() < MOST_COUNTED {
                let Some(entry) = entries.next(true) else {
                    break;
                };
                left -= 1;
                let header = index_entries::header_of_entry(entry.tid);
                headers.extend(header.filter(|at| at.block >= first && !headers.contains(at)));
            }
        }
        entries.end();
        headers
            .into_iter()
            .filter_map(|at| density::count_chunk(table, at))
            .collect()
    }
}
