//! How many buckets of time there are: no more than there is room for between the first and the last time that conditions and statistics
//! leave, nor, where times are far apart, than there are times. Core takes an expression of a time for as fine as the time itself.

use crate::exec::aggregate::{class_of, int_of, is_epoch, number_of, Class};
use crate::functions;
use crate::pg::expression::{Expression, Expressions};
use crate::pg::expression_kinds::{Column, Kind};
use crate::pg::functions as core_functions;
use crate::pg::operator::{self, Strategy};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::statistics::Histogram;
use crate::pg::{types, Datum, Oid};

const SECOND_US: f64 = 1e6;
const DAY_S: f64 = 86_400.0;
const DAY_US: f64 = DAY_S * SECOND_US;
/// As core reckons where it has to.
const MONTH_US: f64 = 30.0 * DAY_US;
const YEAR_US: f64 = 365.25 * DAY_US;

/// What groups are by that are by buckets.
pub struct Buckets<'a> {
    /// How many there are at most, of all combinations.
    pub count: f64,
    /// The other columns of the groups.
    pub others: Vec<Expression<'a>>,
}

impl<'a> Buckets<'a> {
    /// None where groups are by no bucket of which width and bounds are known. `groups` are expressions over rows of `table`. Within a
    /// guarded entry point.
    pub fn of(
        planner: Planner<'a>,
        table: PlannedTable<'a>,
        groups: &[Expression<'a>],
    ) -> Option<Buckets<'a>> {
        let (mut counts, mut others) = (Vec::<(i16, f64)>::new(), Vec::new());
        for &group in groups {
            let rising = Rising::of(planner, group).filter(|rising| rising.step > 0.0);
            let count = rising.and_then(|rising| rising.count(planner, table));
            let Some((column, count)) = count else {
                others.push(group);
                continue;
            };
            // Buckets of an hour lie in those of a day.
            match counts.iter_mut().find(|known| known.0 == column) {
                Some(known) => known.1 = known.1.max(count),
                None => counts.push((column, count)),
            }
        }
        (!counts.is_empty()).then(|| Buckets {
            count: counts.iter().map(|&(_, count)| count).product(),
            others,
        })
    }
}

/// An expression that rises with a column, but for what clocks of time zones do.
#[derive(Clone, Copy)]
struct Rising<'a> {
    column: Column<'a>,
    /// How far the column rises where the expression rises by 1: one microsecond of a timestamp, one day of a date.
    unit: f64,
    /// How far it rises from one value of the expression to the next; 0: no further than its own values lie apart.
    step: f64,
}

