//! Which INSERT statements may collect their rows in batches: those in which nothing can look at the
//! table while it is being filled, or wants the rows' TIDs (COPY's own rules for multi-inserts).

use crate::catalog::access_method;
use crate::guc;
use crate::pg::executor_hooks::Query;
use crate::pg::functions;
use crate::pg::insert_query::InsertQuery;
use crate::pg::names;
use crate::pg::relation::{Kind, Table};
use crate::pg::{CommandId, Oid};

/// The command id of an INSERT whose rows may be collected; `None` for any other statement. Within a guarded entry point.
pub fn eligible_command(query: Query) -> Option<CommandId> {
    let insert = InsertQuery::of(query)?;
    // Single rows and short VALUES lists go to the tail without further thought.
    let may_reach_a_batch = || {
        let rows = insert.values();
        rows.is_none_or(|rows| rows >= guc::batch_rows())
    };
    let may_collect = may_have_varve_rows(insert.target())
        && may_reach_a_batch()
        && !insert.checks_rows()
        && !insert.calls_any(may_run_sql);
    may_collect.then(|| insert.command())
}

/// Is a table a varve table, or a partitioned table that may have varve partitions?
fn may_have_varve_rows(target: Table<'_>) -> bool {
    target.kind() == Kind::Partitioned || access_method::is_varve(target)
}

/// A volatile function that is not one of the server's own, or is one of those that run queries.
fn may_run_sql(oid: Oid) -> bool {
    const RUN_QUERIES: [&str; 3] = ["xml", "ts_stat", "ts_rewrite"];
    if !functions::is_volatile(oid) {
        return false;
    }
    if !functions::is_of_server(oid) {
        return true;
    }
    names::function(oid).is_none_or(|name| RUN_QUERIES.iter().any(|part| name.contains(part)))
}
