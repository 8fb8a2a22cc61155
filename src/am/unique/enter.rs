//! The entries of a key: that of the unique index's btree, and those of the series indexes that have its columns (`Unique::companions`).
//! These settle keys between rows of the tail, by nbtree's own check: it holds the page where the key is, or will be, until the entry is there. Once a table
//! has chunks nobody reads the btree of such a key, so rows are not entered there.
//!
//! Errors jump over the unguarded frames here, which hold plain values only.

use super::insert::raise_taken;
use crate::catalog::keys::{self, Companion};
use crate::pg::attempt::attempt;
use crate::pg::bare;
use crate::pg::error::{self, Code};
use crate::pg::heap::{self, Version};
use crate::pg::relation::{Index, Table};
use crate::pg::tid::{self, Tid};
use crate::pg::unbound::btinsert;
use crate::unique::series_entry::{self, Entry};
use crate::unique::{bypass, tail};
use core::ffi::c_int;
use pgrx::pg_sys;
use pgrx::prelude::*;

const MOST_COLUMNS: usize = pg_sys::INDEX_MAX_KEYS as usize;
const DUPLICATE: c_int = Code::ERRCODE_UNIQUE_VIOLATION as c_int;
const TOO_LONG: c_int = Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED as c_int;

/// An entry of a series index that is to be made next.
#[repr(C)]
struct Step {
    /// Open; null before the first one.
    series: pg_sys::Relation,
    /// Its OID, or that of one that has been passed by: the next one has a greater one.
    oid: pg_sys::Oid,
    /// The row has its entry already: only others of its key are looked at.
    is_there: bool,
    values: [pg_sys::Datum; MOST_COLUMNS],
    nulls: [bool; MOST_COLUMNS],
}

/// What core calls `aminsert` with.
#[derive(Clone, Copy)]
pub struct Call {
    pub index: pg_sys::Relation,
    pub values: *mut pg_sys::Datum,
    pub nulls: *mut bool,
    pub item: pg_sys::ItemPointer,
    pub table: pg_sys::Relation,
    pub check: pg_sys::IndexUniqueCheck::Type,
    pub unchanged: bool,
    pub info: *mut pg_sys::IndexInfo,
}

impl Call {
    /// Has nbtree enter it.
    ///
    /// # Safety
    /// What it names must be open, and there. Errors jump over the caller's frames.
    unsafe fn run(self) -> bool {
        // SAFETY: by contract.
        unsafe {
            btinsert(
                self.index,
                self.values,
                self.nulls,
                self.item,
                self.table,
                self.check,
                self.unchanged,
                self.info,
            )
        }
    }
}

/// Enters a row into the index's btree alone.
///
/// # Safety
/// As core calls `aminsert`.
pub unsafe fn into_btree(call: Call) -> bool {
    // SAFETY: by contract.
    unsafe {
        let bypassed = bypass::set_bypassed(true);
        let unique = call.run();
        bypass::set_bypassed(bypassed);
        unique
    }
}

/// Enters a row where its key is settled: false where the check is partial, and another row may have the key.
///
/// # Safety
/// As core calls `aminsert`.
pub unsafe fn enter(call: Call) -> bool {
    use pg_sys::IndexUniqueCheck::{UNIQUE_CHECK_EXISTING, UNIQUE_CHECK_PARTIAL};
    // SAFETY: by contract; no value here needs dropping.
    unsafe {
        let bypassed = bypass::set_bypassed(true);
        let mut unique = !has_btree(call.index, call.table) || call.run();
        let mut step = Step {
            series: core::ptr::null_mut(),
            oid: pg_sys::InvalidOid,
            is_there: false,
            values: [pg_sys::Datum::from(0usize); MOST_COLUMNS],
            nulls: [false; MOST_COLUMNS],
        };
        while next(&call, &mut step) {
            if step.is_there && call.check == UNIQUE_CHECK_PARTIAL {
                unique &= is_alone(&call, &step);
                continue;
            }
            let own = Call {
                index: step.series,
                values: step.values.as_mut_ptr(),
                nulls: step.nulls.as_mut_ptr(),
                check: if step.is_there {
                    UNIQUE_CHECK_EXISTING
                } else {
                    call.check
                },
                ..call
            };
            match attempt(&[DUPLICATE, TOO_LONG], || own.run()) {
                Ok(alone) => unique &= alone,
                // By the names of the key, which is what users know.
                Err(DUPLICATE) => raise_taken(call.index, call.values, call.nulls, call.table),
                Err(_) => {
                    call.run();
                    raise_too_long(&call);
                }
            }
        }
        bypass::set_bypassed(bypassed);
        unique
    }
}

