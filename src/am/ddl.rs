//! Size estimates and the like: callbacks that concern the table as a whole.

use super::scan::heap_callback;
use crate::pg::page::PageCursor;
use crate::pg::relation;
use crate::pg::tuple;
use crate::storage::marks;
use crate::table::changes;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use varve_columns::tuple::header::{self, Section, StorageTuple};
use varve_columns::tuple::statics::Statics;

/// Pages that are looked at to estimate the number of rows of a table.
const SAMPLED_PAGES: u32 = 32;

struct Estimate {
    file: pg_sys::Oid,
    pages: u32,
    rows_per_page: Option<f64>,
}

thread_local! {
    static ESTIMATES: RefCell<HashMap<pg_sys::Oid, Estimate>> = RefCell::default();
}

#[cfg(any(feature = "pg14", feature = "pg15"))]
type FileName = pg_sys::RelFileNode;
#[cfg(not(any(feature = "pg14", feature = "pg15")))]
type FileName = pg_sys::RelFileLocator;

/// SET TABLESPACE: the same bytes under another name.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_copy_data(
    table: pg_sys::Relation,
    to: *const FileName,
) {
    // SAFETY: called by core with the table locked exclusively.
    unsafe {
        changes::flush_before_rewrite(table);
        #[cfg(any(feature = "pg14", feature = "pg15"))]
        let number = (*to).relNode;
        #[cfg(not(any(feature = "pg14", feature = "pg15")))]
        let number = (*to).relNumber;
        marks::carry(table, number);
        heap_callback!(relation_copy_data, table, to);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn relation_toast_am(_table: pg_sys::Relation) -> pg_sys::Oid {
    // Values too large for a tail row are toasted as heap does it.
    pg_sys::HEAP_TABLE_AM_OID
}

/// What heap says, except for the number of rows of a table with chunks: `pg_class.reltuples` counts
/// tuples for VACUUM's sake, so rows are estimated from a few pages: each piece says for how many rows
/// it stands. A backend keeps the density until the table has grown by a tenth.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_estimate_size(
    table: pg_sys::Relation,
    widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    tuples: *mut f64,
    all_visible: *mut f64,
) {
    // SAFETY: called by the planner with an open relation.
    unsafe {
        heap_callback!(
            relation_estimate_size,
            table,
            widths,
            pages,
            tuples,
            all_visible
        );
        let blocks = relation::blocks(table);
        if let Some(rows_per_page) = rows_per_page(table, blocks) {
            *pages = blocks;
            *tuples = (rows_per_page * f64::from(blocks)).round();
        }
    }
}

/// Density of a table, `None` where no sampled page has a storage tuple.
unsafe fn rows_per_page(table: pg_sys::Relation, blocks: u32) -> Option<f64> {
    // SAFETY: the caller's contract.
    let (oid, file) = unsafe { (relation::oid(table), relation::file_number(table)) };
    let known = ESTIMATES.with_borrow(|estimates| {
        estimates
            .get(&oid)
            .filter(|estimate| {
                estimate.file == file
                    && blocks > SAMPLED_PAGES
                    && blocks.abs_diff(estimate.pages) <= estimate.pages / 10
            })
            .map(|estimate| estimate.rows_per_page)
    });
    known.unwrap_or_else(|| {
        // SAFETY: the caller's contract.
        let rows_per_page = unsafe { sample_rows_per_page(table, blocks) };
        ESTIMATES.with_borrow_mut(|estimates| {
            estimates.insert(
                oid,
                Estimate {
                    file,
                    pages: blocks,
                    rows_per_page,
                },
            );
        });
        rows_per_page
    })
}

/// Rows per page over pages that lie evenly spread.
unsafe fn sample_rows_per_page(table: pg_sys::Relation, blocks: u32) -> Option<f64> {
    let looked = blocks.min(SAMPLED_PAGES);
    let mut cursor = PageCursor::new(table);
    let (mut rows, mut has_chunks) = (0.0, false);
    for at in 0..looked {
        cursor.go((u64::from(at) * u64::from(blocks) / u64::from(looked)) as u32);
        rows += cursor.locked(|page| {
            page.tuples()
                // SAFETY: the page is pinned and locked.
                .map(|item| unsafe {
                    let body = tuple::body(item.header, item.len);
                    if tuple::attribute_count(item.header) == 0 && header::is_storage(body) {
                        has_chunks = true;
                        rows_of(body)
                    } else {
                        1.0
                    }
                })
                .sum::<f64>()
        });
    }
    has_chunks.then(|| rows / f64::from(looked))
}

/// Rows that a storage tuple stands for: a piece says it itself; the header counts where all columns are
/// constant and there are no pieces.
fn rows_of(body: &[u8]) -> f64 {
    let Ok(StorageTuple::Header(header)) = header::decode(body) else {
        return header::rows_share(body);
    };
    match &header.statics {
        Section::Inline(bytes)
            if Statics::decode(bytes).is_ok_and(|statics| statics.payload.tids.is_empty()) =>
        {
            f64::from(header.rows.saturating_sub(header.deleted))
        }
        _ => 0.0,
    }
}
