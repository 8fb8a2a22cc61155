//! Size estimates and the like: callbacks that concern the table as a whole.

use crate::pg::page::PageCursor;
use crate::pg::relation;
use crate::pg::tuple;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use varve_columns::tuple::header;

/// Pages that are looked at to estimate the number of rows of a table.
const SAMPLED_PAGES: u32 = 32;

struct Estimate {
    file: pg_sys::Oid,
    pages: u32,
    rows_per_page: f64,
}

thread_local! {
    static ESTIMATES: RefCell<HashMap<pg_sys::Oid, Estimate>> = RefCell::default();
}

#[pg_guard]
pub unsafe extern "C-unwind" fn relation_toast_am(_table: pg_sys::Relation) -> pg_sys::Oid {
    // Values too large for a tail row are toasted as heap does it.
    pg_sys::HEAP_TABLE_AM_OID
}

/// Logical rows and all pages. `pg_class.reltuples` counts tuples for VACUUM's sake, so rows are
/// estimated from a few pages: each piece says for how many rows it stands. A backend keeps the density
/// until the table has grown by a tenth.
#[pg_guard]
pub unsafe extern "C-unwind" fn relation_estimate_size(
    table: pg_sys::Relation,
    _widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    tuples: *mut f64,
    all_visible: *mut f64,
) {
    // SAFETY: called by the planner with an open relation.
    unsafe {
        let blocks = relation::blocks(table);
        *pages = blocks;
        *tuples = (rows_per_page(table, blocks) * f64::from(blocks)).round();
        let visible = f64::from((*(*table).rd_rel).relallvisible);
        *all_visible = if blocks == 0 {
            0.0
        } else {
            (visible / f64::from(blocks)).clamp(0.0, 1.0)
        };
    }
}

unsafe fn rows_per_page(table: pg_sys::Relation, blocks: u32) -> f64 {
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
unsafe fn sample_rows_per_page(table: pg_sys::Relation, blocks: u32) -> f64 {
    if blocks == 0 {
        return 0.0;
    }
    let looked = blocks.min(SAMPLED_PAGES);
    let mut cursor = PageCursor::new(table);
    let mut rows = 0.0;
    for at in 0..looked {
        cursor.go((u64::from(at) * u64::from(blocks) / u64::from(looked)) as u32);
        rows += cursor.locked(|page| {
            page.tuples()
                // SAFETY: the page is pinned and locked.
                .map(|item| unsafe {
                    let body = tuple::body(item.header, item.len);
                    if tuple::attribute_count(item.header) == 0 && header::is_storage(body) {
                        header::rows_share(body)
                    } else {
                        1.0
                    }
                })
                .sum::<f64>()
        });
    }
    rows / f64::from(looked)
}
