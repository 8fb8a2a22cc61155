//! Scans of a unique index with a dirty snapshot: how ON CONFLICT and the apply worker of logical replication
//! look for a key. After the entries of the tail come the compressed rows, by their virtual TIDs. Where a series index settles the key, its entries are
//! the tail's. All other scans are btree's own; the planner makes none of an index that has not all rows.

use crate::catalog::keys;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::table_fetch::TableFetch;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::unbound::{btendscan, btgettuple, btrescan};
use crate::table::fetched;
use crate::unique::find::{self, Answer, Key, Place, Search, FEW};
use crate::unique::key_cache::Since;
use crate::unique::tail;
use pgrx::pg_sys;
use pgrx::prelude::*;
use rustc_hash::FxHashMap;
use smallvec::{smallvec, SmallVec};

thread_local! {
    /// Scans, by address, that read no entries of btree's, or no more.
    static BEHIND: PerTransaction<FxHashMap<usize, Behind>> = PerTransaction::until_a_part_ends();
}

/// What a scan has still to return.
struct Behind {
    /// Places of rows of the tail, the next one last.
    tail: Vec<Tid>,
    has_done_chunks: bool,
}

pub unsafe extern "C-unwind" fn rescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    count: i32,
    orders: pg_sys::ScanKey,
    order_count: i32,
) {
    // SAFETY: called by core for a scan that btree began.
    unsafe {
        forget(scan);
        btrescan(scan, keys, count, orders, order_count);
    }
}

pub unsafe extern "C-unwind" fn get_tuple(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: as above; the snapshot is set before the first call.
    unsafe {
        let snapshot = Snapshot::from_ptr((*scan).xs_snapshot);
        let is_dirty = !(*scan).heapRelation.is_null() && snapshot.is_dirty();
        if !is_dirty {
            return btgettuple(scan, direction);
        }
        !is_behind(scan) && btgettuple(scan, direction) || next_behind(scan)
    }
}

