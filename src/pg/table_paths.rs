//! The planner's hook for each relation of FROM and each partition, when core has made the paths of its scans.

use super::callbacks::Callbacks;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use pgrx::pg_guard;
use pgrx::pg_sys;

/// Adds to the paths of a relation of a query.
pub type Offer = for<'a> fn(Planner<'a>, PlannedTable<'a>);

static mut NEXT: pg_sys::set_rel_pathlist_hook_type = None;

thread_local! {
    static OFFERS: Callbacks<Offer> = const { Callbacks::none() };
}

/// Has `offer` called for each relation. To be called when a backend loads the library.
pub fn init(offer: Offer) {
    if !OFFERS.with(|offers| offers.add(offer)) {
        return;
    }
    // SAFETY: called when a backend loads the library, once.
    unsafe {
        NEXT = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(set_rel_pathlist);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn set_rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: called by core with a complete base relation; hooks are C functions and may raise.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, table, number, entry));
        }
        for offer in OFFERS.with(Callbacks::all) {
            offer(Planner::from_ptr(root), PlannedTable::from_ptr(table));
        }
    }
}
