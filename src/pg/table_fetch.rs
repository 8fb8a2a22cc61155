//! Fetches of rows of a table by an index, one of which belongs to each index scan.

use super::expression_context::guarded;
use super::relation::Table;
use super::row_slot::RowSlot;
use super::snapshot::Snapshot;
use super::tid::{self, Tid};
use core::marker::PhantomData;
use pgrx::pg_sys;

/// A fetch of a table access method that hands what it does not do itself to heap's, and adds something of its own.
#[repr(C)]
pub struct BesideHeap<T> {
    pub base: pg_sys::IndexFetchTableData,
    pub heap: *mut pg_sys::IndexFetchTableData,
    pub added: *mut T,
}

/// A fetch that has begun, and not ended.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TableFetch<'a> {
    fetch: *mut pg_sys::IndexFetchTableData,
    begun: PhantomData<&'a pg_sys::IndexFetchTableData>,
}

impl<'a> TableFetch<'a> {
    /// A fetch that PostgreSQL hands out. It is null where a scan fetches nothing.
    ///
    /// # Safety
    /// `fetch` must be null, or not end as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(fetch: *mut pg_sys::IndexFetchTableData) -> TableFetch<'a> {
        TableFetch {
            fetch,
            begun: PhantomData,
        }
    }

    /// What the access method has added.
    ///
    /// # Safety
    /// The fetch must be a `BesideHeap<T>`, and nobody else refer to what was added meanwhile.
    #[inline]
    pub unsafe fn added<T>(self) -> &'a mut T {
        // SAFETY: by contract.
        unsafe { &mut *(*self.fetch.cast::<BesideHeap<T>>()).added }
    }
}

/// A fetch of our own, of rows of a table at places that we know. It goes with the memory context that was current when it began, or ends.
pub struct RowFetch<'a> {
    table: Table<'a>,
    fetch: *mut pg_sys::IndexFetchTableData,
}

impl<'a> RowFetch<'a> {
    /// Within a guarded entry point.
    pub fn begin(table: Table<'a>) -> RowFetch<'a> {
        // SAFETY: an open table has an access method, and each of these has the callback.
        unsafe {
            let begin = (*(*table.as_ptr()).rd_tableam).index_fetch_begin;
            let begin = begin.expect("BUG: no index_fetch_begin");
            let fetch = guarded(|| begin(table.as_ptr()));
            RowFetch { table, fetch }
        }
    }

    /// Has a slot show the row at a place; false where the snapshot, an MVCC one, sees none there. Within a guarded entry point.
    ///
    /// # Safety
    /// The slot must be one for rows of the table.
    pub unsafe fn row(&self, at: Tid, snapshot: Snapshot<'_>, slot: RowSlot) -> bool {
        let mut item = tid::to_pg(at);
        // Under an MVCC snapshot no more than one version of a chain is seen.
        let (mut again, mut dead) = (false, false);
        // SAFETY: by contract; the fetch has begun, with this table.
        unsafe {
            let get = (*(*self.table.as_ptr()).rd_tableam).index_fetch_tuple;
            let get = get.expect("BUG: no index_fetch_tuple");
            guarded(|| {
                get(
                    self.fetch,
                    &mut item,
                    snapshot.as_ptr(),
                    slot.as_ptr(),
                    &mut again,
                    &mut dead,
                )
            })
        }
    }

    /// Within a guarded entry point.
    pub fn end(self) {
        // SAFETY: the fetch has begun, with this table, and ends once.
        unsafe {
            let end = (*(*self.table.as_ptr()).rd_tableam).index_fetch_end;
            let end = end.expect("BUG: no index_fetch_end");
            guarded(|| end(self.fetch));
        }
    }
}
