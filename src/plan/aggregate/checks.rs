//! Which queries the node answers. Whatever is not known to be right is left to core.

use crate::catalog::access_method;
use crate::catalog::keys;
use crate::catalog::layout;
use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Aggregate, Kind};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planned_table::{PlannedTable, Restriction};
use crate::pg::planner::Planner;
use crate::pg::planner_settings::cpu_operator_cost;
use crate::pg::Oid;

/// The table of an input that is one varve table, or one partition, and nothing else. Within a guarded entry point.
pub fn table_of(planner: Planner<'_>, input: PlannedTable<'_>) -> Option<Oid> {
    let oid = planner.plain_table(input)?;
    let open = Open::table(oid, LockMode::Held);
    let table = open.rel();
    (access_method::is_varve(table) && keys::may_have_chunks(table)).then_some(oid)
}

/// The time column of a table that `table_of` has found, from 1, and whether it is NOT NULL.
pub fn time_column(planner: Planner<'_>, table: PlannedTable<'_>) -> Option<(i16, bool)> {
    let open = Open::table(planner.oid(table), LockMode::Held);
    let time = layout::of(open.rel()).time?;
    let attributes = open.rel().attributes();
    Some((time as i16, attributes[usize::from(time) - 1].attnotnull))
}

/// The conditions of the table in the order in which core evaluates them; None where one of them is not for the node.
pub fn conditions_of<'a>(
    planner: Planner<'a>,
    input: PlannedTable<'a>,
) -> Option<Vec<Expression<'a>>> {
    let conditions: Vec<Restriction<'a>> = input.restrictions().collect();
    let is_plain = |condition: &Restriction<'a>| is_plain(condition.clause, input.number());
    if !conditions.iter().all(is_plain) {
        return None;
    }
    let mut ranked: Vec<((u32, f64), Expression<'a>)> = Vec::with_capacity(conditions.len());
    for condition in conditions {
        ranked.push((rank(planner, condition), condition.clause));
    }
    // Those of equal rank: as they are written.
    ranked.sort_by(|((level, cost), _), ((other, of_other), _)| {
        level.cmp(other).then(cost.total_cmp(of_other))
    });
    Some(ranked.into_iter().map(|(_, clause)| clause).collect())
}

/// Up to so many operators, a condition that tells nobody of values goes before those of lower levels.
const CHEAP: f64 = 10.0;

/// By what core orders conditions: who may see which rows, then cost. A condition may raise an error for rows that a cheaper one leaves out, so queries rely
/// on it.
fn rank(planner: Planner<'_>, condition: Restriction<'_>) -> (u32, f64) {
    let cost = planner.cost_of_restriction(condition).per_row;
    let is_free = condition.is_leakproof && cost < CHEAP * cpu_operator_cost();
    let level = if is_free { 0 } else { condition.security_level };
    (level, cost)
}

/// The conditions of the table that depend on its rows; None where one of them is not for a node of ours.
pub fn row_conditions_of(table: PlannedTable<'_>) -> Option<Vec<Expression<'_>>> {
    let conditions = table.restrictions();
    let clauses = conditions.filter(|condition| !condition.is_constant);
    let plain = |clause| is_plain(clause, table.number()).then_some(clause);
    clauses.map(|condition| plain(condition.clause)).collect()
}

/// Can an expression be evaluated over rows of the table, whenever and however often the node likes? Called while planning.
pub fn is_plain(expression: Expression<'_>, table: u32) -> bool {
    let mut plain = true;
    expression.visit(|part| {
        plain = match part.kind() {
            Kind::Column(column) => {
                column.table() == table && column.number() > 0 && column.level() == 0
            }
            Kind::Beyond | Kind::PlaceHolder | Kind::Grouping | Kind::Aggregate(_) => false,
            _ => true,
        };
        match plain {
            true => Step::Into,
            false => Step::Stop,
        }
    });
    plain && !expression.is_volatile() && !expression.returns_set()
}

/// Can the node compute an aggregate's partial state?
pub fn is_plain_aggregate(aggregate: Aggregate<'_>, table: u32) -> bool {
    let is_plain = |expression| is_plain(expression, table);
    aggregate.is_plain()
        && aggregate.filter().is_none_or(is_plain)
        && aggregate.arguments().all(is_plain)
}

/// The parameters of expressions that another part of the plan sets, for the planner to see. Those of a prepared statement are no matter of
/// its, and can be thousands.
pub fn inner_parameters_of<'a>(expressions: &[Expression<'a>]) -> Vec<Expression<'a>> {
    let mut found: Vec<Expression<'a>> = Vec::new();
    for expression in expressions {
        expression.visit(|part| {
            let Kind::Parameter(parameter) = part.kind() else {
                return Step::Into;
            };
            if !parameter.is_external() && !found.iter().any(|known| known.equals(part)) {
                found.push(part);
            }
            Step::Past
        });
    }
    found
}
