//! Scans of a unique index with a dirty snapshot: how ON CONFLICT and the apply worker of logical replication
//! look for a key. After the entries of the tail come the compressed rows, by their virtual TIDs. All other
//! scans are btree's own; the planner makes none of an index that has not all rows.

use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::table_fetch::TableFetch;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::unbound::{btendscan, btgettuple, btrescan};
use crate::table::fetched;
use crate::unique::find::{self, Answer, Key, Place, Search, FEW};
use crate::unique::key_cache::Stamp;
use pgrx::pg_sys;
use pgrx::prelude::*;
use rustc_hash::FxHashSet;
use smallvec::{smallvec, SmallVec};

thread_local! {
    /// Scans, by address, that have come to the chunks.
    static IN_CHUNKS: PerTransaction<FxHashSet<usize>> = PerTransaction::until_a_part_ends();
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
        leave_chunks(scan);
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
        !is_in_chunks(scan) && btgettuple(scan, direction) || next_in_chunks(scan)
    }
}

pub unsafe extern "C-unwind" fn end_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: as above.
    unsafe {
        leave_chunks(scan);
        btendscan(scan);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave_chunks(scan: pg_sys::IndexScanDesc) {
    IN_CHUNKS.with_borrow_mut(|scans| scans.remove(&(scan as usize)));
}

#[pg_guard]
unsafe extern "C-unwind" fn is_in_chunks(scan: pg_sys::IndexScanDesc) -> bool {
    IN_CHUNKS.with_borrow(|scans| scans.contains(&(scan as usize)))
}

/// Lets the scan return the compressed row that has its key, the first time that it is called. A key has one at most.
#[pg_guard]
unsafe extern "C-unwind" fn next_in_chunks(scan: pg_sys::IndexScanDesc) -> bool {
    let is_first = IN_CHUNKS.with_borrow_mut(|scans| scans.insert(scan as usize));
    if !is_first {
        return false;
    }
    // SAFETY: the scan's relations are open.
    unsafe {
        match row_of(scan) {
            Some((reader, row)) => {
                (*scan).xs_heaptid = tid::to_pg(Tid::of_row(reader.chunk.tid, row));
                fetched::offer_unchanged(TableFetch::from_ptr((*scan).xs_heapfetch), reader);
                (*scan).xs_recheck = false;
                (*scan).xs_heap_continue = false;
                true
            }
            None => false,
        }
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
        match find::find(search, &key, &mut Stamp::default()) {
            (Answer::Taken, place) => place,
            _ => None,
        }
    }
}
