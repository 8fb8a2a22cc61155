//! Calls of heap's own table access method.

use super::activity;
use super::bare;
use super::page::{self, PageTuple};
use super::relation::Table;
use super::row_slot::RowSlot;
use super::snapshot::{self, Snapshot};
use super::tid::{self, Tid};
use super::tuple::{BareTuple, Formed};
use pgrx::pg_sys;

/// Inserts a row of the tail, and returns its place.
///
/// # Safety
/// The tuple must have the columns of the table, which is open for writing.
pub unsafe fn insert(
    table: Table<'_>,
    row: &Formed,
    command: pg_sys::CommandId,
    options: i32,
) -> Tid {
    let (tuple, none) = (row.as_ptr(), core::ptr::null_mut());
    // SAFETY: by contract.
    unsafe {
        (*tuple).t_tableOid = table.oid();
        pg_sys::heap_insert(table.as_ptr(), tuple, command, options, none);
    }
    row.tid()
}

/// Inserts a tuple that logical decoding does not see, and returns its place. The table must be open for writing.
pub fn insert_unseen(
    table: Table<'_>,
    tuple: &BareTuple,
    command: pg_sys::CommandId,
    options: i32,
) -> Tid {
    let options = options | UNSEEN;
    let none = core::ptr::null_mut();
    // SAFETY: the table is open; the tuple lives across the call.
    unsafe { pg_sys::heap_insert(table.as_ptr(), tuple.as_ptr(), command, options, none) };
    tuple.tid()
}

/// Deletes a tuple, or says what keeps it from that; without `wait`, that somebody else is changing it. One that `moved` is not gone for
/// who looks for its newest version.
///
/// # Safety
/// `table` must be open for writing; the tuple must be there still, as a snapshot or a lock sees to it.
pub unsafe fn delete(
    table: Table<'_>,
    at: Tid,
    command: pg_sys::CommandId,
    wait: bool,
    moved: bool,
) -> pg_sys::TM_Result::Type {
    let (mut item, none) = (tid::to_pg(at), core::ptr::null_mut());
    let mut failure = pg_sys::TM_FailureData::default();
    // SAFETY: by contract.
    unsafe {
        pg_sys::heap_delete(
            table.as_ptr(),
            &mut item,
            command,
            none,
            wait,
            &mut failure,
            moved,
        )
    }
}

/// Counts rows of a table that were deleted by other ways than heap's.
pub fn count_deleted(table: Table<'_>, rows: usize) {
    let count = || {
        for _ in 0..rows {
            // SAFETY: the table is open.
            unsafe { bare::pgstat_count_heap_delete(table.as_ptr()) };
        }
    };
    // SAFETY: where memory runs out there is nothing to drop.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(count) };
}

/// Counts a scan of a table from end to end, and the rows that it has read, by other ways than heap's.
pub fn count_scan(table: Table<'_>, rows: usize) {
    // SAFETY: the table is open; where memory runs out there is nothing to drop.
    unsafe {
        let Some(pending) = activity::counts(table) else {
            return;
        };
        #[cfg(feature = "pg15")]
        let (scans, read) = {
            let counts = &mut pending.t_counts;
            (&mut counts.t_numscans, &mut counts.t_tuples_returned)
        };
        #[cfg(feature = "pg17")]
        let (scans, read) = {
            let counts = &mut pending.counts;
            (&mut counts.numscans, &mut counts.tuples_returned)
        };
        *scans += 1;
        *read += rows as pg_sys::PgStat_Counter;
    }
}

/// Updates a row of the tail, or says what keeps it from that: waits for whoever is changing it. The new version is the slot's, which gets
/// its TID; entries in indexes are the caller's business.
///
/// # Safety
/// As `delete`; the slot must hold a row of the table.
pub unsafe fn update(
    table: Table<'_>,
    at: Tid,
    new: RowSlot,
    command: pg_sys::CommandId,
) -> pg_sys::TM_Result::Type {
    let (mut item, none, wait) = (tid::to_pg(at), core::ptr::null_mut(), true);
    let mut failure = pg_sys::TM_FailureData::default();
    let mut mode = pg_sys::LockTupleMode::LockTupleExclusive;
    let mut update_indexes = Default::default();
    // SAFETY: the table is open for writing, and the slot holds a row of it; no row is crosschecked.
    unsafe {
        heap_callback!(
            tuple_update,
            table.as_ptr(),
            &mut item,
            new.as_ptr(),
            command,
            none,
            none,
            wait,
            &mut failure,
            &mut mode,
            &mut update_indexes,
        )
    }
}

/// What is there of a row, whoever has written it.
pub enum Version {
    None,
    /// A version that nobody is changing.
    Settled,
    /// One that a transaction in progress has written, or is about to take away.
    Changing {
        by: pg_sys::TransactionId,
        /// The token of an INSERT … ON CONFLICT that has not made up its mind; else 0.
        speculation: u32,
    },
}

