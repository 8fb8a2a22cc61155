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

/// Is a statement to be planned anew whenever it is run?
pub fn forces_custom_plans() -> bool {
    // SAFETY: as above.
    let mode = unsafe { pg_sys::plan_cache_mode };
    mode as u32 == pg_sys::PlanCacheMode::PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN
}

/// What the plan of a statement depends on, besides its tables.
#[derive(Clone, Copy, PartialEq)]
pub struct Settings {
    costs: [f64; 11],
    numbers: [i32; 10],
    enabled: [bool; 24],
    /// Those that PostgreSQL 15 has not.
    enabled_since: [bool; 2],
}

impl Settings {
    pub fn now() -> Settings {
        // SAFETY: as above.
        unsafe {
            #[cfg(feature = "pg15")]
            let forces_parallel = pg_sys::force_parallel_mode;
            #[cfg(feature = "pg17")]
            let forces_parallel = pg_sys::debug_parallel_query;
            Settings {
                costs: [
                    pg_sys::seq_page_cost,
                    pg_sys::random_page_cost,
                    pg_sys::cpu_tuple_cost,
                    pg_sys::cpu_index_tuple_cost,
                    pg_sys::cpu_operator_cost,
                    pg_sys::parallel_tuple_cost,
                    pg_sys::parallel_setup_cost,
                    pg_sys::jit_above_cost,
                    pg_sys::jit_inline_above_cost,
                    pg_sys::jit_optimize_above_cost,
                    pg_sys::hash_mem_multiplier,
                ],
                numbers: [
                    pg_sys::effective_cache_size,
                    pg_sys::work_mem,
                    pg_sys::max_parallel_workers_per_gather,
                    forces_parallel,
                    pg_sys::constraint_exclusion,
                    pg_sys::min_parallel_table_scan_size,
                    pg_sys::min_parallel_index_scan_size,
                    pg_sys::from_collapse_limit,
                    pg_sys::join_collapse_limit,
                    pg_sys::geqo_threshold,
                ],
                enabled: [
                    pg_sys::enable_seqscan,
                    pg_sys::enable_indexscan,
                    pg_sys::enable_indexonlyscan,
                    pg_sys::enable_bitmapscan,
                    pg_sys::enable_tidscan,
                    pg_sys::enable_sort,
                    pg_sys::enable_incremental_sort,
                    pg_sys::enable_hashagg,
                    pg_sys::enable_nestloop,
                    pg_sys::enable_hashjoin,
                    pg_sys::enable_mergejoin,
                    pg_sys::enable_material,
                    pg_sys::enable_memoize,
                    pg_sys::enable_gathermerge,
                    pg_sys::enable_partitionwise_join,
                    pg_sys::enable_partitionwise_aggregate,
                    pg_sys::enable_parallel_append,
                    pg_sys::enable_parallel_hash,
                    pg_sys::enable_partition_pruning,
                    pg_sys::enable_geqo,
                    pg_sys::jit_enabled,
                    pg_sys::jit_expressions,
                    pg_sys::jit_tuple_deforming,
                    pg_sys::parallel_leader_participation,
                ],
                #[cfg(feature = "pg15")]
                enabled_since: [false; 2],
                #[cfg(feature = "pg17")]
                enabled_since: [
                    pg_sys::enable_presorted_aggregate,
                    pg_sys::enable_group_by_reordering,
                ],
            }
        }
    }
}
