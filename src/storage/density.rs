//! How many rows a table has, from some of its pages: each piece of a chunk says for how many rows it stands,
//! and each header how many of its rows are gone.

use crate::pg::error;
use crate::pg::page::{Page, PageCursor};
use crate::pg::relation;
use crate::pg::tuple;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::HashMap;
use varve_columns::tuple::header::{self, Section, StorageTuple, FLAG_TOMBSTONE};
use varve_columns::tuple::statics::Statics;

/// Pages that the planner's estimate looks at.
const PLANNER_PAGES: u32 = 32;
/// Pages that VACUUM looks at once more, for `pg_class.reltuples`: 32 MB.
const VACUUM_PAGES: u32 = 4096;

/// What a backend keeps until the table has grown by a tenth.
struct Estimate {
    file: pg_sys::Oid,
    pages: u32,
    rows_per_page: Option<f64>,
}

thread_local! {
    static ESTIMATES: RefCell<HashMap<pg_sys::Oid, Estimate>> = RefCell::default();
}

/// Rows per page for the planner, `None` where no page that was looked at has a storage tuple.
///
/// # Safety
/// `table` must be open.
pub unsafe fn known_rows_per_page(table: pg_sys::Relation, blocks: u32) -> Option<f64> {
    // SAFETY: by contract.
    let (oid, file) = unsafe { (relation::oid(table), relation::file_number(table)) };
    let known = ESTIMATES.with_borrow(|estimates| {
        estimates
            .get(&oid)
            .filter(|estimate| {
                estimate.file == file
                    && blocks > PLANNER_PAGES
                    && blocks.abs_diff(estimate.pages) <= estimate.pages / 10
            })
            .map(|estimate| estimate.rows_per_page)
    });
    known.unwrap_or_else(|| {
        // SAFETY: by contract.
        let rows_per_page = unsafe { rows_per_page(table, blocks, PLANNER_PAGES) };
        let estimate = Estimate {
            file,
            pages: blocks,
            rows_per_page,
        };
        ESTIMATES.with_borrow_mut(|estimates| estimates.insert(oid, estimate));
        rows_per_page
    })
}

/// Writes the number of rows of a table with chunks to `pg_class`, after a vacuum has written the number of
/// its tuples.
///
/// # Safety
/// `table` must be open with the lock of VACUUM.
pub unsafe fn store_rows(table: pg_sys::Relation) {
    // SAFETY: by contract.
    unsafe {
        let blocks = relation::blocks(table);
        let Some(rows_per_page) = rows_per_page(table, blocks, VACUUM_PAGES) else {
            return;
        };
        let (mut all_visible, mut all_frozen) = (0, 0);
        pg_sys::visibilitymap_count(table, &mut all_visible, &mut all_frozen);
        pg_sys::vac_update_relstats(
            table,
            blocks,
            (rows_per_page * f64::from(blocks)).round(),
            all_visible,
            !relation::index_oids(table).is_empty(),
            pg_sys::InvalidTransactionId,
            pg_sys::MultiXactId::from(0),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            false,
        );
    }
}

/// Rows per page over at most `most` pages that lie evenly spread.
unsafe fn rows_per_page(table: pg_sys::Relation, blocks: u32, most: u32) -> Option<f64> {
    let looked = blocks.min(most);
    let mut cursor = PageCursor::new(table);
    let (mut rows, mut has_chunks) = (0.0, false);
    // SAFETY: the callers' contract.
    let horizon = unsafe { pg_sys::GetOldestNonRemovableTransactionId(table) };
    for at in 0..looked {
        error::check_interrupts();
        cursor.go((u64::from(at) * u64::from(blocks) / u64::from(looked)) as u32);
        let buffer = cursor.buffer();
        // SAFETY: the page is pinned and locked.
        rows +=
            cursor.locked(|page| unsafe { rows_on(table, page, buffer, horizon, &mut has_chunks) });
    }
    has_chunks.then(|| f64::max(rows, 0.0) / f64::from(looked))
}

unsafe fn rows_on(
    table: pg_sys::Relation,
    page: &Page,
    buffer: pg_sys::Buffer,
    horizon: pg_sys::TransactionId,
    has_chunks: &mut bool,
) -> f64 {
    let mut rows = 0.0;
    for item in page.tuples() {
        // SAFETY: the caller's contract.
        unsafe {
            let mut found = item.to_heap_tuple(relation::oid(table));
            let alive = matches!(
                pg_sys::HeapTupleSatisfiesVacuum(&mut found, horizon, buffer),
                pg_sys::HTSV_Result::HEAPTUPLE_LIVE
                    | pg_sys::HTSV_Result::HEAPTUPLE_DELETE_IN_PROGRESS
            );
            let body = tuple::body(item.header, item.len);
            let stored = tuple::attribute_count(item.header) == 0 && header::is_storage(body);
            *has_chunks |= stored;
            rows += match (alive, stored) {
                (false, _) => 0.0,
                (true, false) => 1.0,
                (true, true) => rows_of(body),
            };
        }
    }
    rows
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
    let lacks_pieces = match &header.statics {
        Section::Inline(bytes) => {
            Statics::decode(bytes).is_ok_and(|statics| statics.payload.tids.is_empty())
        }
        Section::Spilled { .. } => false,
    };
    let stored = if lacks_pieces { header.rows } else { 0 };
    f64::from(stored) - f64::from(header.deleted)
}
