//! Conditions on `time_bucket(width, t)` become conditions on t, which indexes and chunk summaries can use.
//!
//! For buckets of a clock without jumps, `time_bucket(width, t)` compared with a constant is the same as t compared with a
//! boundary; the condition is replaced. With a value that is known only at execution, or with a time zone, a condition that
//! follows is added. It happens in the hook that the planner calls for each table before it takes WHERE apart, so that it is in
//! time when the library is loaded by the very query.
use super::gapfill::buckets::{Buckets, TimeType};
use crate::functions::bucket::{Width, DAY_US, END_TIMESTAMP_US};
use crate::functions::time_bucket::{
    varve_time_bucket, varve_time_bucket_date, varve_time_bucket_int2, varve_time_bucket_int4,
    varve_time_bucket_int8, varve_time_bucket_zone,
};
use crate::pg::expression::{Expression, Expressions};
use crate::pg::expression_kinds::{Call, Constant, Kind};
use crate::pg::fcinfo::{is_one_of, Function};
use crate::pg::functions::{F_TIMESTAMPTZ_PL_INTERVAL, F_TIMESTAMP_PL_INTERVAL};
use crate::pg::join_tree::{JoinTree, Joins};
use crate::pg::operator::{self, Strategy};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::relation_info;
use crate::pg::{types, Interval, InvalidOid, Oid};

/// More than a bucket of a zone's clock is longer than its width, and than two clocks differ.
const ZONE_SLACK_US: i64 = 3 * DAY_US;

pub fn init() {
    relation_info::init(look_at);
}

fn look_at(planner: Planner<'_>, table: PlannedTable<'_>) {
    // Children of a partitioned table come when the conditions have been taken apart already.
    if table.is_named() {
        let table = Table {
            planner,
            number: table.number(),
            keeps_conditions: table.may_use_expressions(),
        };
        if let Some(tree) = planner.join_tree() {
            walk(tree, &table);
        }
    }
}

/// The table whose conditions are looked at.
struct Table<'a> {
    planner: Planner<'a>,
    number: u32,
    /// Conditions stay beside what follows from them, since an index or the partitioning may be by `time_bucket` itself.
    keeps_conditions: bool,
}

fn walk<'a>(tree: JoinTree<'a>, table: &Table<'a>) {
    match tree.kind() {
        Joins::All => tree.members().for_each(|member| walk(member, table)),
        Joins::Two(_, left, right) => {
            walk(left, table);
            walk(right, table);
        }
        Joins::Nothing => return,
    }
    rewrite(tree, table);
}

fn rewrite<'a>(tree: JoinTree<'a>, table: &Table<'a>) {
    let conditions = tree.conditions();
    if conditions.is_empty() {
        return;
    }
    let mut changed = false;
    let mut rewritten = Vec::with_capacity(conditions.len());
    for condition in conditions.iter() {
        let derived = Comparison::of(condition)
            .filter(|comparison| table.planner.is_of(comparison.time, table.number))
            .and_then(Comparison::on_time);
        let Some(derived) = derived else {
            rewritten.push(condition);
            continue;
        };
        let exact = derived.exact && !table.keeps_conditions;
        if !exact {
            rewritten.push(condition);
        }
        for new in derived.conditions {
            if !derived.exact {
                // SAFETY: a comparison that was made here.
                unsafe { new.mark_as_made() };
            }
            if !conditions.iter().any(|known| known.equals(new)) {
                rewritten.push(new);
                changed = true;
            }
        }
        changed |= exact;
    }
    if changed {
        tree.set_conditions(rewritten);
    }
}

/// Conditions on the time; `exact` if they say no less than the one on the bucket.
struct Derived<'a> {
    conditions: Vec<Expression<'a>>,
    exact: bool,
}

/// `time_bucket(width, time [, zone]) operator value`, with a constant width.
struct Comparison<'a> {
    buckets: Option<Buckets>,
    /// A fixed width, in the unit of the time type.
    fixed_width: Option<i64>,
    zoned: bool,
    time: Expression<'a>,
    time_type: TimeType,
    typ: Oid,
    strategy: Strategy,
    opfamily: Oid,
    value: Expression<'a>,
}

