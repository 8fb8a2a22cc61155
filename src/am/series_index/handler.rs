//! The routine of the index access method, and inserting.

use super::{build, cost, scan, vacuum};
use crate::catalog::index_options;
use crate::pg::nbtree;
use crate::pg::relation::{Index, Table};
use crate::pg::tid;
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

/// Rows of batches have virtual TIDs: they are entered with their chunk.
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
        if !at.is_virtual() {
            let columns = index.form().indnatts as usize;
            let values = core::slice::from_raw_parts_mut(values, columns);
            let nulls = core::slice::from_raw_parts_mut(nulls, columns);
            nbtree::insert(table, index, values, nulls, at);
        }
        false
    }
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
