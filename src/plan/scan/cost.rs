//! What the node costs: opening the chunks that a series index leaves, pages of the blocks that are decoded, a little for each value, as much
//! as core takes for each condition that is evaluated row by row, and a row for each that is wanted.

use crate::exec::aggregate::is_decided;
use crate::pg::expression::Expression;
use crate::pg::node::list;
use crate::plan::aggregate::cost::{by_index, BLOCK_ROWS, CHUNK, START, VALUE};
use crate::plan::aggregate::join::Input;
use pgrx::pg_sys::{self, Node};

/// A row of a chunk on its way up, in tuples. One of the tail is a whole one.
const ROW: f64 = 0.5;
/// Getting ready to hand rows on, beside choosing them, in tuples: what folds them itself is ahead where it is as good.
const HANDING_ON: f64 = 100.0;
/// Fewer rows are nothing to get ready for.
pub const LEAST_ROWS: f64 = 1000.0;
/// Where more of the rows than that are in the tail, core's scans do as well.
const MOST_TAIL: f64 = 0.5;

/// Startup and total cost of a scan that decodes so many columns; None where it is not worth a thought.
///
/// # Safety
/// Called by the planner's hook; the conditions are the table's.
pub unsafe fn of_node(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    conditions: &[*mut Node],
    columns: f64,
) -> Option<(f64, f64)> {
    // SAFETY: by contract.
    unsafe {
        let rows = (*table).tuples.max((*table).rows).max(1.0);
        let pages = f64::from((*table).pages);
        let source = Input { table, join: None };
        let by_index = by_index(root, table, &source);
        let (opened, left) = (by_index.opened, by_index.share * rows);
        if left < LEAST_ROWS || by_index.tail > MOST_TAIL {
            return None;
        }
        let decoded = (left + opened * BLOCK_ROWS).min(rows);
        let column_share = (columns / f64::from((*table).max_attr).max(columns)).min(1.0);
        let read = by_index.pages + opened.min(pages) + pages * column_share * decoded / rows;
        let values = decoded * (columns + 1.0) * VALUE * pg_sys::cpu_operator_cost;
        let rest = conditions
            .iter()
            .filter(|&&clause| !is_decided(Expression::from_ptr(clause)));
        let mut quals = pg_sys::QualCost::default();
        pg_sys::cost_qual_eval(&mut quals, list(rest.copied()), root);
        let row = by_index.tail + (1.0 - by_index.tail) * ROW;
        let target = &(*(*table).reltarget).cost;
        let per_row = row * pg_sys::cpu_tuple_cost + target.per_tuple;
        let startup = by_index.pages * pg_sys::seq_page_cost
            + (START + HANDING_ON) * pg_sys::cpu_tuple_cost
            + quals.startup
            + target.startup;
        let total = startup
            + (read.min(pages + by_index.pages) - by_index.pages) * pg_sys::seq_page_cost
            + opened * CHUNK * pg_sys::cpu_tuple_cost
            + values
            + left * quals.per_tuple
            + (*table).rows * per_row;
        Some((startup, total))
    }
}