impl<'a> Comparison<'a> {
    fn of(condition: Expression<'a>) -> Option<Comparison<'a>> {
        let Kind::Operator(operator) = condition.kind() else {
            return None;
        };
        let [left, right] = operator.arguments().array()?;
        let (call, value, commuted) = match (time_bucket_call(left), time_bucket_call(right)) {
            (Some(call), None) => (call, right, false),
            (None, Some(call)) => (call, left, true),
            _ => return None,
        };
        let arguments = call.arguments();
        let zoned = match arguments.len() {
            2 => false,
            5 if arguments.get(3)?.is_null() && arguments.get(4)?.is_null() => true,
            _ => return None,
        };
        let (width, time) = (arguments.get(0)?, arguments.get(1)?);
        let typ = time.typ();
        let Kind::Constant(width) = width.kind() else {
            return None;
        };
        let usable = !width.is_null()
            && value.typ() == typ
            && !value.has_columns()
            && !value.is_volatile()
            && !time.is_volatile();
        if !usable {
            return None;
        }
        let meaning = operator::meanings(operator.number()).next()?;
        // Of `<>` nothing follows for the time.
        if meaning.strategy == Strategy::NotEqual {
            return None;
        }
        let time_type = TimeType::of(typ)?;
        let (buckets, fixed_width) = buckets_of(time_type, width)?;
        Some(Comparison {
            buckets: (!zoned).then_some(buckets),
            fixed_width,
            zoned,
            time,
            time_type,
            typ,
            strategy: match commuted {
                true => meaning.strategy.commuted(),
                false => meaning.strategy,
            },
            opfamily: meaning.family,
            value,
        })
    }

    fn on_time(self) -> Option<Derived<'a>> {
        let Kind::Constant(value) = self.value.kind() else {
            return self.bounds_at_execution();
        };
        let number = self.time_type.number(value.value()?);
        if self.time_type.is_infinite(number) {
            return None;
        }
        if self.zoned {
            self.zoned_bounds(number)
        } else {
            self.boundaries(number)
        }
    }

