//! The routine of the index access method, and inserting.

use super::{build, cost, scan, vacuum};
use crate::am::unique::intercept;
use crate::catalog::{index_options, keys};
use crate::pg::nbtree;
use crate::pg::relation::{Index, Table};
use crate::pg::tid::{self, Tid};
use crate::unique::series_entry::{self, Entry};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// nbtree's strategies (<, <=, =, >=, >) and support functions.
const STRATEGIES: u16 = 5;
const SUPPORT_FUNCTIONS: u16 = 5;
const OPTIONS_FUNCTION: u16 = 5;

/// `varve.series_index_handler(internal) → index_am_handler`
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_series_index_handler(
    _call: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: core copies the routine; zeroes stand for "no" and "none".
    unsafe {
        let routine: *mut pg_sys::IndexAmRoutine =
            pg_sys::palloc0(core::mem::size_of::<pg_sys::IndexAmRoutine>()).cast();
        fill(&mut *routine);
        pg_sys::Datum::from(routine)
    }
}

#[no_mangle]
pub extern "C-unwind" fn pg_finfo_varve_series_index_handler() -> &'static pg_sys::Pg_finfo_record {
    const RECORD: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &RECORD
}

fn fill(routine: &mut pg_sys::IndexAmRoutine) {
    routine.type_ = pg_sys::NodeTag::T_IndexAmRoutine;
    routine.amstrategies = STRATEGIES;
    routine.amsupport = SUPPORT_FUNCTIONS;
    routine.amoptsprocnum = OPTIONS_FUNCTION;
    routine.amcanorder = true;
    routine.amcanmulticol = true;
    routine.amclusterable = true;
    routine.amoptionalkey = true;
    routine.amsearcharray = true;
    routine.amsearchnulls = true;
    routine.amcanbackward = true;
    routine.amparallelvacuumoptions = (pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL
        | pg_sys::VACUUM_OPTION_PARALLEL_COND_CLEANUP) as u8;
    routine.ambuild = Some(build::build);
    routine.ambuildempty = Some(build::build_empty);
    routine.aminsert = Some(insert);
    routine.ambulkdelete = Some(vacuum::bulk_delete);
    routine.amvacuumcleanup = Some(vacuum::cleanup);
    routine.amcostestimate = Some(cost::estimate);
    routine.amoptions = Some(options);
    routine.ambuildphasename = Some(build_phase_name);
    routine.amvalidate = Some(validate_class);
    routine.ambeginscan = Some(scan::begin);
    routine.amrescan = Some(scan::rescan);
    routine.amgettuple = Some(scan::get_tuple);
    routine.amendscan = Some(scan::end);
}

/// Rows of batches have virtual TIDs: they are entered with their chunk. Where the index has the columns of a key, the key enters rows (`unique::series_entry`).
#[expect(clippy::too_many_arguments, reason = "the index AM's signature")]
#[pg_guard]
unsafe extern "C-unwind" fn insert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    item: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _check: pg_sys::IndexUniqueCheck::Type,
    _unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: called by core with values for each column of an index that is open for writing.
    unsafe {
        let at = tid::read(item);
        if !at.is_virtual() && !is_entered_by_key(table, index, at) {
            let columns = index.form().indnatts as usize;
            let values = core::slice::from_raw_parts_mut(values, columns);
            let nulls = core::slice::from_raw_parts_mut(nulls, columns);
            nbtree::insert(table, index, values, nulls, at);
        }
        false
    }
}

/// Has a key entered the row, or will it?
fn is_entered_by_key(table: Table<'_>, index: Index<'_>, at: Tid) -> bool {
    let (keys, series) = (keys::of(table), index.oid());
    if !keys.is_companion(series) {
        return false;
    }
    if series_entry::entry(table, at, series) != Entry::None {
        return true;
    }
    // A key that is not ours to enter yet has its own btree.
    let mut entering = keys.that_enter_into(series);
    let is_left = entering.any(intercept::is_intercepted);
    if is_left {
        series_entry::leave(table, at, series);
    } else {
        series_entry::note(table, at, series, Entry::Unsettled);
    }
    is_left
}

#[pg_guard]
unsafe extern "C-unwind" fn options(options: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    // SAFETY: called by core.
    unsafe { index_options::parse(options, validate).cast() }
}

#[pg_guard]
unsafe extern "C-unwind" fn build_phase_name(phase: i64) -> *mut core::ffi::c_char {
    // SAFETY: called by core.
    unsafe { nbtree::build_phase_name(phase) }
}

#[pg_guard]
unsafe extern "C-unwind" fn validate_class(class: pg_sys::Oid) -> bool {
    // SAFETY: called by core; operator classes have btree's shape.
    unsafe { nbtree::validate(class) }
}
