//! Indexes that were large when many rows were in the tail. VACUUM empties their pages, but an index never gives them back. Where little
//! of one is left, it is built again, under locks that can be had without waiting.

use crate::catalog::layout;
use crate::pg::error::{self, Code};
use crate::pg::index_rebuild;
use crate::pg::leaves;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags;
use crate::pg::nbtree::EntryScan;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::relation_lookup;
use crate::pg::snapshot::Snapshot;
use crate::pg::vacuum;
use crate::pg::{Oid, BLCKSZ};
use crate::unique::known;
use core::ops::RangeInclusive;

/// Fewer pages than this are not worth a new file.
const LEAST_PAGES: u64 = 16;
/// What a build walks over, table and index, is at most so many times what is given back.
const WORTH: u64 = 10;
/// Pages that a first look reads: such a part of an index, within these bounds.
const SAMPLED_PART: u32 = 64;
const SAMPLED_PAGES: RangeInclusive<u32> = 16..=256;
/// Bytes of a leaf page that a build fills with entries.
const LEAF_BYTES: u64 = (BLCKSZ as u64 - 40) * 9 / 10;
/// Entries of a page that leads to others, at the least.
const FAN_OUT: u64 = 3;

/// Entries of an index of another kind that is judged without being read.
const FEW_ENTRIES: f64 = 1000.0;
/// Of such entries so many take a page, where they are long.
const LONG_PER_PAGE: u64 = 4;

/// The indexes of a table that would be much smaller if they were built again: btrees and series indexes, and those of core's other kinds of which little
/// is left. BRIN indexes do not grow by what was in the tail, and what a build of an extension's costs nobody knows.
///
/// `table` must be open with a lock, the snapshot be active.
pub fn bloated(table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<Oid> {
    if !vacuum::may_truncate(table) {
        return Vec::new();
    }
    let series = layout::index_am();
    table
        .index_oids()
        .into_iter()
        .filter(|&oid| {
            let index = OpenIndex::open(oid, LockMode::AccessShare);
            let index = index.rel();
            index.form().indisvalid
                && match index.is_btree() || index.class().relam == series {
                    true => is_bloated(table, index, snapshot),
                    false => index.is_of_growing_kind() && is_nearly_empty(table, index),
                }
        })
        .collect()
}

/// Is it worth while to build an index anew that needs so many pages then?
fn is_worth(table: Table<'_>, index: Index<'_>, needed: u64) -> bool {
    let pages = u64::from(index.blocks());
    let total = u64::from(table.blocks()) + pages;
    pages >= needed + LEAST_PAGES && (pages - needed) * WORTH >= total
}

/// The number of entries in the catalog tells nothing: ANALYZE puts the table's rows there.
fn is_bloated(table: Table<'_>, index: Index<'_>, snapshot: Snapshot<'_>) -> bool {
    if !is_worth(table, index, 1) {
        return false;
    }
    let sampled = index.blocks() / SAMPLED_PART;
    let sampled = sampled.clamp(*SAMPLED_PAGES.start(), *SAMPLED_PAGES.end());
    // SAFETY: the index is open.
    let bytes = unsafe { leaves::filled_bytes(index, sampled) };
    is_worth(table, index, (bytes / LEAF_BYTES as f64) as u64 + 1)
        && is_worth(table, index, needed_pages(index, snapshot))
}

/// Has an index of which only the number of entries is known so few that it is small, however long they are? Where ANALYZE has come after the
/// last vacuum, the number is that of the table's rows, and the next vacuum will tell.
fn is_nearly_empty(table: Table<'_>, index: Index<'_>) -> bool {
    let entries = f64::from(index.class().reltuples);
    (0.0..=FEW_ENTRIES).contains(&entries)
        && is_worth(table, index, 1 + entries as u64 / LONG_PER_PAGE)
}

/// Pages of an index that is built of the entries that there are; what equal ones would save is left out.
fn needed_pages(index: Index<'_>, snapshot: Snapshot<'_>) -> u64 {
    let mut bytes = 0;
    // SAFETY: the index is open, the snapshot valid; each entry stays until the next one is asked for.
    unsafe {
        let mut entries = EntryScan::begin(index, snapshot, 0);
        entries.restart(&[]);
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            let length = entry.bytes() as u64;
            bytes += length.next_multiple_of(8) + 4;
        }
        entries.end();
    }
    let leaves = bytes.div_ceil(LEAF_BYTES);
    1 + leaves + leaves.div_ceil(FAN_OUT)
}

/// `rebuild`, where the table may be damaged: what is wrong is returned, and the transaction must be rolled back then.
pub fn try_rebuild(table: Table<'_>, index: Oid) -> Result<bool, String> {
    error::caught(Code::ERRCODE_DATA_CORRUPTED, move || rebuild(table, index))
}

/// Builds an index of an open table again unless somebody is at the table or the index, and says whether it has. Readers wait for the index, and writers for
/// the table, until the transaction ends.
///
/// Must run in a transaction of its own, with an active snapshot.
fn rebuild(table: Table<'_>, index: Oid) -> bool {
    let is_free = lock_tags::try_lock_relation(table.oid(), LockMode::Share)
        && lock_tags::try_lock_relation(index, LockMode::AccessExclusive);
    if is_free && relation_lookup::table_of_index(index) == Some(table.oid()) {
        // SAFETY: the index is one of the table's, and locked; nothing of it stays open.
        known::while_built_again(|| unsafe { index_rebuild::rebuild(table, index, true) });
    }
    is_free
}
