//! nbtree's entry points, which core exports but no header that pgrx reads declares. A series index has
//! nbtree's pages, so these functions work on it; errors become panics at the boundary.

use super::descriptor::Descriptor;
use super::error::{self, Code};
use super::leaves;
use super::memory;
use super::relation::{Index, Table};
use super::scan_key::ScanKey;
use super::snapshot::Snapshot;
use super::tid::{self, Tid};
use super::varlena;
use pgrx::pg_sys;

/// What the operators of a btree's class mean.
pub mod strategy {
    use pgrx::pg_sys;

    pub const LESS_EQUAL: u32 = pg_sys::BTLessEqualStrategyNumber;
    pub const EQUAL: u32 = pg_sys::BTEqualStrategyNumber;
    pub const GREATER_EQUAL: u32 = pg_sys::BTGreaterEqualStrategyNumber;
}

mod core {
    pub use crate::pg::unbound::{btendscan, btgettuple, btinsert, btrescan, index_deform_tuple};
    use pgrx::pg_sys::*;

    unsafe extern "C-unwind" {
        pub fn btbuild(
            table: Relation,
            index: Relation,
            info: *mut IndexInfo,
        ) -> *mut IndexBuildResult;
        pub fn btbuildempty(index: Relation);
        pub fn btbulkdelete(
            info: *mut IndexVacuumInfo,
            stats: *mut IndexBulkDeleteResult,
            callback: IndexBulkDeleteCallback,
            state: *mut ::core::ffi::c_void,
        ) -> *mut IndexBulkDeleteResult;
        pub fn btvacuumcleanup(
            info: *mut IndexVacuumInfo,
            stats: *mut IndexBulkDeleteResult,
        ) -> *mut IndexBulkDeleteResult;
        pub fn btvalidate(class: Oid) -> bool;
        pub fn btbuildphasename(phase: int64) -> *mut ::core::ffi::c_char;
        pub fn btbeginscan(index: Relation, keys: i32, orders: i32) -> IndexScanDesc;
        pub fn IndexScanEnd(scan: IndexScanDesc);
    }
}

macro_rules! guarded {
    ($call:expr) => {
        pg_sys::ffi::pg_guard_ffi_boundary(|| $call)
    };
}

/// Builds the index from what the table's `index_build_range_scan` delivers.
///
/// # Safety
/// `table`, `index` and `info` must be what `ambuild` was called with; `index` must look like a btree
/// index, since nbtree's sort insists on it.
pub unsafe fn build(
    table: Table<'_>,
    index: Index<'_>,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: by contract.
    unsafe { guarded!(core::btbuild(table.as_ptr(), index.as_ptr(), info)) }
}

/// Writes an empty index to the initialization fork.
///
/// `index` must be an open index of an unlogged table.
pub fn build_empty(index: Index<'_>) {
    // SAFETY: the index is open.
    unsafe { guarded!(core::btbuildempty(index.as_ptr())) }
}

/// Inserts one entry. Says never that the row's keys are unchanged, so that nbtree asks the table only about entries that
/// scans have found dead (`drop_if`).
///
/// # Safety
/// `table` and `index` must be open for writing; both slices have an entry for each index column.
pub unsafe fn insert(
    table: Table<'_>,
    index: Index<'_>,
    values: &mut [pg_sys::Datum],
    nulls: &mut [bool],
    at: Tid,
) {
    let check = pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO;
    // SAFETY: by contract.
    unsafe { enter(table, index, (values, nulls), at, check) };
}

/// Inserts an entry of a unique index; false where its key may be taken, by a row that is there or may be: the caller looks for certain.
///
/// # Safety
/// As `insert`.
pub unsafe fn insert_partial(
    table: Table<'_>,
    index: Index<'_>,
    values: &mut [pg_sys::Datum],
    nulls: &mut [bool],
    at: Tid,
) -> bool {
    let check = pg_sys::IndexUniqueCheck::UNIQUE_CHECK_PARTIAL;
    // SAFETY: by contract.
    unsafe { enter(table, index, (values, nulls), at, check) }
}

/// A third of what a page has for entries, less the place that a duplicate may need for its TID.
const MOST_ENTRY_BYTES: usize = 2704;
/// An entry's length is in these bits of its header.
const ENTRY_LENGTH: u16 = 0x1fff;

/// Raises an error for an entry that is too long for a page, as `insert` does: for what gets none.
///
/// # Safety
/// `index` must be open; `values` and `nulls` have an entry for each of its columns.
pub unsafe fn expect_short(index: Index<'_>, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
    // SAFETY: by contract.
    let bytes = unsafe {
        let descriptor = index.descriptor();
        let attributes = descriptor.attributes().iter();
        let long_bytes: usize = attributes
            .zip(values.iter().zip(nulls.iter()))
            .filter(|(attribute, (_, &isnull))| attribute.attlen < 0 && !isnull)
            .map(|(attribute, (&value, _))| {
                varlena::with_body(value, attribute.attlen, <[u8]>::len)
            })
            .sum();
        // With the rest, that of a few columns, it may be too long for a page if it is longer than this.
        if long_bytes < MOST_ENTRY_BYTES / 2 {
            return;
        }
        let entry =
            pg_sys::index_form_tuple(descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
        let bytes = usize::from((*entry).t_info & ENTRY_LENGTH);
        pg_sys::pfree(entry.cast());
        bytes
    };
    if bytes > MOST_ENTRY_BYTES {
        let name = index.name();
        error::raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("key of {bytes} bytes is too long for index \"{name}\""),
            &format!("An entry of a btree has {MOST_ENTRY_BYTES} bytes at most."),
            "Put a hash of the long value into the key.",
        )
    }
}