/// The key fits into its own btree, but, its columns in another order, not into a series index.
#[pg_guard]
unsafe extern "C-unwind" fn raise_too_long(call: *const Call) {
    // SAFETY: what the call names is open until core's call returns.
    let index = unsafe { Index::from_ptr((*call).index) };
    error::raise(
        Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!(
            "index row size exceeds the maximum of a btree for the series index of \"{}\"",
            index.name()
        ),
        "",
        "Put a hash of the long value into the key.",
    )
}

/// Do rows need entries in the index's own btree?
#[pg_guard]
pub unsafe extern "C-unwind" fn has_btree(
    index: pg_sys::Relation,
    table: pg_sys::Relation,
) -> bool {
    // SAFETY: open until core's call returns.
    unsafe {
        let (index, table) = (Index::from_ptr(index), Table::from_ptr(table));
        let keys = keys::of(table);
        let unique = keys.of_index(index.oid());
        !unique.is_some_and(|unique| {
            unique.does_without_btree(true) && unique.does_without_btree(keys.has_chunks(table))
        })
    }
}

/// Notes and closes the entry before, and goes on to the next one; false where there is none.
#[pg_guard]
unsafe extern "C-unwind" fn next(call: *const Call, step: *mut Step) -> bool {
    // SAFETY: both are the caller's; what the call names is open until core's call returns.
    unsafe {
        let (call, step) = (&*call, &mut *step);
        let (index, table) = (Index::from_ptr(call.index), Table::from_ptr(call.table));
        let at = tid::read(call.item);
        let keys = keys::of(table);
        let Some(unique) = keys.of_index(index.oid()) else {
            return false;
        };
        if !step.series.is_null() {
            series_entry::note(table, at, (*step.series).rd_id, Entry::Settled);
            bare::RelationClose(step.series);
            step.series = core::ptr::null_mut();
        }
        // What is known of the key may have changed since the last step.
        let before = step.oid;
        let later = |companion: &&Companion| companion.index.to_u32() > before.to_u32();
        for companion in unique.companions.iter().filter(later) {
            step.oid = companion.index;
            let entry = series_entry::entry(table, at, companion.index);
            if entry == Entry::Settled {
                continue;
            }
            step.series = pg_sys::RelationIdGetRelation(companion.index);
            if step.series.is_null() {
                continue;
            }
            step.is_there = entry == Entry::Unsettled;
            for (to, &place) in companion.places.iter().enumerate() {
                step.values[to] = *call.values.add(place);
                step.nulls[to] = *call.nulls.add(place);
            }
            return true;
        }
        false
    }
}

/// Has no other row that is there, or may be, the key of the step? Nothing is waited for.
#[pg_guard]
unsafe extern "C-unwind" fn is_alone(call: *const Call, step: *const Step) -> bool {
    // SAFETY: as `next`; the step's series index is open.
    unsafe {
        let (call, step) = (&*call, &*step);
        let (table, at) = (Table::from_ptr(call.table), tid::read(call.item));
        let series = Index::from_ptr(step.series);
        let count = series.form().indnkeyatts as usize;
        if step.nulls[..count].contains(&true) {
            return true;
        }
        let keys: Vec<_> = (0..count)
            .map(|column| tail::is(series, column, step.values[column]))
            .collect();
        let rows = tail::rows(series, &keys);
        let is_there = |row: Tid| !matches!(heap::dirty_version(table, row), Version::None);
        !rows.into_iter().any(|row| row != at && is_there(row))
    }
}
