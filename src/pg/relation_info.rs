//! The planner's hook for each table that a query reads.

use super::callbacks::Callbacks;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};

/// Looks at a table of a query.
pub type Look = for<'a> fn(Planner<'a>, PlannedTable<'a>);

static mut NEXT: pg_sys::get_relation_info_hook_type = None;

thread_local! {
    static LOOKS: Callbacks<Look> = const { Callbacks::none() };
}

/// Has `look` told of each table, when its indexes and its partitioning have been looked up, before the planner takes the conditions on it
/// apart; children of a partitioned table come later. To be called when a backend loads the library.
pub fn init(look: Look) {
    if !LOOKS.with(|looks| looks.add(look)) {
        return;
    }
    // SAFETY: called when a backend loads the library, once.
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
        for look in LOOKS.with(Callbacks::all) {
            look(Planner::from_ptr(root), PlannedTable::from_ptr(table));
        }
    }
}
