//! What the planner is told: ordinary indexes of a table that has, or may get, compressed rows cover
//! its tail only, so no path may be made from them. They stay in the list for what else core asks of it: proofs that
//! rows of a join are unique, statistics of expressions, the newest time. Those that are not asked for anything go, since core
//! makes the paths of each index before it throws them away.

use crate::catalog::access_method;
use crate::catalog::{keys, layout};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planned_index::PlannedIndex;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::relation_info;
use crate::pg::Oid;

pub fn init() {
    relation_info::init(look_at);
}

fn look_at(planner: Planner<'_>, table: PlannedTable<'_>) {
    let indexes = table.indexes();
    if indexes.is_empty() {
        return;
    }
    let open = Open::table(planner.oid(table), LockMode::Held);
    if !access_method::is_varve(open.rel()) {
        return;
    }
    let series = layout::index_am();
    let is_ordinary = |index: &&PlannedIndex<'_>| index.access_method() != series;
    if !indexes.iter().any(|index| is_ordinary(&index)) {
        return;
    }
    if !keys::may_have_chunks(open.rel()) {
        return;
    }
    // Then nobody asks whether its rows are unique in a join. CLUSTER and CREATE INDEX ask about a table without a query.
    let is_alone = planner.only_table() == Some(table.number());
    let time = time_column(&indexes, series);
    for &index in indexes.iter().filter(is_ordinary) {
        if is_alone && is_for_paths_only(index, time) {
            table.forget_index(index);
            continue;
        }
        index.make_no_paths();
    }
}

/// The number of the column by which a table's first series index, if there is one, orders the rows of a series.
fn time_column(indexes: &[PlannedIndex<'_>], series: Oid) -> Option<i32> {
    let index = indexes
        .iter()
        .find(|index| index.access_method() == series)?;
    index.key_column(index.keys() - 1)
}

/// Is nothing asked of an index but paths, in a query of one table? Of an expression it has statistics; of one column it tells that its values
/// are unique; and of the times that have come since ANALYZE, of which most are in the tail, what the newest is.
fn is_for_paths_only(index: PlannedIndex<'_>, time: Option<i32>) -> bool {
    let tells_uniqueness = index.is_unique() && index.keys() == 1;
    let tells_newest = index.key_column(0) == time;
    !index.has_expressions() && !tells_uniqueness && !tells_newest
}
