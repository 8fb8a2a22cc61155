//! What the node emits: the group columns, then a partial state of each aggregate that the query's expressions need.

use super::checks::{is_plain, is_plain_aggregate};
use crate::exec::aggregate::{class_of, is_finished, Class};
use crate::functions::gapfill_calls::marker_of;
use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Aggregate, Kind};
use crate::pg::path_target::PathTarget;
use crate::pg::types;
use crate::pg::upper_paths::Grouping;
use crate::pg::InvalidOid;

/// A partial grouping's columns.
pub struct Target<'a> {
    pub groups: Vec<Expression<'a>>,
    pub aggregates: Vec<Aggregate<'a>>,
    /// The same aggregates as the query has them.
    pub whole: Vec<Aggregate<'a>>,
    pub target: PathTarget<'a>,
}

struct Needed<'a> {
    table: u32,
    groups: Vec<Expression<'a>>,
    aggregates: Vec<Aggregate<'a>>,
    possible: bool,
}

impl<'a> Needed<'a> {
    /// Finds the aggregates that an expression needs, and what else it does.
    fn collect(&mut self, expression: Expression<'a>) {
        expression.visit(|part| {
            if self.groups.iter().any(|group| group.equals(part)) {
                return Step::Past;
            }
            match part.kind() {
                Kind::Aggregate(aggregate) => {
                    self.possible &= is_plain_aggregate(aggregate, self.table);
                    let mut known = self.aggregates.iter();
                    if !known.any(|known| known.expression().equals(part)) {
                        self.aggregates.push(aggregate);
                    }
                    Step::Past
                }
                // Columns that are the same throughout a group are core's.
                Kind::Column(_) | Kind::PlaceHolder | Kind::Grouping => {
                    self.possible = false;
                    Step::Stop
                }
                _ => Step::Into,
            }
        });
    }
}

impl<'a> Target<'a> {
    /// None where the query needs something else of a group, or what the node does not compute. The grouping can be split; `table` is the
    /// number of the table that is read. Within a guarded entry point.
    pub fn of(grouping: Grouping<'a>, table: u32) -> Option<Target<'a>> {
        let groups = grouping.planner.group_columns();
        if !groups.iter().all(|group| is_plain(group.expression, table)) {
            return None;
        }
        let mut needed = Needed {
            table,
            groups: groups.iter().map(|group| group.expression).collect(),
            aggregates: Vec::new(),
            possible: true,
        };
        let columns = grouping.output.target().columns();
        for expression in columns.iter().chain(grouping.having()) {
            needed.collect(expression);
        }
        if !needed.possible {
            return None;
        }
        let whole = needed.aggregates;
        // SAFETY: what the planner's hook makes is in the planner's memory; the grouping can be split.
        let partial = |aggregate: &Aggregate<'a>| unsafe { aggregate.partial() };
        let aggregates: Vec<Aggregate<'_>> = whole.iter().map(partial).collect();
        let states = aggregates.iter().map(|state| (state.expression(), 0));
        let columns = groups
            .iter()
            .map(|group| (group.expression, group.reference()));
        let target = PathTarget::of(grouping.planner, columns.chain(states));
        Some(Target {
            groups: needed.groups,
            aggregates,
            whole,
            target,
        })
    }

    /// The target with these columns, of which so many are groups, and the others aggregates.
    pub fn from_columns(target: PathTarget<'a>, groups: usize) -> Target<'a> {
        let mut columns = target.columns().iter();
        let groups = columns.by_ref().take(groups).collect();
        let aggregate = |column: Expression<'a>| match column.kind() {
            Kind::Aggregate(aggregate) => aggregate,
            _ => panic!("BUG: a state of no aggregate"),
        };
        Target {
            groups,
            aggregates: columns.map(aggregate).collect(),
            whole: Vec::new(),
            target,
        }
    }

    /// Can the node give the query what it wants of each group, without a step of core's above it? It has to know what core would make of the
    /// states, and when core takes groups for equal. Within a guarded entry point.
    pub fn can_be_finished(&self) -> bool {
        self.whole.len() == self.aggregates.len()
            && self.groups.len() + self.whole.len() > 0
            && self.groups.iter().all(|&group| is_told_by_bytes(group))
            && self.whole.iter().all(|&aggregate| is_finished(aggregate))
    }
}

/// Are values of a group column equal where their bytes are? Gaps are filled above core's own steps alone.
fn is_told_by_bytes(group: Expression<'_>) -> bool {
    if matches!(group.kind(), Kind::Call(call) if marker_of(call.function()).is_some()) {
        return false;
    }
    let typ = group.typ();
    if class_of(typ) == Class::Int {
        return true;
    }
    let collation = group.collation();
    [types::TEXTOID, types::VARCHAROID].contains(&types::base(typ))
        && collation != InvalidOid
        && types::is_deterministic(collation)
}
