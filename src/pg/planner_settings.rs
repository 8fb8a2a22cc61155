//! Settings of the planner's: what it takes for the cost of something, and what a session wants it not to do.

use pgrx::pg_sys;

/// Processing a row.
pub fn cpu_tuple_cost() -> f64 {
    // SAFETY: a setting of this process, as are all below.
    unsafe { pg_sys::cpu_tuple_cost }
}

/// Calling an operator or a function.
pub fn cpu_operator_cost() -> f64 {
    // SAFETY: as above.
    unsafe { pg_sys::cpu_operator_cost }
}

/// Reading a page behind the one before.
pub fn seq_page_cost() -> f64 {
    // SAFETY: as above.
    unsafe { pg_sys::seq_page_cost }
}

/// May a table be read from end to end where there is another way?
pub fn enable_seqscan() -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::enable_seqscan }
}

/// May several processes share the parts of an Append?
pub fn enable_parallel_append() -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::enable_parallel_append }
}

/// Does the leader of a parallel query run the plan beside its workers?
pub fn parallel_leader_participation() -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::parallel_leader_participation }
}
