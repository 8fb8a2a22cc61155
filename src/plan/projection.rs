//! Which columns a scan needs. The planner is kept from letting scans of varve tables hand out whole
//! rows where few columns are used; and when a plan starts, the slot of each scan that projects is told
//! which columns its node can ask for, so that no other is decoded.

use crate::catalog::{access_method, layout};
use crate::chunk::slot;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::started_scans::{self, StartedScan};
use crate::pg::table_paths;

pub fn init() {
    table_paths::init(ask_for_columns);
    started_scans::init(narrow);
}

/// Says of a varve table that its whole row is needed above the scan. Nothing is read that would not be
/// read anyway; but create_plan then builds a target list of the needed columns instead of a physical
/// one, which an aggregate would copy with all its columns.
fn ask_for_columns(planner: Planner<'_>, table: PlannedTable<'_>) {
    if planner.is_ordinary_table(table) {
        let open = Open::table(planner.oid(table), LockMode::Held);
        if access_method::is_varve(open.rel()) {
            table.need_whole_row();
        }
    }
}

/// Tells the scan's slot which columns are asked for. Only where the node projects: then nobody but its
/// own expressions reads the slot.
fn narrow(scan: StartedScan<'_>) {
    let is_varve = scan.table().is_some_and(access_method::is_varve);
    if !scan.projects() || !is_varve {
        return;
    }
    let target = scan.slot().as_ptr();
    // SAFETY: the slot of a scan that has started.
    if !unsafe { slot::is_ours(target) } {
        return;
    }
    // Some indexes find no rows but those that are looked for, so that nobody asks a row about it.
    let is_exact = scan
        .index()
        .is_some_and(|index| index.is_btree() || layout::is_series(index));
    let used = scan.columns(!is_exact);
    // A whole-row reference.
    if used.contains(&0) {
        return;
    }
    let wanted = used.into_iter().filter(|&number| number > 0);
    let wanted = wanted.map(|number| number as u16 - 1).collect();
    // SAFETY: a slot of ours, of which the node's own expressions ask for no more.
    unsafe { slot::restrict(target, wanted) };
}
