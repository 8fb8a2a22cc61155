//! Fetches of rows of a table by an index, one of which belongs to each index scan.

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