impl<'a> Rising<'a> {
    fn of(planner: Planner<'a>, expression: Expression<'a>) -> Option<Rising<'a>> {
        match expression.kind() {
            Kind::Column(column) => {
                let typ = column.typ();
                let is_integer = class_of(typ) == Class::Int && typ != types::BOOLOID;
                is_integer.then_some(Rising {
                    column,
                    unit: 1.0,
                    step: 0.0,
                })
            }
            Kind::Relabel(relabel) => Rising::of(planner, relabel.argument()),
            Kind::Call(call) => Rising::of_call(planner, call.function(), call.arguments()),
            Kind::Operator(operator) => {
                let [left, right] = operator.arguments().array()?;
                Rising::of_operator(planner, operator.function(), left, right)
            }
            _ => None,
        }
    }

    /// Its column, and how many values it has.
    fn count(self, planner: Planner<'a>, table: PlannedTable<'a>) -> Option<(i16, f64)> {
        let count = steps(planner, table, self.column, self.step)?;
        Some((self.column.number(), count))
    }

    fn of_call(
        planner: Planner<'a>,
        function: Oid,
        arguments: Expressions<'a>,
    ) -> Option<Rising<'a>> {
        use core_functions::*;
        let argument = |at: usize| Rising::of(planner, arguments.get(at)?);
        let first = arguments.get(0)?;
        if functions::is_monotone_bucket(function) || functions::is_zoned_bucket(function) {
            return argument(1)?.in_buckets(planner, arguments);
        }
        match function.to_u32() {
            F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP
            | F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ => {
                argument(1)?.in_buckets(planner, arguments)
            }
            F_DATE_TRUNC_TEXT_TIMESTAMP
            | F_DATE_TRUNC_TEXT_TIMESTAMPTZ
            | F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT => Some(argument(1)?.apart(unit_us(first)?)),
            F_EXTRACT_TEXT_TIMESTAMP
            | F_EXTRACT_TEXT_TIMESTAMPTZ
            | F_DATE_PART_TEXT_TIMESTAMP
            | F_DATE_PART_TEXT_TIMESTAMPTZ => {
                is_epoch(first).then(|| Some(argument(1)?.by(SECOND_US)))?
            }
            F_EXTRACT_TEXT_DATE => is_epoch(first).then(|| Some(argument(1)?.by(1.0 / DAY_S)))?,
            F_DATE_TIMESTAMP | F_DATE_TIMESTAMPTZ => Some(argument(0)?.by(DAY_US).apart(1.0)),
            F_TIMESTAMP_DATE | F_TIMESTAMPTZ_DATE => Some(argument(0)?.by(1.0 / DAY_US)),
            F_TO_TIMESTAMP_FLOAT8 => Some(argument(0)?.by(1.0 / SECOND_US)),
            F_TIMEZONE_TEXT_TIMESTAMP | F_TIMEZONE_TEXT_TIMESTAMPTZ => argument(1),
            F_INT8_NUMERIC | F_INT4_NUMERIC | F_INT8_FLOAT8 | F_INT4_FLOAT8 | F_FLOOR_NUMERIC
            | F_FLOOR_FLOAT8 | F_CEIL_NUMERIC | F_CEIL_FLOAT8 | F_TRUNC_NUMERIC
            | F_TRUNC_FLOAT8 | F_ROUND_NUMERIC | F_ROUND_FLOAT8 => Some(argument(0)?.apart(1.0)),
            F_TIMESTAMP_TIMESTAMPTZ
            | F_TIMESTAMPTZ_TIMESTAMP
            | F_FLOAT8_NUMERIC
            | F_NUMERIC_INT8
            | F_NUMERIC_INT4
            | F_INT8_INT4
            | F_INT8_INT2
            | F_INT4_INT2
            | F_FLOAT8_INT8
            | F_FLOAT8_INT4 => argument(0),
            _ => None,
        }
    }

    fn of_operator(
        planner: Planner<'a>,
        function: Oid,
        left: Expression<'a>,
        right: Expression<'a>,
    ) -> Option<Rising<'a>> {
        use core_functions::*;
        let rising = |side| Rising::of(planner, side);
        let positive = |side| number(planner, side).filter(|&number| number > 0.0);
        match function.to_u32() {
            F_INT4DIV | F_INT8DIV | F_INT84DIV => {
                Some(rising(left)?.by(positive(right)?).apart(1.0))
            }
            F_FLOAT8DIV | F_NUMERIC_DIV => Some(rising(left)?.by(positive(right)?)),
            F_INT4MUL | F_INT8MUL | F_INT84MUL | F_INT48MUL | F_FLOAT8MUL | F_NUMERIC_MUL => {
                match positive(right) {
                    Some(factor) => Some(rising(left)?.by(1.0 / factor)),
                    None => Some(rising(right)?.by(1.0 / positive(left)?)),
                }
            }
            F_INT4PL | F_INT8PL | F_INT84PL | F_FLOAT8PL | F_NUMERIC_ADD | F_INT4MI | F_INT8MI
            | F_INT84MI | F_FLOAT8MI | F_NUMERIC_SUB => {
                number(planner, right)?;
                rising(left)
            }
            _ => None,
        }
    }

    /// An expression whose 1 is so much of this one.
    fn by(self, factor: f64) -> Rising<'a> {
        Rising {
            unit: self.unit * factor,
            ..self
        }
    }

    /// An expression whose values are so far apart at least.
    fn apart(self, width: f64) -> Rising<'a> {
        Rising {
            step: self.step.max(width * self.unit),
            ..self
        }
    }

    /// The bucket that a function of a width, a time, and what is of no concern puts this time into.
    fn in_buckets(self, planner: Planner<'a>, arguments: Expressions<'a>) -> Option<Rising<'a>> {
        let width = number(planner, arguments.get(0)?).filter(|&width| width > 0.0)?;
        Some(self.apart(match arguments.get(1)?.typ() {
            types::DATEOID => width / DAY_US,
            _ => width,
        }))
    }
}

/// A number as far as it is known now; of an interval, its microseconds.
fn number<'a>(planner: Planner<'a>, expression: Expression<'a>) -> Option<f64> {
    let estimate = planner.estimate(expression);
    let Kind::Constant(constant) = estimate.kind() else {
        return None;
    };
    let Some(interval) = constant.interval() else {
        return number_of(estimate);
    };
    let days = f64::from(interval.day) * DAY_US;
    Some(f64::from(interval.month) * MONTH_US + days + interval.time as f64)
}

