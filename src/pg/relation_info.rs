//! The planner's hook for each table that a query reads.

use super::planner::{PlannedTable, Planner};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};
use std::sync::OnceLock;

static mut NEXT: pg_sys::get_relation_info_hook_type = None;
static SHOW: OnceLock<fn(Planner<'_>, PlannedTable<'_>)> = OnceLock::new();

/// Has `show` told of each table, when its indexes and its partitioning have been looked up, before the planner takes the conditions on it
/// apart; children of a partitioned table come later. To be called once, when a backend loads the library.
pub fn init(show: fn(Planner<'_>, PlannedTable<'_>)) {
    SHOW.get_or_init(|| show);
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(get_relation_info);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_relation_info(
    root: *mut pg_sys::PlannerInfo,
    relation: Oid,
    inhparent: bool,
    table: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: called by the planner with valid arguments; hooks are C functions and may raise.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, relation, inhparent, table));
        }
        if let Some(show) = SHOW.get() {
            show(Planner::from_ptr(root), PlannedTable::from_ptr(table));
        }
    }
}
