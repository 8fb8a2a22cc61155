//! Why the groups of a query are core's to fold, for EXPLAIN.

use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Aggregate, Kind};
use crate::pg::names;
use crate::pg::planner::Planner;
use crate::pg::InvalidOid;
use std::ffi::CString;

/// The reason; None where there are no groups, or they might be folded by us.
pub fn of(planner: Planner<'_>) -> Option<CString> {
    if planner.has_grouping_sets() {
        return Some(c"grouping sets".to_owned());
    }
    if !planner.has_aggregates() {
        return None;
    }
    let of_having = planner.having().into_iter().find_map(of_expression);
    of_having.or_else(|| planner.targets().find_map(of_expression))
}

/// The first aggregate of an expression that has no partial form.
fn of_expression(expression: Expression<'_>) -> Option<CString> {
    let mut found = None;
    expression.visit(|part| {
        let Kind::Aggregate(aggregate) = part.kind() else {
            return Step::Into;
        };
        found = of_aggregate(aggregate);
        match found {
            Some(_) => Step::Stop,
            None => Step::Past,
        }
    });
    found
}

fn of_aggregate(aggregate: Aggregate<'_>) -> Option<CString> {
    let called = names::function(aggregate.function())?;
    let is_set = aggregate.is_of_ordered_set();
    let text = if !is_set && aggregate.has_distinct() {
        format!("{called} has DISTINCT")
    } else if !is_set && aggregate.has_order() {
        format!("{called} has ORDER BY")
    } else if is_set || aggregate.definition().combine == InvalidOid {
        format!("{called} has no combine function")
    } else {
        return None;
    };
    CString::new(text).ok()
}
