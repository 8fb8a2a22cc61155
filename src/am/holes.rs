//! Rows that came to pages that `pg_class` knows already, into space that was free there: they are not in its number of rows. Whoever
//! changes a page clears its bit in the visibility map. Few such pages are counted, which tells how many new rows there may be; the
//! server's counts of inserts tell how many there are, as far as they have been reported.

use crate::catalog::chunk_marker;
use crate::chunk::density;
use crate::pg::activity;
use crate::pg::relation::Table;
use crate::pg::transaction;
use crate::pg::visibility_map;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::HashMap;

/// Pages that are counted.
pub const PAGES: usize = 28;
/// Pages without a bit of which the counted ones are chosen.
const MOST_CHANGED: usize = 1 << 16;
/// How long a number is kept.
const KEPT_US: u64 = 1_000_000;

/// What `pg_class` states of a table.
pub struct Stated {
    pub pages: u32,
    pub rows: f64,
    /// How many of these pages have no bit now, and how many have lost it since, where that is known.
    pub lacking: u32,
    pub changed: Option<u32>,
}

/// What a backend keeps for a while.
#[derive(Clone, Copy)]
struct Known {
    file: pg_sys::Oid,
    since: pg_sys::TimestampTz,
    /// Pages and rows as stated, and pages without a bit.
    of: (u32, u64, u32),
    rows: Option<f64>,
}

thread_local! {
    static KNOWN: RefCell<HashMap<pg_sys::Oid, Known>> = RefCell::default();
}

/// Rows of the stated pages, of a table that has had chunks; `None` where what is stated will do. `behind` are those of other pages.
pub fn rows(table: Table<'_>, stated: &Stated, behind: f64) -> Option<f64> {
    let may_be_wrong = match stated.changed {
        Some(_) => stated.lacking > 0,
        None => stated.pages as usize <= PAGES,
    };
    if !may_be_wrong || stated.pages == 0 {
        return None;
    }
    // SAFETY: the table is open.
    unsafe {
        let (oid, file, now) = (
            table.oid(),
            table.file_number(),
            transaction::statement_started(),
        );
        let of = (stated.pages, stated.rows.to_bits(), stated.lacking);
        let known = KNOWN.with_borrow(|all| {
            let fits = |known: &&Known| {
                known.file == file && known.of == of && now.abs_diff(known.since) < KEPT_US
            };
            all.get(&oid).filter(fits).copied()
        });
        let known = known.unwrap_or_else(|| {
            let rows = chunk_marker::is_marked(table)
                .then(|| count(table, stated, behind))
                .flatten();
            let since = now;
            let known = Known {
                file,
                since,
                of,
                rows,
            };
            KNOWN.with_borrow_mut(|all| all.insert(oid, known));
            known
        });
        known.rows
    }
}

/// Counts the rows of the stated pages, or estimates them by those of a few.
///
/// # Safety
/// `table` must be open, and have the stated pages. Within a guarded entry point.
unsafe fn count(table: Table<'_>, stated: &Stated, behind: f64) -> Option<f64> {
    // SAFETY: the caller's contract.
    unsafe {
        if stated.pages as usize <= PAGES && stated.lacking == stated.pages {
            let (rows, _) = density::rows_of_pages(table, 0..stated.pages, &[], density::FEW_NOTES);
            return Some(rows.iter().sum::<f64>().max(0.0));
        }
        let changed = stated.changed?;
        let (least, most) = bounds(table, stated, changed);
        let inserted = activity::inserts_since_vacuum(table).unwrap_or(0.0) - behind;
        // What was inserted may have been counted when it was not yet reported. Of the two numbers neither is far from this one.
        let few = stated.rows + least;
        let many = stated.rows + inserted.min(most).max(least);
        Some((few * many).sqrt())
    }
}

/// How many rows are new on the stated pages at least, and at most: the second is no greater than the first and all rows that are stated.
///
/// # Safety
/// As `count`.
unsafe fn bounds(table: Table<'_>, stated: &Stated, changed: u32) -> (f64, f64) {
    // SAFETY: the caller's contract.
    let Some(pages) = (unsafe { visibility_map::changed_pages(table, stated.pages, MOST_CHANGED) })
    else {
        return (0.0, stated.rows);
    };
    let step = pages.len().div_ceil(PAGES).max(1);
    let looked = pages.iter().copied().step_by(step);
    // SAFETY: as above.
    let (mut rows, _) = unsafe { density::rows_of_pages(table, looked, &[], density::FEW_NOTES) };
    // There are not fewer on them than were stated for all, which is only known of all of them; and any of them may be those that
    // were changed.
    let least = match step {
        1 => (rows.iter().sum::<f64>() - stated.rows).max(0.0),
        _ => 0.0,
    };
    rows.sort_by(|a, b| b.total_cmp(a));
    let fullest = rows.iter().take((changed as usize).div_ceil(step));
    let most = fullest.sum::<f64>() * step as f64;
    (least, most.clamp(least, least + stated.rows))
}
