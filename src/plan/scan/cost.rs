//! What the node costs: opening the chunks that a series index leaves, pages of the blocks that are decoded, a little for each value, as much
//! as core takes for each condition that is evaluated row by row, and a row for each that is wanted.

use crate::exec::aggregate::is_decided;
use crate::pg::expression::Expression;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::planner_settings::{cpu_operator_cost, cpu_tuple_cost, seq_page_cost};
use crate::plan::aggregate::cost::{by_index, BLOCK_ROWS, CHUNK, START, VALUE};
use crate::plan::aggregate::join::Input;

/// A row of a chunk on its way up, in tuples. One of the tail is a whole one.
const ROW: f64 = 0.5;
/// Getting ready to hand rows on, beside choosing them, in tuples: what folds them itself is ahead where it is as good.
const HANDING_ON: f64 = 100.0;
/// Fewer rows are nothing to get ready for.
pub const LEAST_ROWS: f64 = 1000.0;
/// Where more of the rows than that are in the tail, core's scans do as well.
const MOST_TAIL: f64 = 0.5;

/// Startup and total cost of a scan that decodes so many columns; None where it is not worth a thought. The conditions are the table's. Within a
/// guarded entry point.
pub fn of_node(
    planner: Planner<'_>,
    table: PlannedTable<'_>,
    conditions: &[Expression<'_>],
    columns: f64,
) -> Option<(f64, f64)> {
    let rows = table.tuples().max(table.rows()).max(1.0);
    let pages = table.pages();
    let by_index = by_index(planner, table, &Input { table, join: None });
    let (opened, left) = (by_index.opened, by_index.share * rows);
    if left < LEAST_ROWS || by_index.tail > MOST_TAIL {
        return None;
    }
    let decoded = (left + opened * BLOCK_ROWS).min(rows);
    let column_share = (columns / f64::from(table.columns()).max(columns)).min(1.0);
    let read = by_index.pages + opened.min(pages) + pages * column_share * decoded / rows;
    let values = decoded * (columns + 1.0) * VALUE * cpu_operator_cost();
    let rest = conditions.iter().filter(|&&clause| !is_decided(clause));
    let quals = planner.cost_of(rest.copied());
    let row = by_index.tail + (1.0 - by_index.tail) * ROW;
    let target = table.target().cost();
    let per_row = row * cpu_tuple_cost() + target.per_row;
    let startup = by_index.pages * seq_page_cost()
        + (START + HANDING_ON) * cpu_tuple_cost()
        + quals.startup
        + target.startup;
    let total = startup
        + (read.min(pages + by_index.pages) - by_index.pages) * seq_page_cost()
        + opened * CHUNK * cpu_tuple_cost()
        + values
        + left * quals.per_row
        + table.rows() * per_row;
    Some((startup, total))
}
