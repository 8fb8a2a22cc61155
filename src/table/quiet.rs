//! What has changed in a table since compact was done with it.
//!
//! Whoever changes a page clears its bit in the visibility map, so all that is new lies on pages without one, until VACUUM sets it
//! again. Compact vacuums too. When it is done it writes 0 as `pg_class.relallvisible`, whatever the map says: the table is *settled*.
//! Everything else that sets bits, or asks for another look, writes the true number there: VACUUM (`unsettle`, before it sets the
//! first), ANALYZE, CREATE INDEX; a new file has none, and no number of rows. In a settled table
//!
//! * there is nothing to do while all pages have their bits, and
//! * headers without rows, to which no series index leads, are on pages without a bit.
//!
//! The planner reads `relallvisible` for index-only scans, which gain nothing on a varve table. Such numbers are written in place and
//! at once, in the order of the log: no bit outlives a crash that the number before it did not.

use crate::pg::error;
use crate::pg::relation::Table;
use crate::pg::vacuum;
use crate::pg::visibility_map::{self, VisibilityMap};

/// Has compact left nothing to be done but on pages without a bit in the visibility map?
///
/// `table` must be open with the lock of VACUUM.
pub fn is_settled(table: Table<'_>) -> bool {
    let (pages, rows, all_visible) = vacuum::statistics(table);
    all_visible == 0 && pages > 0 && rows >= 0.0
}

/// Number of pages without a bit in the visibility map.
pub fn changed_count(table: Table<'_>) -> u32 {
    table.blocks().saturating_sub(visibility_map::count(table))
}

/// Pages without a bit in the visibility map, ascending.
pub fn changed_pages(table: Table<'_>) -> Vec<u32> {
    // SAFETY: the table is open, and has so many pages.
    let pages = unsafe { visibility_map::changed_pages(table, table.blocks(), usize::MAX) };
    pages.unwrap_or_default()
}

/// Has a page a bit in the visibility map?
pub fn is_any_visible(table: Table<'_>, pages: &[u32]) -> bool {
    let mut map = VisibilityMap::of(table);
    let blocks = table.blocks();
    pages.iter().filter(|&&block| block < blocks).any(|&block| {
        error::check_interrupts();
        map.is_visible(block)
    })
}

/// Writes that there is nothing left to be done.
pub fn settle(table: Table<'_>) {
    store(table, 0)
}

/// Writes that somebody has to look at all pages again: before bits are set for other reasons.
pub fn unsettle(table: Table<'_>) {
    if is_settled(table) {
        store(table, visibility_map::count(table).max(1));
    }
}

fn store(table: Table<'_>, all_visible: u32) {
    let (pages, rows, _) = vacuum::statistics(table);
    if pages <= 0 || rows < 0.0 {
        return;
    }
    vacuum::store_statistics(table, pages as u32, f64::from(rows), all_visible);
}