    /// Exactly: the bucket compared with a constant is the time compared with the boundary at or after it.
    fn boundaries(mut self, value: i64) -> Option<Derived<'a>> {
        let buckets = self.buckets.as_mut()?;
        let at_or_before = buckets.containing(value).ok()?;
        let after = buckets.after(at_or_before)?;
        let at_or_after = if at_or_before == value { value } else { after };
        let from = |time| (Strategy::GreaterOrEqual, time);
        let until = |time| (Strategy::Less, time);
        match self.strategy {
            Strategy::Less => self.with_constants(&[until(at_or_after)], true),
            Strategy::LessOrEqual => self.with_constants(&[until(after)], true),
            Strategy::GreaterOrEqual => self.with_constants(&[from(at_or_after)], true),
            Strategy::Greater => self.with_constants(&[from(after)], true),
            Strategy::Equal if at_or_before == value => {
                self.with_constants(&[from(value), until(after)], true)
            }
            Strategy::Equal | Strategy::NotEqual => None,
        }
    }

    /// A bucket is at or before its times, and its times are before its start, its width and some slack.
    fn zoned_bounds(self, value: i64) -> Option<Derived<'a>> {
        let lower = (Strategy::GreaterOrEqual, value);
        let width = self.fixed_width.unwrap_or(0);
        let upper = value
            .checked_add(width)?
            .checked_add(ZONE_SLACK_US)
            .filter(|_| self.fixed_width.is_some());
        let upper = upper.map(|upper| (Strategy::Less, upper));
        let bounds: Vec<(Strategy, i64)> = match self.strategy {
            Strategy::Less | Strategy::LessOrEqual => upper.into_iter().collect(),
            Strategy::Equal => upper.into_iter().chain([lower]).collect(),
            _ => vec![lower],
        };
        self.with_constants(&bounds, false)
    }

    fn with_constants(&self, bounds: &[(Strategy, i64)], exact: bool) -> Option<Derived<'a>> {
        let mut conditions = Vec::with_capacity(bounds.len());
        for &(strategy, bound) in bounds {
            let datum = self.time_type.datum(bound);
            if self.time_type.number(datum) != bound || self.time_type.is_infinite(bound) {
                return None;
            }
            // SAFETY: a time of this type; the memory is the planner's.
            let constant = unsafe { Expression::constant(self.typ, datum) };
            conditions.push(self.compared(strategy, constant)?);
        }
        (!conditions.is_empty()).then_some(Derived { conditions, exact })
    }

    /// For a value that is not known yet: `t >= value`, and `t <= value + width`.
    fn bounds_at_execution(&self) -> Option<Derived<'a>> {
        let lower = || self.compared(Strategy::GreaterOrEqual, self.value);
        // Not less, but at most: both may be infinite.
        let upper = || self.compared(Strategy::LessOrEqual, self.end_of_bucket()?);
        let conditions: Vec<Expression<'a>> = match self.strategy {
            Strategy::Greater | Strategy::GreaterOrEqual => lower().into_iter().collect(),
            Strategy::Equal => lower().into_iter().chain(upper()).collect(),
            _ => upper().into_iter().collect(),
        };
        (!conditions.is_empty()).then_some(Derived {
            conditions,
            exact: false,
        })
    }

    /// `value + width` for timestamps and fixed widths, which is not before the end of the value's bucket; other types say it only with constants. It is infinity
    /// where that sum is out of range: the condition itself raises nothing there.
    fn end_of_bucket(&self) -> Option<Expression<'a>> {
        if self.zoned || self.time_type != TimeType::Timestamp {
            return None;
        }
        let plus = Oid::from(match self.typ {
            types::TIMESTAMPTZOID => F_TIMESTAMPTZ_PL_INTERVAL,
            _ => F_TIMESTAMP_PL_INTERVAL,
        });
        let width = self.fixed_width?;
        // Days and time as time alone: then the session's time zone does not matter.
        let interval = Interval {
            time: width,
            day: 0,
            month: 0,
        };
        // SAFETY: the function takes these arguments; the memory is the planner's.
        unsafe {
            let constant = |us: i64| Expression::constant(self.typ, self.time_type.datum(us));
            let limit = constant(END_TIMESTAMP_US.checked_sub(width)?);
            let is_within = self.comparison(self.value, Strategy::Less, limit)?;
            let arguments = Expressions::of([self.value.copy(), Expression::interval(interval)]);
            let end = Expression::call(plus, self.typ, arguments);
            Some(Expression::choice(is_within, end, constant(i64::MAX)))
        }
    }

    /// `time operator value`, of a value of the time's type.
    fn compared(&self, strategy: Strategy, value: Expression<'a>) -> Option<Expression<'a>> {
        self.comparison(self.time, strategy, value)
    }

    /// `left operator right`, of values of the time's type.
    fn comparison(
        &self,
        left: Expression<'a>,
        strategy: Strategy,
        right: Expression<'a>,
    ) -> Option<Expression<'a>> {
        let operator = types::operator(self.opfamily, self.typ, strategy.number());
        // SAFETY: an operator of the time's type; the memory is the planner's.
        (operator != InvalidOid)
            .then(|| unsafe { Expression::comparison(operator, left.copy(), right) })
    }
}

/// A call of `time_bucket` in a form that this file knows.
fn time_bucket_call(expression: Expression<'_>) -> Option<Call<'_>> {
    let known: [Function; 6] = [
        varve_time_bucket,
        varve_time_bucket_date,
        varve_time_bucket_int2,
        varve_time_bucket_int4,
        varve_time_bucket_int8,
        varve_time_bucket_zone,
    ];
    match expression.kind() {
        Kind::Call(call) if is_one_of(call.function(), &known) => Some(call),
        _ => None,
    }
}

/// The buckets of a width, and the width if it is a fixed one.
fn buckets_of(time_type: TimeType, width: Constant<'_>) -> Option<(Buckets, Option<i64>)> {
    let fixed = |width: Width| match width {
        Width::Fixed(us) => Some(us),
        Width::Months(_) => None,
    };
    Some(match time_type {
        TimeType::Date => {
            let width = Width::of_days(&width.interval()?).ok()?;
            (Buckets::Date(width), fixed(width).map(|us| us / DAY_US))
        }
        TimeType::Timestamp => {
            let width = Width::of(&width.interval()?).ok()?;
            (Buckets::Clock(width), fixed(width))
        }
        integer => {
            let width = integer.number(width.value()?);
            if width <= 0 {
                return None;
            }
            (Buckets::Integer(width), Some(width))
        }
    })
}