/// How far values of `date_trunc` of a field are apart.
fn unit_us(field: Expression<'_>) -> Option<f64> {
    let Kind::Constant(field) = field.kind() else {
        return None;
    };
    field.with_text(|field| {
        let field = field.to_ascii_lowercase();
        Some(match field.strip_suffix(b"s").unwrap_or(&field) {
            b"microsecond" => 1.0,
            b"millisecond" => SECOND_US / 1e3,
            b"second" => SECOND_US,
            b"minute" => 60.0 * SECOND_US,
            b"hour" => 3_600.0 * SECOND_US,
            b"day" => DAY_US,
            b"week" => 7.0 * DAY_US,
            b"month" => MONTH_US,
            b"quarter" => 3.0 * MONTH_US,
            b"year" => YEAR_US,
            b"decade" => 10.0 * YEAR_US,
            b"century" => 100.0 * YEAR_US,
            b"millennium" => 1_000.0 * YEAR_US,
            _ => return None,
        })
    })?
}

/// How many steps of such a width the values of a column lie in that conditions leave.
fn steps<'a>(
    planner: Planner<'a>,
    table: PlannedTable<'a>,
    column: Column<'a>,
    width: f64,
) -> Option<f64> {
    let (first, last) = asked(planner, table, column);
    let known = Known::of(planner, table, column);
    let between = |first: f64, last: f64| (last / width).floor() - (first / width).floor() + 1.0;
    if let Some(known) = known {
        let (first, last) = (first.max(known.first()), last.min(known.last()));
        if first <= last {
            return Some(between(first, last).min(known.steps(first, last, width)));
        }
    }
    // What was loaded since ANALYZE is not in the statistics.
    (first.is_finite() && last.is_finite() && first <= last).then(|| between(first, last))
}

/// First and last value that conditions want; infinite where they do not say.
fn asked<'a>(planner: Planner<'a>, table: PlannedTable<'a>, column: Column<'a>) -> (f64, f64) {
    let (mut first, mut last) = (f64::NEG_INFINITY, f64::INFINITY);
    for condition in table.restrictions() {
        let Some((strategy, value)) = limit(planner, condition.clause, column) else {
            continue;
        };
        match strategy {
            Strategy::Less => last = last.min(value - 1.0),
            Strategy::LessOrEqual => last = last.min(value),
            Strategy::Equal => {
                first = first.max(value);
                last = last.min(value);
            }
            Strategy::GreaterOrEqual => first = first.max(value),
            Strategy::Greater => first = first.max(value + 1.0),
            Strategy::NotEqual => {}
        }
    }
    (first, last)
}

/// How a condition compares a column, and with which value, as far as that is known now.
fn limit<'a>(
    planner: Planner<'a>,
    condition: Expression<'a>,
    column: Column<'a>,
) -> Option<(Strategy, f64)> {
    let Kind::Operator(operator) = condition.kind() else {
        return None;
    };
    let [left, right] = operator.arguments().array()?;
    let is_column = |side: Expression<'a>| side.equals(column.expression());
    let (other, is_commuted) = match (is_column(left), is_column(right)) {
        (true, false) => (right, false),
        (false, true) => (left, true),
        _ => return None,
    };
    let Kind::Constant(other) = planner.estimate(other).kind() else {
        return None;
    };
    let value = int_of(
        other.value_of(column.typ())?,
        types::length_of(column.typ()),
    );
    let strategy = operator::meanings(operator.number()).next()?.strategy;
    let strategy = match is_commuted {
        true => strategy.commuted(),
        false => strategy,
    };
    Some((strategy, value as f64))
}

/// What statistics say of a column.
struct Known {
    /// As many values are between each two of them.
    bounds: Vec<f64>,
    /// Different values between two of them.
    distinct: f64,
}

impl Known {
    fn of(planner: Planner<'_>, table: PlannedTable<'_>, column: Column<'_>) -> Option<Known> {
        let length = types::length_of(column.typ());
        let number = |bound: Datum| int_of(bound, length) as f64;
        let Histogram { bounds, distinct } = Histogram::of(planner, table, column, number)?;
        let distinct = distinct / bounds.len() as f64;
        Some(Known { bounds, distinct })
    }

    fn first(&self) -> f64 {
        self.bounds[0]
    }

    fn last(&self) -> f64 {
        self.bounds[self.bounds.len() - 1]
    }

    /// How many steps of a width values from one to another lie in: far apart, each has one of its own.
    fn steps(&self, first: f64, last: f64, width: f64) -> f64 {
        let of_pair = |pair: &[f64]| {
            let part = last.min(pair[1]) - first.max(pair[0]);
            (part / width).clamp(0.0, self.distinct.max(1.0))
        };
        let steps: f64 = self.bounds.windows(2).map(of_pair).sum();
        steps.ceil() + 1.0
    }
}
