//! What the planner is told: ordinary indexes of a table that has, or may get, compressed rows cover
//! its tail only, so no path may be made from them. They stay in the list for uniqueness proofs.

use crate::catalog::access_method;
use crate::catalog::{keys, layout};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::Open;
use pgrx::pg_sys;
use pgrx::prelude::*;
use smallvec::SmallVec;

static mut NEXT: pg_sys::get_relation_info_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(get_relation_info);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_relation_info(
    root: *mut pg_sys::PlannerInfo,
    table: pg_sys::Oid,
    inherited: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: called by core at the end of its own get_relation_info.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, table, inherited, rel));
        }
        let list = (*rel).indexlist;
        if list.is_null() {
            return;
        }
        let open = Open::table(table, LockMode::Held);
        if !access_method::is_varve(open.rel()) {
            return;
        }
        let series = layout::index_am();
        let indexes = core::slice::from_raw_parts((*list).elements, (*list).length as usize);
        let ordinary: SmallVec<[*mut pg_sys::IndexOptInfo; 4]> = indexes
            .iter()
            .map(|cell| cell.ptr_value.cast())
            .filter(|&index: &*mut pg_sys::IndexOptInfo| (*index).relam != series)
            .collect();
        if ordinary.is_empty() {
            return;
        }
        if !keys::may_have_chunks(open.rel()) {
            return;
        }
        for index in ordinary {
            (*index).amhasgettuple = false;
            (*index).amhasgetbitmap = false;
            // Core makes paths for parallel index scans whatever amhasgettuple says.
            (*index).amcanparallel = false;
        }
    }
}
