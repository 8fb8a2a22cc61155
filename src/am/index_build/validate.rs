//! CREATE INDEX CONCURRENTLY, second half: what the index lacks is found by comparing its TIDs with the table,
//! and inserted.

use super::rows::{Blocks, Entry, Rows, Step};
use super::visibility::{Rule, VisibilityCheck};
use super::{form, next, progress_param};
use crate::am::series_index::is_series_index;
use crate::am::unique::enter::Call;
use crate::am::unique::intercept::intercept;
use crate::am::unique::{build, insert};
use crate::chunk::index_entries;
use crate::pg::memory;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::pg::unbound::index_insert;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::HashSet;

/// The TIDs that an index has already, in order.
struct Known {
    sort: *mut pg_sys::Tuplesortstate,
    next: Option<Tid>,
}

impl Known {
    /// # Safety
    /// `sort` must be sorted, have TIDs as core codes them, and be there as long as the result is used. Within a guarded entry point.
    unsafe fn new(sort: *mut pg_sys::Tuplesortstate) -> Known {
        let mut known = Known { sort, next: None };
        // SAFETY: by the caller's contract a sorted list of TIDs.
        unsafe { known.pull() };
        known
    }

    /// Goes on to the next TID.
    ///
    /// # Safety
    /// As `new`.
    unsafe fn pull(&mut self) {
        let mut value = pg_sys::Datum::from(0usize);
        let mut isnull = false;
        // SAFETY: the caller's contract. Core codes a TID as (block << 16) | offset.
        unsafe {
            #[cfg(feature = "pg15")]
            let found = pg_sys::tuplesort_getdatum(
                self.sort,
                true,
                &mut value,
                &mut isnull,
                core::ptr::null_mut(),
            );
            #[cfg(feature = "pg17")]
            let found = pg_sys::tuplesort_getdatum(
                self.sort,
                true,
                false,
                &mut value,
                &mut isnull,
                core::ptr::null_mut(),
            );
            self.next = found.then(|| Tid {
                block: (value.value() >> 16) as u32,
                offset: value.value() as u16,
            });
        }
    }

    /// Line pointers of `block` that the index knows. Blocks are asked for in ascending order.
    ///
    /// # Safety
    /// As `new`.
    unsafe fn of_block(&mut self, block: u32, counted: &mut f64) -> HashSet<u16> {
        let mut offsets = HashSet::new();
        while let Some(at) = self.next.filter(|at| at.block <= block) {
            *counted += 1.0;
            if at.block == block {
                offsets.insert(at.offset);
            }
            // SAFETY: the caller's contract.
            unsafe { self.pull() };
        }
        offsets
    }
}

/// The walk over the table, and what the index has of the page that it is on.
struct Validation<'a> {
    rows: *mut Rows<'a>,
    known: Known,
    block: Option<u32>,
    there: HashSet<u16>,
    /// Headers of which the first entry was missing: all their entries are inserted.
    fresh: HashSet<u16>,
    state: *mut pg_sys::ValidateIndexState,
}

/// What is to be done with an entry.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
enum Missing {
    No,
    Row,
    Chunk,
}

pub unsafe extern "C-unwind" fn index_validate_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by core with open relations and a sorted list of TIDs; no value here needs dropping.
    unsafe {
        build::verify(table, index, snapshot);
        let validation = begin(
            table.as_ptr(),
            index.as_ptr(),
            info,
            snapshot.as_ptr(),
            state,
        );
        let rows = (*validation).rows;
        let is_series = is_series_index(index);
        let entry: *mut Entry = &mut (*rows).entry;
        let check = if (*info).ii_Unique {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
        } else {
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
        };
        loop {
            let step = next(rows);
            if step == Step::Done {
                break;
            }
            if step == Step::Compressed {
                form(info, entry);
                continue;
            }
            let missing = is_missing(validation);
            if missing == Missing::No || step == Step::Row && !form(info, entry) {
                continue;
            }
            (*state).tups_inserted += 1.0;
            let values = (*entry).values.as_mut_ptr();
            let nulls = (*entry).nulls.as_mut_ptr();
            let item: *mut pg_sys::ItemPointerData = &mut (*entry).at;
            if is_series || missing == Missing::Chunk {
                insert_own(table.as_ptr(), index.as_ptr(), entry);
            } else if (*info).ii_Unique {
                insert::add_missing(Call {
                    index: index.as_ptr(),
                    values,
                    nulls,
                    item,
                    table: table.as_ptr(),
                    check,
                    unchanged: false,
                    info,
                });
            } else {
                index_insert(
                    index.as_ptr(),
                    values,
                    nulls,
                    item,
                    table.as_ptr(),
                    check,
                    false,
                    info,
                );
            }
        }
        end(validation);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) -> *mut Validation<'static> {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let snapshot = unsafe { Snapshot::from_ptr(snapshot) };
    // SAFETY: called by `index_validate_scan` with what core gave it: IndexInfo and state are those of the validation that runs.
    unsafe {
        intercept(table);
        let visibility = VisibilityCheck {
            table,
            info,
            rule: Rule::Snapshot(snapshot),
            any_visible: false,
            checks: false,
        };
        let blocks = table.blocks();
        progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, blocks);
        let validation = Validation {
            rows: Rows::begin(index, visibility, Blocks::Range(0..blocks)),
            known: Known::new((*state).tuplesort),
            block: None,
            there: HashSet::new(),
            fresh: HashSet::new(),
            state,
        };
        memory::own(pg_sys::CurrentMemoryContext, validation)
    }
}

/// Does the index lack the current entry?
#[pg_guard]
unsafe extern "C-unwind" fn is_missing(validation: *mut Validation) -> Missing {
    // SAFETY: made by `begin`.
    unsafe {
        let own = &mut *validation;
        let block = (*own.rows).block();
        if own.block != Some(block) {
            own.block = Some(block);
            own.there = own.known.of_block(block, &mut (*own.state).itups);
            own.fresh.clear();
            progress_param(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, block + 1);
        }
        let at = tid::from_pg(&(*own.rows).entry.at);
        let header = index_entries::header_of_entry(at);
        let offset = header.unwrap_or(at).offset;
        if !own.fresh.contains(&offset) && !own.there.insert(offset) {
            return Missing::No;
        }
        own.fresh.insert(offset);
        if header.is_some() {
            Missing::Chunk
        } else {
            Missing::Row
        }
    }
}

/// Adds an entry to a series index: no key has made it.
#[pg_guard]
unsafe extern "C-unwind" fn insert_own(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    entry: *mut Entry,
) {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: called by `index_validate_scan` with an entry that `next` has come to, of a series index.
    unsafe {
        let at = tid::from_pg(&(*entry).at);
        let (values, nulls) = (&mut (*entry).values, &mut (*entry).nulls);
        crate::pg::nbtree::insert(table, index, values, nulls, at);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(validation: *mut Validation) {
    // SAFETY: made by `begin`.
    unsafe {
        let own = &mut *validation;
        own.known.of_block(u32::MAX, &mut (*own.state).itups);
        (*own.state).htups += (*own.rows).counted;
        (*own.rows).finish();
    }
}
