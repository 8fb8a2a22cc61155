//! The table access method: heap's routine with our callbacks in the places where chunks matter.

use super::{analyze, cluster, ddl, fetch, index_build, index_delete, lock, modify, sample, scan};
use crate::catalog::access_method;
use crate::chunk::slot;
use crate::pg::relation::Routine;
use crate::pg::relation::Table;
use pgrx::pg_sys;
use pgrx::prelude::*;

#[pg_guard]
unsafe extern "C-unwind" fn slot_callbacks(
    table: pg_sys::Relation,
) -> *const pg_sys::TupleTableSlotOps {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // ON CONFLICT asks for the slot before it looks for a key.
    crate::am::unique::intercept::intercept(table);
    slot::ops()
}

fn build() -> Box<pg_sys::TableAmRoutine> {
    // SAFETY: heap's routine is a constant of the server.
    let mut routine = unsafe { Box::new(*pg_sys::GetHeapamTableAmRoutine()) };
    routine.slot_callbacks = Some(slot_callbacks);

    routine.scan_begin = Some(scan::scan_begin);
    routine.scan_end = Some(scan::scan_end);
    routine.scan_rescan = Some(scan::scan_rescan);
    routine.scan_getnextslot = Some(scan::scan_getnextslot);
    routine.scan_set_tidrange = Some(scan::scan_set_tidrange);
    routine.scan_getnextslot_tidrange = Some(scan::scan_getnextslot_tidrange);
    {
        routine.scan_bitmap_next_block = Some(scan::scan_bitmap_next_block);
    }
    routine.scan_bitmap_next_tuple = Some(scan::scan_bitmap_next_tuple);
    routine.scan_sample_next_block = Some(sample::scan_sample_next_block);
    routine.scan_sample_next_tuple = Some(sample::scan_sample_next_tuple);
    routine.scan_analyze_next_block = Some(analyze::scan_analyze_next_block);
    routine.scan_analyze_next_tuple = Some(analyze::scan_analyze_next_tuple);

    routine.index_fetch_begin = Some(fetch::index_fetch_begin);
    routine.index_fetch_reset = Some(fetch::index_fetch_reset);
    routine.index_fetch_end = Some(fetch::index_fetch_end);
    routine.index_fetch_tuple = Some(fetch::index_fetch_tuple);
    routine.tuple_fetch_row_version = Some(fetch::tuple_fetch_row_version);
    routine.tuple_tid_valid = Some(fetch::tuple_tid_valid);
    routine.tuple_get_latest_tid = Some(fetch::tuple_get_latest_tid);
    routine.tuple_satisfies_snapshot = Some(fetch::tuple_satisfies_snapshot);

    routine.tuple_insert = Some(modify::tuple_insert);
    routine.multi_insert = Some(modify::multi_insert);
    routine.finish_bulk_insert = Some(modify::finish_bulk_insert);
    routine.tuple_insert_speculative = Some(modify::tuple_insert_speculative);
    routine.tuple_delete = Some(modify::tuple_delete);
    routine.tuple_update = Some(modify::tuple_update);
    routine.tuple_lock = Some(lock::tuple_lock);

    routine.index_build_range_scan = Some(index_build::index_build_range_scan);
    routine.index_validate_scan = Some(index_build::index_validate_scan);
    routine.index_delete_tuples = Some(index_delete::index_delete_tuples);

    routine.relation_copy_for_cluster = Some(cluster::relation_copy_for_cluster);
    #[cfg(feature = "pg15")]
    {
        routine.relation_set_new_filenode = Some(ddl::relation_set_new_file);
    }
    #[cfg(feature = "pg17")]
    {
        routine.relation_set_new_filelocator = Some(ddl::relation_set_new_file);
    }
    routine.relation_nontransactional_truncate = Some(ddl::relation_nontransactional_truncate);
    routine.relation_copy_data = Some(ddl::relation_copy_data);
    routine.relation_toast_am = Some(ddl::relation_toast_am);
    routine.relation_vacuum = Some(ddl::relation_vacuum);
    routine.relation_estimate_size = Some(ddl::relation_estimate_size);
    routine
}

/// `varve.table_handler(internal) → table_am_handler`
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_table_handler(
    _call: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // A relcache entry keeps the pointer: the routine lives as long as the backend.
    pg_sys::Datum::from(access_method::routine(|| Routine::new(build())))
}

#[no_mangle]
pub extern "C-unwind" fn pg_finfo_varve_table_handler() -> &'static pg_sys::Pg_finfo_record {
    const RECORD: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &RECORD
}