/// The version, at a place or behind it on the same page, that is there for a dirty snapshot: what an entry of an index leads to. There must be such a page.
pub fn dirty_version(table: Table<'_>, at: Tid) -> Version {
    const SHARE: i32 = pg_sys::BUFFER_LOCK_SHARE as i32;
    let mut item = tid::to_pg(at);
    let mut found = pg_sys::HeapTupleData::default();
    let mut dirty = snapshot::dirty();
    // SAFETY: the table is open; heap's function wants the page locked.
    let is_there = unsafe {
        let buffer = pg_sys::ReadBuffer(table.as_ptr(), at.block);
        pg_sys::LockBuffer(buffer, SHARE);
        let is_there = pg_sys::heap_hot_search_buffer(
            &mut item,
            table.as_ptr(),
            buffer,
            &mut dirty,
            &mut found,
            core::ptr::null_mut(),
            true,
        );
        pg_sys::UnlockReleaseBuffer(buffer);
        is_there
    };
    if !is_there {
        Version::None
    } else if dirty.xmin != pg_sys::InvalidTransactionId {
        Version::Changing {
            by: dirty.xmin,
            speculation: dirty.speculativeToken,
        }
    } else if dirty.xmax != pg_sys::InvalidTransactionId {
        Version::Changing {
            by: dirty.xmax,
            speculation: 0,
        }
    } else {
        Version::Settled
    }
}

/// A row of the tail, or a tuple of storage, on its page, which is pinned.
pub struct Fetched<'a> {
    tuple: pg_sys::HeapTupleData,
    buffer: pg_sys::Buffer,
    table: Table<'a>,
}

impl<'a> Fetched<'a> {
    /// The row at a place that a snapshot sees. There must be such a place.
    pub fn at(table: Table<'a>, at: Tid, snapshot: Snapshot<'_>) -> Option<Fetched<'a>> {
        let mut tuple = pg_sys::HeapTupleData {
            t_self: tid::to_pg(at),
            ..Default::default()
        };
        let (mut buffer, found) = (0, snapshot.as_ptr());
        // SAFETY: the table is open; the page is pinned where a tuple is found.
        let is_there =
            unsafe { pg_sys::heap_fetch(table.as_ptr(), found, &mut tuple, &mut buffer, false) };
        // Made of a row that is there only: it is released with it.
        is_there.then(|| Fetched {
            tuple,
            buffer,
            table,
        })
    }

    /// Where its page is.
    pub fn buffer(&self) -> pg_sys::Buffer {
        self.buffer
    }

    /// The tuple, which is there as long as this.
    pub fn tuple(&self) -> PageTuple<'_> {
        // SAFETY: pinned as long as this.
        unsafe { PageTuple::of(&self.tuple) }
    }

    /// Lets the processor fetch another tuple of the page from memory while it does something else.
    pub fn prefetch(&self, offset: u16) {
        // SAFETY: the page is pinned.
        unsafe { page::prefetch_tuple(self.buffer, offset) }
    }

    /// A column, from 1; what it points to is there as long as the row.
    pub fn column(&self, number: i16) -> Option<pg_sys::Datum> {
        let descriptor = self.table.descriptor();
        assert!(
            number > 0 && number as usize <= descriptor.len(),
            "BUG: a row has no such column"
        );
        let (row, mut null) = ((&raw const self.tuple).cast_mut(), false);
        // SAFETY: the tuple is pinned, and has the table's columns.
        let value =
            unsafe { pg_sys::heap_getattr(row, number.into(), descriptor.as_ptr(), &mut null) };
        (!null).then_some(value)
    }
}

impl Drop for Fetched<'_> {
    fn drop(&mut self) {
        // While an error unwinds, the resource owner does it.
        if !std::thread::panicking() {
            // SAFETY: pinned by `at`.
            unsafe { bare::ReleaseBuffer(self.buffer) }
        }
    }
}

/// Do options of an insert say that only new pages are to be filled?
pub fn fills_new_pages(options: i32) -> bool {
    options & NEW_PAGES != 0
}

/// The options that keep a row from logical decoding.
pub const UNSEEN: i32 = pg_sys::HEAP_INSERT_NO_LOGICAL as i32;

/// The options that have a row go to the page that is tried first, or to a new one.
pub const NEW_PAGES: i32 = pg_sys::HEAP_INSERT_SKIP_FSM as i32;

/// Calls heapam's own callback of a name; its errors become panics, so that what lives in our frames is
/// dropped.
macro_rules! heap_callback {
    ($name:ident, $($arg:expr),* $(,)?) => {{
        let callback = (*$crate::pg::bare::GetHeapamTableAmRoutine())
            .$name
            .expect("BUG: heap lacks a callback");
        pg_sys::ffi::pg_guard_ffi_boundary(|| callback($($arg),*))
    }};
}
pub(crate) use heap_callback;
