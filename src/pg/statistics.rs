//! What ANALYZE has found of columns.

use super::expression_kinds::Column;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use pgrx::pg_sys::{self, Datum};

/// How values of a column are spread.
pub struct Histogram {
    /// As many values are between each two of them.
    pub bounds: Vec<f64>,
    /// How many different values there are.
    pub distinct: f64,
}

impl Histogram {
    /// That of a column whose values are passed as they are, each the number that `number` makes of it.
    pub fn of(
        planner: Planner<'_>,
        table: PlannedTable<'_>,
        column: Column<'_>,
        number: impl Fn(Datum) -> f64,
    ) -> Option<Histogram> {
        // SAFETY: a syscache look-up; the values are read before they are released.
        unsafe {
            let row = pg_sys::SearchSysCache3(
                pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
                planner.oid(table).into(),
                column.number().into(),
                planner.has_children(table).into(),
            );
            if row.is_null() {
                return None;
            }
            let statistics: pg_sys::Form_pg_statistic = pg_sys::GETSTRUCT(row).cast();
            let distinct = match f64::from((*statistics).stadistinct) {
                share if share < 0.0 => -share * table.tuples().max(table.rows()),
                count => count,
            };
            let mut slot = pg_sys::AttStatsSlot::default();
            let kind = pg_sys::STATISTIC_KIND_HISTOGRAM as i32;
            let values = pg_sys::ATTSTATSSLOT_VALUES as i32;
            let mut bounds = Vec::new();
            if pg_sys::get_attstatsslot(&mut slot, row, kind, pg_sys::InvalidOid, values) {
                if slot.nvalues > 1 && slot.valuetype == column.typ() {
                    let all = core::slice::from_raw_parts(slot.values, slot.nvalues as usize);
                    bounds.extend(all.iter().map(|&bound| number(bound)));
                }
                pg_sys::free_attstatsslot(&mut slot);
            }
            pg_sys::ReleaseSysCache(row);
            (!bounds.is_empty()).then_some(Histogram { bounds, distinct })
        }
    }
}
