//! The node's paths, for one process and for several, and its plan. Conditions travel in `custom_exprs`, in core's order, which is that of their
//! security levels.

use super::{cost, reason};
use crate::exec::scan::Scan;
use crate::guc;
use crate::pg::custom_scan::{Chosen, CustomPlanner, NewPlan, Private};
use crate::pg::expression::{columns_of, Expression};
use crate::pg::path::Path;
use crate::pg::planned_table::{PlannedTable, Restriction};
use crate::pg::planner::Planner;
use crate::pg::planner_settings::enable_seqscan;
use crate::pg::table_paths;
use crate::plan::aggregate::{checks, parallel};

pub fn init() {
    table_paths::init(offer);
}

/// Adds the node's paths to those of a table.
fn offer<'a>(planner: Planner<'a>, table: PlannedTable<'a>) {
    let is_wanted = guc::enable_scan() && enable_seqscan();
    if !is_wanted
        || looks_at_few(planner, table)
        || table.is_empty()
        || checks::table_of(planner, table).is_none()
    {
        return;
    }
    let Some(conditions) = checks::row_conditions_of(table) else {
        return;
    };
    let Some(columns) = decoded_columns(table, &conditions) else {
        return;
    };
    let Some((startup, total)) = cost::of_node(planner, table, &conditions, columns) else {
        return;
    };
    let private: Vec<_> = reason::of(planner).map(Private::Text).into_iter().collect();
    let made = planner.custom_path::<Scanning>(table, table.target(), &private);
    let path = made.path();
    path.set_parallel_safe(table.may_be_parallel());
    path.set_rows(table.rows());
    path.set_costs(startup, total);
    let several = made.copy();
    // SAFETY: it makes the table's rows, and is used no more.
    unsafe { table.add_path(path) };
    let workers = parallel::workers_of(planner, table, &conditions);
    if workers > 0 {
        parallel::share_rows(several, workers);
        // SAFETY: as above.
        unsafe { table.add_partial_path(several.path()) };
    }
}

/// Is the table small, or does a scan through an index look at few rows of it? Told by what is known already.
fn looks_at_few(planner: Planner<'_>, table: PlannedTable<'_>) -> bool {
    let few = |share: f64| share * table.tuples() < cost::LEAST_ROWS;
    let by_index = |path: Path<'_>| {
        path.index_scan().is_some_and(|scan| {
            !path.is_parameterized()
                && (few(scan.share) || stops_early(planner, table, path, scan.conditions))
        })
    };
    few(1.0) || table.paths().any(by_index)
}

/// Does the query want a few rows, in the order in which a scan through an index comes to them, by so many conditions, and no others than
/// these?
fn stops_early(
    planner: Planner<'_>,
    table: PlannedTable<'_>,
    path: Path<'_>,
    conditions: usize,
) -> bool {
    let order = planner.wanted_order();
    (0.0..cost::LEAST_ROWS).contains(&planner.limit())
        && planner.reads_one_table()
        && table.restrictions().count() <= conditions
        && !order.is_any()
        && order.is_kept_by(path.order())
}

/// How many columns the node decodes; None where more than columns is asked for: a system column, or whole rows.
fn decoded_columns(table: PlannedTable<'_>, conditions: &[Expression<'_>]) -> Option<f64> {
    let targets = table.target().columns().iter();
    let all = targets.chain(conditions.iter().copied());
    let columns = columns_of(table.number(), all);
    let has_others = columns.iter().any(|&column| column <= 0);
    (!has_others).then_some(columns.len() as f64)
}

/// Paths of the node.
struct Scanning;

impl CustomPlanner for Scanning {
    type Node = Scan;

    fn plan<'a>(chosen: Chosen<'a>) -> NewPlan<'a> {
        // What no row decides is asked above the node, but for several processes: their leader makes up what they share before anything is asked.
        let is_asked_above =
            |condition: &Restriction<'_>| condition.is_constant && !chosen.is_shared();
        let rows = chosen.conditions().filter(|one| !is_asked_above(one));
        NewPlan {
            table: chosen.table.number(),
            expressions: rows.map(|condition| Some(condition.clause)).collect(),
            columns: Vec::new(),
            kept: Vec::new(),
            private: chosen.private(),
        }
    }
}
