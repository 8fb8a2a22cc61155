//! A grouping over a join of the table with another relation, where an equality names rows of the table by one of its columns: the
//! other side is planned by core, runs first, and its values choose series. A semi-join, or an inner one: how often a value comes counts then.

use super::checks;
use crate::exec::aggregate::joinable;
use crate::pg::expression_kinds::{Column, Kind};
use crate::pg::join_tree::JoinKind;
use crate::pg::memory;
use crate::pg::path::Path;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;

/// What is aggregated, and what its rows are joined with.
pub struct Input<'a> {
    /// The varve table.
    pub table: PlannedTable<'a>,
    pub join: Option<Join<'a>>,
}

pub struct Join<'a> {
    /// Of the other relation.
    pub path: Path<'a>,
    pub value: Column<'a>,
    /// Column of the table, from 1.
    pub column: i16,
    /// Each value counts once.
    pub is_semi: bool,
    /// How often the table is read: as often as a value comes, on average.
    pub passes: f64,
}

/// Bytes that a value takes at execution, beside its own.
const VALUE_BYTES: f64 = 64.0;

impl<'a> Input<'a> {
    /// The inputs by which a grouping's one may be computed: itself, or one side of a join and what names its rows. Within a guarded entry
    /// point.
    pub fn of(planner: Planner<'a>, input: PlannedTable<'a>) -> Vec<Input<'a>> {
        // Of partitions, each one alone is no grouping of the query's columns.
        if input.is_partition() {
            return Vec::new();
        }
        if !input.is_join() {
            let found = checks::table_of(planner, input).map(|_| Input {
                table: input,
                join: None,
            });
            return found.into_iter().collect();
        }
        let Some([one, two]) = sides_of(planner, input) else {
            return Vec::new();
        };
        let sides = [(one, two), (two, one)].into_iter();
        let inputs = sides.filter_map(|(table, other)| {
            checks::table_of(planner, table)?;
            let join = Some(join_of(planner, input, table, other)?);
            Some(Input { table, join })
        });
        inputs.collect()
    }
}

/// The two base relations of a join, if there are no more and nothing stands between them and the grouping.
fn sides_of<'a>(planner: Planner<'a>, input: PlannedTable<'a>) -> Option<[PlannedTable<'a>; 2]> {
    let [Some(one), Some(two)] = planner.members(input)[..] else {
        return None;
    };
    let is_plain = |side: &PlannedTable<'_>| {
        side.is_named() && !side.is_lateral() && !side.has_join_conditions()
    };
    let sides = [one, two];
    (!planner.has_place_holders() && sides.iter().all(is_plain)).then_some(sides)
}

fn join_of<'a>(
    planner: Planner<'a>,
    input: PlannedTable<'a>,
    table: PlannedTable<'a>,
    other: PlannedTable<'a>,
) -> Option<Join<'a>> {
    let mut is_semi = false;
    for special in planner.special_joins() {
        is_semi = special.kind() == JoinKind::Semi && special.is_between(table, other);
        if !is_semi {
            return None;
        }
    }
    let [clause] = planner.implied_equalities(input, table, other)[..] else {
        return None;
    };
    let Kind::Operator(operator) = clause.kind() else {
        return None;
    };
    let (column, value) = joinable(operator, table.number())?;
    let path = other
        .cheapest_path()
        .filter(|path| !path.is_parameterized())?;
    let bytes = path.rows() * (VALUE_BYTES + path.target().width());
    let passes = match is_semi {
        true => 1.0,
        // As many as the most common value has rows.
        false => {
            let distinct = planner.combinations(&[value.expression()], path.rows());
            let most_common = planner.most_common(value.expression());
            path.rows() * most_common.max(1.0 / distinct.max(1.0))
        }
    };
    let found = Join {
        path,
        value,
        column,
        is_semi,
        passes: passes.max(1.0),
    };
    (bytes <= memory::hash_limit() as f64).then_some(found)
}