pub unsafe extern "C-unwind" fn end_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: as above.
    unsafe {
        forget(scan);
        btendscan(scan);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn forget(scan: pg_sys::IndexScanDesc) {
    BEHIND.with_borrow_mut(|scans| scans.remove(&(scan as usize)));
}

/// Has the scan come to the end of btree's entries, or need it read none of them?
#[pg_guard]
unsafe extern "C-unwind" fn is_behind(scan: pg_sys::IndexScanDesc) -> bool {
    if BEHIND.with_borrow(|scans| scans.contains_key(&(scan as usize))) {
        return true;
    }
    // SAFETY: the scan's relations are open.
    unsafe {
        let keys = keys::of(Table::from_ptr((*scan).heapRelation));
        let unique = keys.of_index(Index::from_ptr((*scan).indexRelation).oid());
        let needs_no_btree = unique.is_some_and(|unique| unique.complete_companion().is_some());
        if needs_no_btree {
            begin_behind(scan);
        }
        needs_no_btree
    }
}

/// # Safety
/// As `row_of`.
unsafe fn begin_behind(scan: pg_sys::IndexScanDesc) {
    let behind = Behind {
        // SAFETY: the caller's contract.
        tail: unsafe { tail_of(scan) }.unwrap_or_default(),
        has_done_chunks: false,
    };
    BEHIND.with_borrow_mut(|scans| scans.insert(scan as usize, behind));
}

/// Lets the scan return the next row without btree: those of the tail that a series index leads to, then the compressed row that has its key. A key has
/// one at most.
#[pg_guard]
unsafe extern "C-unwind" fn next_behind(scan: pg_sys::IndexScanDesc) -> bool {
    let address = scan as usize;
    // SAFETY: the scan's relations are open.
    unsafe {
        if !BEHIND.with_borrow(|scans| scans.contains_key(&address)) {
            begin_behind(scan);
        }
        let (next, had_done_chunks) = BEHIND.with_borrow_mut(|scans| {
            let behind = scans.get_mut(&address).expect("BUG: a scan is forgotten");
            let next = behind.tail.pop();
            let had_done = behind.has_done_chunks;
            behind.has_done_chunks = next.is_none();
            (next, had_done)
        });
        if let Some(at) = next {
            offer(scan, at);
            return true;
        }
        if had_done_chunks {
            return false;
        }
        match row_of(scan) {
            Some((reader, row)) => {
                offer(scan, Tid::of_row(reader.chunk.tid, row));
                fetched::offer_unchanged(TableFetch::from_ptr((*scan).xs_heapfetch), reader);
                true
            }
            None => false,
        }
    }
}

/// Lets the scan return the row at a place.
///
/// # Safety
/// The scan must be live.
unsafe fn offer(scan: pg_sys::IndexScanDesc, at: Tid) {
    // SAFETY: by contract.
    unsafe {
        (*scan).xs_heaptid = tid::to_pg(at);
        (*scan).xs_recheck = false;
        (*scan).xs_heap_continue = false;
    }
}

/// Rows of the tail that may have the key of a scan, the first one last, where a series index settles it. One that is not valid yet has those that btree lacks.
///
/// # Safety
/// As `row_of`.
unsafe fn tail_of(scan: pg_sys::IndexScanDesc) -> Option<Vec<Tid>> {
    // SAFETY: the caller's contract.
    unsafe {
        let keys = keys::of(Table::from_ptr((*scan).heapRelation));
        let unique = keys.of_index(Index::from_ptr((*scan).indexRelation).oid());
        let unique = unique?;
        let complete = unique.complete_companion();
        let companion = complete.or(unique.companions.first())?;
        let index = OpenIndex::open(companion.index, LockMode::AccessShare);
        let series = index.rel();
        let mut conditions: SmallVec<[ScanKey; FEW]> = SmallVec::new();
        for at in 0..(*scan).numberOfKeys as usize {
            let key = &*(*scan).keyData.add(at);
            let place = key.sk_attno as usize - 1;
            let column = companion.places.iter().position(|&other| other == place);
            let column = column.expect("BUG: a series index without a column of its key");
            if key.sk_flags & pg_sys::SK_SEARCHNULL as i32 != 0 {
                conditions.push(ScanKey::is_null(column + 1));
            } else if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
                return Some(Vec::new());
            } else {
                conditions.push(tail::is(series, column, key.sk_argument));
            }
        }
        conditions.sort_by_key(ScanKey::column);
        let mut rows = tail::rows(series, &conditions);
        rows.reverse();
        Some(rows)
    }
}

/// The compressed row that has the key of a scan, if there is one.
///
/// # Safety
/// `scan` must be one of a unique index, with its keys set, and have its table; both are open. Within a guarded entry point.
unsafe fn row_of(scan: pg_sys::IndexScanDesc) -> Option<Place> {
    // SAFETY: the caller's contract. Scans of this kind have equalities only, and IS NULL.
    unsafe {
        let index = Index::from_ptr((*scan).indexRelation);
        let count = index.form().indnkeyatts as usize;
        let mut values: SmallVec<[_; FEW]> = smallvec![pg_sys::Datum::from(0usize); count];
        let mut nulls: SmallVec<[_; FEW]> = smallvec![true; count];
        let mut columns = SmallVec::new();
        for at in 0..(*scan).numberOfKeys as usize {
            let key = &*(*scan).keyData.add(at);
            let column = key.sk_attno as usize - 1;
            let searches_null = key.sk_flags & pg_sys::SK_SEARCHNULL as i32 != 0;
            if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 && !searches_null {
                return None;
            }
            values[column] = key.sk_argument;
            nulls[column] = searches_null;
            columns.push(column);
        }
        let key = Key {
            values: &values,
            nulls: &nulls,
            columns,
        };
        let search = Search {
            table: Table::from_ptr((*scan).heapRelation),
            index,
            waits: true,
        };
        match find::find(search, &key, &mut Since::default()) {
            (Answer::Taken, place) => place,
            _ => None,
        }
    }
}