/// Inserts an entry, and looks at others of its key as `check` says.
///
/// # Safety
/// As `insert`.
unsafe fn enter(
    table: Table<'_>,
    index: Index<'_>,
    (values, nulls): (&mut [pg_sys::Datum], &mut [bool]),
    at: Tid,
    check: pg_sys::IndexUniqueCheck::Type,
) -> bool {
    let mut item = tid::to_pg(at);
    // SAFETY: the callers' contract; nbtree does not look at the IndexInfo.
    unsafe {
        guarded!(core::btinsert(
            index.as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &mut item,
            table.as_ptr(),
            check,
            false,
            ::core::ptr::null_mut(),
        ))
    }
}

/// # Safety
/// As for `ambulkdelete`.
pub unsafe fn bulk_delete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut ::core::ffi::c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: by contract.
    unsafe { guarded!(core::btbulkdelete(info, stats, callback, state)) }
}

/// # Safety
/// As for `amvacuumcleanup`.
pub unsafe fn vacuum_cleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: by contract.
    unsafe { guarded!(core::btvacuumcleanup(info, stats)) }
}

/// # Safety
/// As for `amvalidate`.
pub unsafe fn validate(class: pg_sys::Oid) -> bool {
    // SAFETY: by contract.
    unsafe { guarded!(core::btvalidate(class)) }
}

/// Name of a build phase that `build` reports.
///
/// # Safety
/// As for `ambuildphasename`.
pub unsafe fn build_phase_name(phase: i64) -> *mut ::core::ffi::c_char {
    // SAFETY: by contract.
    unsafe { guarded!(core::btbuildphasename(phase)) }
}

/// An entry of an index that a scan has come to, or a copy of one.
#[derive(Clone, Copy)]
pub struct Entry {
    /// As it is stored.
    pub tid: Tid,
    tuple: pg_sys::IndexTuple,
}

impl Entry {
    /// Takes its values out; those by reference point into it. It raises no error, so it needs no guard.
    ///
    /// # Safety
    /// The entry must be the one that its scan has returned last, or a copy that is there still, and one of an index of this descriptor. Both
    /// slices must have room for all columns.
    #[inline]
    pub unsafe fn deform(
        self,
        descriptor: Descriptor<'_>,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
    ) {
        debug_assert!(values.len() >= descriptor.len() && nulls.len() >= descriptor.len());
        let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
        // SAFETY: by contract.
        unsafe { core::index_deform_tuple(self.tuple, descriptor.as_ptr(), values, nulls) }
    }

    /// How long it is.
    ///
    /// # Safety
    /// The entry must be the one that its scan has returned last.
    #[inline]
    pub unsafe fn bytes(self) -> usize {
        // SAFETY: by contract.
        usize::from(unsafe { (*self.tuple).t_info } & ENTRY_LENGTH)
    }

    /// A copy in `place`, which is made as long as it needs: it is there as long as nobody touches `place`.
    ///
    /// # Safety
    /// As `bytes`.
    pub unsafe fn copy_to(self, place: &mut Vec<u64>) -> Entry {
        // SAFETY: by contract; the place is long enough, and aligned as a tuple is.
        unsafe {
            let bytes = self.bytes();
            place.resize(bytes.div_ceil(8), 0u64);
            let copy = place.as_mut_ptr();
            ::core::ptr::copy_nonoverlapping(self.tuple.cast::<u8>(), copy.cast::<u8>(), bytes);
            Entry {
                tid: self.tid,
                tuple: copy.cast(),
            }
        }
    }
}

/// A scan over the entries of an index, with their values.
pub struct EntryScan {
    /// Null until it is started: many who could need it never do.
    scan: pg_sys::IndexScanDesc,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    /// Which it is made in.
    context: pg_sys::MemoryContext,
    /// Scan keys that the descriptor has room for.
    room: usize,
    /// What is left of a list of TIDs that a backward scan has come to, ascending, and the tuple that has them.
    list: Vec<Tid>,
    listed_in: pg_sys::IndexTuple,
    /// Whoever asks whether entries are dead is to ask on.
    asks: bool,
}

