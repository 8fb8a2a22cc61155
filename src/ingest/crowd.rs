//! Fresh chunks wait for compact where every reader of the table, or of a series, looks at all of them (docs/design/0019). So only as many
//! small ones may wait there as a reader does not mind; the next batches go to the tail, where each row is found by itself.

use crate::catalog::layout::{self, Layout};
use crate::chunk::datum::Datums;
use crate::chunk::encode::{self, Part};
use crate::chunk::index_entries;
use crate::chunk::row_set::{Order, RowSet};
use crate::guc;
use crate::pg::error;
use crate::pg::nbtree::{strategy, EntryScan};
use crate::pg::page::{PageCursor, TupleState};
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::TransactionId;
use crate::series_index::section;
use varve_columns::tuple::header::{self, StorageTuple, FLAG_TOMBSTONE};

/// A batch of so many rows makes full chunks, of which there are never too many.
const FULL_ROWS: usize = 65_536;
/// How many times the rows of the smallest batch give room for as many more chunks again.
const DOUBLINGS: f64 = 4.0;
/// Entries that are read. Where there are more, nobody counts.
const MOST_ENTRIES: usize = 10_000;

/// Do as many fresh chunks of `table` wait as should, for a batch of these rows, where its own would? The more rows, the more may wait:
/// what they cost a reader grows with the logarithm of the batch at most.
///
/// `table` must be open for writing, `order` that of `rows` by `layout`.
pub fn is_crowded(table: Table<'_>, rows: &RowSet, layout: &Layout, order: &Order) -> bool {
    if rows.rows >= FULL_ROWS || guc::compresses_everything() {
        return false;
    }
    let doublings = (rows.rows as f64 / guc::batch_rows() as f64).log2();
    let most = (guc::fresh_chunks() as f64 * (1.0 + doublings / DOUBLINGS)) as usize;
    let columns: Vec<_> = layout.keys.iter().chain(&layout.time).copied().collect();
    let mut indexes = layout::series_indexes(table).into_iter();
    let own = indexes.find(|index| layout::index_columns(index.rel()) == columns);
    let Some(index) = own else { return false };
    // Long series have sections of their own; the first of them stands for all.
    let parts = encode::divide(order, rows);
    let shared = parts.iter().find(|part| !part.one_series);
    let own = parts.iter().find(|part| part.one_series);
    let is_full = |part: &Part| {
        let first = layout.keys.first().filter(|_| part.one_series);
        let first = first.map(|&key| {
            let columns = rows.gather(&order.rows[part.rows.start..=part.rows.start]);
            let attribute = &index.rel().attributes()[0];
            Datums::from_column(&columns[usize::from(key) - 1], attribute.attlen)
        });
        has_fresh(table, index.rel(), first.as_ref(), most)
    };
    shared.is_some_and(is_full) || own.is_some_and(is_full)
}

/// Do `most` fresh chunks wait in a section of the index: that of a first key, or of all series?
fn has_fresh(table: Table<'_>, index: Index<'_>, first: Option<&Datums>, most: usize) -> bool {
    let first = first.map(|datums| datums.get(0));
    let mut headers = Vec::new();
    // SAFETY: table and index are open. Nothing is fetched by the entries, so any snapshot will do.
    unsafe {
        let mut keys = section::all_null(index);
        if let Some((value, false)) = first {
            keys[0] = ScanKey::new(index, 0, strategy::EQUAL, value);
        }
        let any = Snapshot::any();
        let mut entries = EntryScan::begin(index, any, keys.len());
        entries.restart(&keys);
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            headers.extend(index_entries::header_of_entry(entry.tid));
            if headers.len() == MOST_ENTRIES {
                break;
            }
        }
        entries.end();
        if headers.len() < most || headers.len() == MOST_ENTRIES {
            return headers.len() >= most;
        }
        let horizon = table.horizon();
        let blocks = table.blocks();
        let mut cursor = PageCursor::new(table);
        let mut fresh = headers
            .into_iter()
            .filter(|&at| is_fresh(&mut cursor, at, blocks, horizon));
        most == 0 || fresh.nth(most - 1).is_some()
    }
}

/// Is the header at `at` that of a fresh chunk, of a transaction in progress too, that waits for compact?
///
/// # Safety
/// The cursor's table must be open, and have so many `blocks` at least; `horizon` must be its.
unsafe fn is_fresh(cursor: &mut PageCursor, at: Tid, blocks: u32, horizon: TransactionId) -> bool {
    // SAFETY: the caller's contract; the page is pinned and locked.
    unsafe {
        let Some((cursor, item)) = cursor.pinned(at, blocks) else {
            return false;
        };
        cursor.locked(|page| {
            let body = item.body();
            let Ok(StorageTuple::Header(header)) = header::decode(body) else {
                return false;
            };
            let state = cursor.state_of(page, item, horizon);
            header.level == 0
                && !header.has(FLAG_TOMBSTONE)
                && matches!(
                    state,
                    TupleState::Live | TupleState::Coming | TupleState::Going
                )
        })
    }
}
