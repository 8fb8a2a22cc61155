//! The range to fill, as the query's conditions state it: `time >= X`, `time < Y`, BETWEEN, in any spelling.
use super::buckets::TimeType;
use crate::functions::errors::invalid;
use crate::pg::expression::Expression;
use crate::pg::expression_kinds::Kind;
use crate::pg::join_tree::{JoinKind, JoinTree, Joins};
use crate::pg::operator::{self, Strategy};
use crate::pg::planner::Planner;
use crate::pg::{types, Oid};

/// A limit on the time: a lower limit is a least time, an upper limit the first time beyond the range.
pub struct Bound<'a> {
    pub lower: bool,
    /// `>` and `<=`: the limit is the value's successor.
    pub successor: bool,
    /// The value is a timestamp, the time a date.
    pub date_from_timestamp: bool,
    pub value: Expression<'a>,
}

/// Every limit that holds for all rows of the query. Within a guarded entry point.
pub fn collect<'a>(planner: Planner<'a>, time: Expression<'a>) -> Vec<Bound<'a>> {
    let mut bounds = Vec::new();
    if let Some(tree) = planner.join_tree() {
        walk(tree, time, &mut bounds);
    }
    bounds
}

fn walk<'a>(tree: JoinTree<'a>, time: Expression<'a>, bounds: &mut Vec<Bound<'a>>) {
    match tree.kind() {
        Joins::All => {
            tree.members().for_each(|member| walk(member, time, bounds));
            conditions(tree, time, bounds);
        }
        Joins::Two(JoinKind::Inner, left, right) => {
            walk(left, time, bounds);
            walk(right, time, bounds);
            conditions(tree, time, bounds);
        }
        // A condition on the inner side of an outer join, or in its ON, lets NULL-extended rows pass.
        Joins::Two(JoinKind::Left | JoinKind::Semi | JoinKind::Anti, left, _) => {
            walk(left, time, bounds);
        }
        Joins::Two(JoinKind::Other, ..) | Joins::Nothing => {}
    }
}

fn conditions<'a>(tree: JoinTree<'a>, time: Expression<'a>, bounds: &mut Vec<Bound<'a>>) {
    let conditions = tree.conditions().iter();
    conditions.for_each(|condition| {
        from_condition(condition, time, bounds);
    });
}

fn from_condition<'a>(
    condition: Expression<'a>,
    time: Expression<'a>,
    bounds: &mut Vec<Bound<'a>>,
) -> Option<()> {
    let Kind::Operator(operator) = condition.kind() else {
        return None;
    };
    if condition.is_made() {
        // It follows from one on the bucket, and lets more times pass than that.
        return None;
    }
    let [left, right] = operator.arguments().array()?;
    let (value, commuted) = if left.equals(time) {
        (right, false)
    } else if right.equals(time) {
        (left, true)
    } else {
        return None;
    };
    if value.has_columns() || value.is_volatile() {
        return None;
    }
    let (value, date_from_timestamp) = fitting(value, time.typ())?;
    let strategy = operator::meanings(operator.number()).next()?.strategy;
    let mut add = |lower: bool, successor: bool| {
        bounds.push(Bound {
            lower,
            successor,
            date_from_timestamp,
            value,
        })
    };
    match if commuted {
        strategy.commuted()
    } else {
        strategy
    } {
        Strategy::Less => add(false, false),
        Strategy::LessOrEqual => add(false, true),
        Strategy::GreaterOrEqual => add(true, false),
        Strategy::Greater => add(true, true),
        Strategy::Equal => {
            add(true, false);
            add(false, true);
        }
        Strategy::NotEqual => {}
    }
    Some(())
}

/// The value in the type of the time, or as a timestamp for a date; integers of any size fit each other.
fn fitting(value: Expression<'_>, time_type: Oid) -> Option<(Expression<'_>, bool)> {
    let value_type = value.typ();
    // SAFETY: a planner's expression, and its memory is the current one.
    let converted = |to| unsafe { value.cast(to) };
    match (TimeType::of(time_type)?, TimeType::of(value_type)?) {
        (TimeType::Timestamp, TimeType::Timestamp) if value_type == time_type => {
            Some((value, false))
        }
        (TimeType::Timestamp, TimeType::Date | TimeType::Timestamp) => {
            Some((converted(time_type)?, false))
        }
        (TimeType::Date, TimeType::Date) => Some((value, false)),
        (TimeType::Date, TimeType::Timestamp) => Some((converted(types::TIMESTAMPOID)?, true)),
        (TimeType::Date | TimeType::Timestamp, _) | (_, TimeType::Date | TimeType::Timestamp) => {
            None
        }
        _ => Some((value, false)),
    }
}

#[cold]
pub fn raise_missing_bound(which: &str) -> ! {
    let condition = if which == "start" {
        "time >= X"
    } else {
        "time < X"
    };
    invalid(
        format!("time_bucket_gapfill has no {which}"),
        &format!("Give {which} as an argument, or limit the very argument of the call in WHERE: {condition}."),
    )
}