impl EntryScan {
    /// A scan that will be in the current memory context, which must outlive it. It has to be ended by `end`.
    ///
    /// # Safety
    /// `index` must stay open until then; `snapshot` valid.
    pub unsafe fn begin(index: Index<'_>, snapshot: Snapshot<'_>, room: usize) -> EntryScan {
        EntryScan {
            scan: ::core::ptr::null_mut(),
            index: index.as_ptr(),
            snapshot: snapshot.as_ptr(),
            context: memory::current().as_ptr(),
            room,
            list: Vec::new(),
            listed_in: ::core::ptr::null_mut(),
            asks: true,
        }
    }

    /// Starts over with other scan keys; releases the page that the scan was on.
    ///
    /// # Safety
    /// The keys' arguments must live until the scan starts over again.
    pub unsafe fn restart(&mut self, keys: &[ScanKey]) {
        assert!(keys.len() <= self.room, "BUG: too many scan keys");
        self.list.clear();
        // SAFETY: nbtree copies the keys; the descriptor has room for them.
        unsafe {
            guarded!({
                if self.scan.is_null() {
                    self.make();
                }
                (*self.scan).kill_prior_tuple = false;
                (*self.scan).numberOfKeys = keys.len() as i32;
                core::btrescan(
                    self.scan,
                    keys.as_ptr().cast_mut().cast(),
                    keys.len() as i32,
                    ::core::ptr::null_mut(),
                    0,
                );
            });
        }
    }

    /// # Safety
    /// Index and context must be there still, the snapshot valid; behind a boundary, once.
    unsafe fn make(&mut self) {
        // SAFETY: by contract.
        unsafe {
            let make = || core::btbeginscan(self.index, self.room as i32, 0);
            let scan = memory::within(self.context, make);
            // What core's index_beginscan does for its caller.
            (*scan).heapRelation = ::core::ptr::null_mut();
            (*scan).xs_heapfetch = ::core::ptr::null_mut();
            (*scan).parallel_scan = ::core::ptr::null_mut();
            (*scan).xs_temp_snap = false;
            (*scan).xs_snapshot = self.snapshot;
            (*scan).xs_want_itup = true;
            // Who sees more than the primary's horizon must not go by it.
            self.asks = !(*scan).xactStartedInRecovery;
            self.scan = scan;
        }
    }

    /// The next entry, which is there until the next call. A backward scan has those that are equal in the order of their TIDs, the greatest first: nbtree
    /// has those of a list the other way round, and which of them are in lists changes.
    pub fn next(&mut self, forward: bool) -> Option<Entry> {
        assert!(!self.scan.is_null(), "BUG: scan not started");
        assert!(
            !forward || self.list.is_empty(),
            "BUG: a scan turns round within a list"
        );
        if let Some(tid) = self.list.pop() {
            let tuple = self.listed_in;
            return Some(Entry { tid, tuple });
        }
        let direction = if forward {
            pg_sys::ScanDirection::ForwardScanDirection
        } else {
            pg_sys::ScanDirection::BackwardScanDirection
        };
        // SAFETY: the scan is live until `end`.
        unsafe {
            let found = guarded!(core::btgettuple(self.scan, direction));
            (*self.scan).kill_prior_tuple = false;
            if !found {
                return None;
            }
            let entry = self.entry();
            let others = match forward {
                true => 0,
                false => leaves::tids_of(entry.tuple).saturating_sub(1),
            };
            if others == 0 {
                return Some(entry);
            }
            self.list.push(entry.tid);
            self.listed_in = entry.tuple;
            for _ in 0..others {
                let found = guarded!(core::btgettuple(self.scan, direction));
                let next = self.entry();
                assert!(found && next.tuple == entry.tuple, "BUG: a list has an end");
                self.list.push(next.tid);
            }
            let tid = self.list.pop()?;
            Some(Entry { tid, ..entry })
        }
    }

    /// The entry that the scan has come to.
    ///
    /// # Safety
    /// It must have found one.
    unsafe fn entry(&self) -> Entry {
        // SAFETY: by contract; the scan is live until `end`.
        unsafe {
            Entry {
                tid: tid::from_pg(&(*self.scan).xs_heaptid),
                tuple: (*self.scan).xs_itup,
            }
        }
    }

    /// Has nbtree mark the entry that was returned last as dead, if `is_dead` says so, so that no scan reads it again. It is that of
    /// what is stored at `at`, else nothing happens. Where one is not dead, others are not asked about: somebody has an old snapshot.
    pub fn drop_if(&mut self, at: Tid, is_dead: impl FnOnce() -> bool) {
        // SAFETY: the scan is live until `end`. It keeps the page of its last entry pinned, as it wants tuples.
        unsafe {
            if self.asks && !self.scan.is_null() && tid::from_pg(&(*self.scan).xs_heaptid) == at {
                self.asks = is_dead();
                (*self.scan).kill_prior_tuple = self.asks;
            }
        }
    }

    /// Releases what the scan holds.
    pub fn end(self) {
        if self.scan.is_null() {
            return;
        }
        // SAFETY: made by `make`, and ended once. The descriptor is what core's index_endscan frees after that.
        unsafe {
            guarded!({
                core::btendscan(self.scan);
                core::IndexScanEnd(self.scan);
            });
        }
    }
}
