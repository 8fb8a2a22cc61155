//! What the node costs: pages of the chunks that conditions leave, a little for each value that is folded, as much as core
//! takes for each expression that is evaluated row by row, and a row for each group.

use pgrx::pg_sys;

/// Decoding and folding a value, in operators.
const VALUE: f64 = 0.05;
/// A row that is fetched from the tail, or put together for an expression, in tuples.
const ROW: f64 = 0.5;

/// # Safety
/// Called by the planner's hook; `input` is its base relation.
pub unsafe fn of_node(
    input: *mut pg_sys::RelOptInfo,
    folded: usize,
    evaluated: usize,
    groups: f64,
) -> (f64, f64) {
    // SAFETY: by contract.
    unsafe {
        let rows = (*input).tuples.max((*input).rows);
        let pages = f64::from((*input).pages) * pg_sys::seq_page_cost;
        let values = rows * (folded as f64 + 1.0) * VALUE * pg_sys::cpu_operator_cost;
        let row = match evaluated {
            0 => 0.0,
            _ => ROW * pg_sys::cpu_tuple_cost,
        };
        let expressions = (*input).rows * (row + evaluated as f64 * pg_sys::cpu_operator_cost);
        let startup = pages + values + expressions;
        (startup, startup + groups * pg_sys::cpu_tuple_cost)
    }
}
