//! The query of a rollup: what it is made of, and what cannot be.

use crate::functions::bucket::{Width, DAY_US};
use crate::functions::errors::{raise, Code};
use crate::functions::time_bucket;
use crate::pg::deparse::Wording;
use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Connective, Constant, Kind};
use crate::pg::functions;
use crate::pg::lock_mode::LockMode;
use crate::pg::names;
use crate::pg::open::Open;
use crate::pg::query_tree::{self, Clause, Fault, QueryTree, Source};
use crate::pg::relation::{self, Table};
use crate::pg::sql;
use crate::pg::types;
use crate::pg::{InvalidOid, Oid};
use crate::rollup::time::TimeType;
use core::ffi::CStr;
use std::ffi::CString;

/// A query that a rollup can be made of. Expressions name the columns of the source with the prefix `src`.
pub struct Defined {
    /// The relation after FROM.
    pub from: Oid,
    /// The attribute number of the time that is bucketed.
    pub time: i16,
    pub columns: Vec<Column>,
    /// Which of the columns is the bucket.
    pub bucket: usize,
    /// A bucket starts less than this before any time in it, and at most `over` behind it; in the unit of the time.
    pub width: i64,
    pub over: i64,
    pub filter: Option<String>,
}

pub struct Column {
    pub name: String,
    pub expression: String,
    pub kind: Oid,
    /// What belongs to the type, as the n of char(n).
    pub typmod: i32,
    pub collation: Oid,
    pub is_group: bool,
    /// The column of the relation after FROM that it is, from 1; 0: it is an expression.
    pub attribute: i16,
}

const UNSUPPORTED: Code = Code::ERRCODE_FEATURE_NOT_SUPPORTED;

fn refuse(what: &str, hint: &str) -> ! {
    raise(
        UNSUPPORTED,
        format!("the query of a rollup cannot have {what}"),
        "",
        hint,
    )
}

/// Looks through a query; raises what a rollup cannot be made of.
///
/// # Safety
/// Must run in a transaction with an active snapshot.
pub unsafe fn define(text: &CStr) -> Defined {
    // SAFETY: nobody uses the query when this has returned; errors of the parser are raised as they are.
    let query = unsafe { QueryTree::read(text) }.unwrap_or_else(|fault| refuse_text(fault));
    check_clauses(query);
    let from = source(query);
    for target in query.targets() {
        if target.is_hidden() {
            refuse(
                "a group that is no column",
                "Add each expression of GROUP BY to the select list.",
            );
        }
        check_expression(target.expression(), query.is_grouped_by(target));
    }
    if let Some(condition) = query.condition() {
        check_expression(condition, true);
    }
    take_apart(query, from)
}

fn refuse_text(fault: Fault) -> ! {
    let message = match fault {
        Fault::NotOne => "a rollup is made of one query",
        Fault::NotSelect => "a rollup is made of a SELECT",
    };
    raise(
        Code::ERRCODE_SYNTAX_ERROR,
        message,
        "",
        "Write one SELECT … FROM … GROUP BY ….",
    )
}

/// What a query over the one relation `from` is made of. Conditions on what is around the query, where it is part of another,
/// are left out.
fn take_apart(query: QueryTree<'_>, from: Oid) -> Defined {
    // SAFETY: nobody uses the wording when this has returned.
    let wording = unsafe { Wording::of(c"src", from) };
    // SAFETY: the query reads from the one relation alone.
    let deparse = |expression| unsafe { wording.text(expression) };
    let mut columns = Vec::new();
    let mut buckets = Vec::new();
    for target in query.targets() {
        let is_group = query.is_grouped_by(target);
        let expression = target.expression();
        if is_group {
            buckets.extend(bucket_of(expression).map(|found| (columns.len(), found)));
        }
        columns.push(Column {
            name: target.name(),
            expression: deparse(expression),
            kind: expression.typ(),
            typmod: target.type_modifier(),
            collation: expression.collation(),
            is_group,
            attribute: match expression.kind() {
                Kind::Column(column) if column.level() == 0 => column.number(),
                _ => 0,
            },
        });
    }
    let filters: Vec<_> = query
        .condition()
        .map_or(Vec::new(), conjuncts)
        .into_iter()
        .filter(|&part| !query_tree::refers_outward(part))
        .map(deparse)
        .collect();
    let filter = (!filters.is_empty()).then(|| filters.join(") AND ("));
    match buckets[..] {
        [(bucket, Bucket { time, width, over })] => Defined {
            from,
            time,
            columns,
            bucket,
            width,
            over,
            filter,
        },
        [] => raise(
            UNSUPPORTED,
            "the query of a rollup must be grouped by time_bucket",
            "",
            "Write GROUP BY time_bucket('1 hour', the_time_column), and select it.",
        ),
        _ => refuse(
            "two time_buckets",
            "Make a rollup for each width; one can be made from the other.",
        ),
    }
}

/// The parts of a condition that must all hold.
fn conjuncts(condition: Expression<'_>) -> Vec<Expression<'_>> {
    match condition.kind() {
        Kind::Boolean(all) if all.connective() == Connective::And => {
            all.arguments().iter().flat_map(conjuncts).collect()
        }
        _ => vec![condition],
    }
}

/// Clauses that a rollup's query cannot have.
fn check_clauses(query: QueryTree<'_>) {
    let join = "Join the rollup's view with the other tables instead.";
    let outside = "Query the rollup's view with it instead.";
    let clauses = [
        (
            Clause::SetOperation,
            "UNION, INTERSECT or EXCEPT",
            "Make a rollup for each part.",
        ),
        (Clause::With, "WITH", "Name the table in FROM."),
        (Clause::Subquery, "subqueries", join),
        (Clause::Distinct, "DISTINCT", outside),
        (Clause::Window, "window functions", outside),
        (Clause::Limit, "LIMIT or OFFSET", outside),
        (Clause::OrderBy, "ORDER BY", outside),
        (Clause::Having, "HAVING", outside),
        (
            Clause::GroupingSets,
            "GROUPING SETS, ROLLUP or CUBE",
            "Make a rollup for each set.",
        ),
        (Clause::Set, "functions that return sets", outside),
        (Clause::RowLock, "FOR UPDATE or FOR SHARE", "Leave it out."),
    ];
    for (clause, what, hint) in clauses {
        if query.has(clause) {
            refuse(what, hint);
        }
    }
}

/// The one relation of the query.
fn source(query: QueryTree<'_>) -> Oid {
    let sources: Vec<_> = query.sources().collect();
    let one = match &sources[..] {
        [one] if query.reads_one() => one,
        [] => raise(
            UNSUPPORTED,
            "the query of a rollup must have one relation in FROM",
            "",
            "Name the table that is rolled up.",
        ),
        _ => refuse(
            "joins",
            "Join the rollup's view with the other tables instead.",
        ),
    };
    match one {
        Source::Relation {
            oid,
            is_sampled: false,
        } => *oid,
        Source::Relation { .. } => refuse("TABLESAMPLE", "Leave it out."),
        _ => refuse(
            "subqueries or functions in FROM",
            "Name a varve table or a rollup.",
        ),
    }
}

/// What an expression cannot contain. `is_plain`: a group, or a condition, which have no aggregates.
fn check_expression(expression: Expression<'_>, is_plain: bool) {
    let mut seen = Seen::default();
    expression.visit(|part| {
        seen.note(part);
        Step::Into
    });
    if let Some((what, hint)) = seen.refused {
        refuse(what, hint);
    }
    if query_tree::is_mutable(expression) {
        let named = seen.mutable.map(|name| format!(": {name}"));
        raise(
            UNSUPPORTED,
            format!(
                "the query of a rollup cannot call functions that are not immutable{}",
                named.unwrap_or_default()
            ),
            "What is stored would differ from what the query gives later.",
            "Give time zones and formats as arguments, such as time_bucket('1 day', t, 'UTC').",
        );
    }
    if !is_plain && !seen.has_aggregate {
        refuse(
            "columns that are neither grouped nor aggregates",
            "Add the expression to GROUP BY.",
        );
    }
}

#[derive(Default)]
struct Seen {
    has_aggregate: bool,
    refused: Option<(&'static str, &'static str)>,
    /// The first function that is not immutable.
    mutable: Option<String>,
}

impl Seen {
    fn note(&mut self, part: Expression<'_>) {
        let called = match part.kind() {
            Kind::Aggregate(aggregate) => {
                self.has_aggregate = true;
                if aggregate.is_of_ordered_set() {
                    self.refused = Some((
                        "ordered-set or hypothetical-set aggregates",
                        "Use percentile_agg, whose value can be stored and queried by approx_percentile.",
                    ));
                } else if aggregate.has_distinct() {
                    self.refused = Some((
                        "aggregates of DISTINCT values",
                        "Add the column to GROUP BY, and count the groups of the view.",
                    ));
                }
                aggregate.function()
            }
            Kind::Call(call) => call.function(),
            Kind::Operator(operator) => operator.function(),
            Kind::Column(column) if column.number() <= 0 => {
                self.refused = Some((
                    "system columns or whole rows",
                    "Name the columns that are wanted.",
                ));
                return;
            }
            _ => return,
        };
        if called != InvalidOid && self.mutable.is_none() {
            self.mutable = mutable(called);
        }
    }
}

/// The name of a function, if it is not immutable.
fn mutable(function: Oid) -> Option<String> {
    names::function(function).filter(|_| !functions::is_immutable(function))
}

/// A group by bucket of time.
#[derive(Clone, Copy)]
struct Bucket {
    time: i16,
    width: i64,
    over: i64,
}

/// The clock of a zone may be set by this much, at most.
const ZONE_US: i64 = DAY_US;
/// Months of an offset move the end of a month by this much, at most.
const MONTH_END_US: i64 = 4 * DAY_US;
const LONGEST_MONTH_DAYS: i64 = 31;

/// What a call of time_bucket says of its buckets; None for any other expression.
fn bucket_of(expression: Expression<'_>) -> Option<Bucket> {
    let Kind::Call(call) = expression.kind() else {
        return None;
    };
    if !time_bucket::is_time_bucket(call.function()) {
        return None;
    }
    let mut arguments = call.arguments().iter();
    let (width, time) = (arguments.next()?, arguments.next()?);
    let column = match time.kind() {
        Kind::Column(column) if column.level() == 0 => column,
        _ => refuse(
            "time_bucket of anything but a column",
            "Give the table's time column to time_bucket as it is.",
        ),
    };
    let options: Vec<_> = arguments.map(constant).collect();
    let width = constant(width);
    let zoned = options
        .iter()
        .chain([&width])
        .any(|option| option.typ() == types::TEXTOID);
    let shifts = |option: &Constant| option.interval().is_some_and(|by| by.month != 0);
    let shifted = options.iter().any(shifts);
    let kind = TimeType::of(column.typ())?;
    let width = width_of(kind, width);
    let day = if kind == TimeType::Date { 1 } else { DAY_US };
    let slack = (i64::from(zoned) * ZONE_US + i64::from(shifted) * MONTH_END_US) / DAY_US * day;
    // A date shifted by half a day, say, is of the day before.
    let splits_day = |option: &Constant| option.interval().is_some_and(|by| by.time % DAY_US != 0);
    let rest = i64::from(kind == TimeType::Date && options.iter().any(splits_day));
    Some(Bucket {
        time: column.number(),
        width: width.saturating_add(slack).saturating_add(rest),
        over: slack,
    })
}

fn constant(argument: Expression<'_>) -> Constant<'_> {
    // SAFETY: nobody uses the constant when the query has been looked through.
    let found = unsafe { query_tree::constant_of(argument) };
    found.unwrap_or_else(|| {
        refuse(
            "time_bucket with arguments that are no constants",
            "Write width, time zone, origin and offset as constants.",
        )
    })
}

/// The longest that a bucket can be, in the unit of its times. The width is checked as time_bucket does.
fn width_of(kind: TimeType, width: Constant<'_>) -> i64 {
    let Some(value) = width.value() else {
        refuse(
            "time_bucket of width NULL",
            "Give a width such as '5 minutes'.",
        );
    };
    let interval = || {
        let interval = width.interval();
        interval.expect("BUG: a bucket of calendar time whose width is no interval")
    };
    let checked = match kind {
        TimeType::Timestamp => Width::of(&interval()).map(|width| match width {
            Width::Fixed(us) => us,
            Width::Months(months) => months.saturating_mul(LONGEST_MONTH_DAYS * DAY_US),
        }),
        TimeType::Date => Width::of_days(&interval()).map(|width| match width {
            Width::Fixed(us) => us / DAY_US,
            Width::Months(months) => months.saturating_mul(LONGEST_MONTH_DAYS),
        }),
        integer => match integer.read(value) {
            width if width > 0 => Ok(width),
            _ => Err(crate::functions::bucket::BucketError::NotPositive),
        },
    };
    checked.unwrap_or_else(|error| time_bucket::raise_bucket_error(error))
}

/// Looks for a rollup's stored table, and its query, in a view; None in any other view.
pub fn of_view(view: Table<'_>) -> Option<(Oid, Defined)> {
    let mut found = InView::default();
    if let Some(query) = QueryTree::of_view(*view) {
        found.look(query);
    }
    let (query, from) = found.grouped?;
    Some((found.stored?, take_apart(query, from)))
}

#[derive(Default)]
struct InView<'a> {
    stored: Option<Oid>,
    grouped: Option<(QueryTree<'a>, Oid)>,
}

impl<'a> InView<'a> {
    /// Looks through the subqueries of a query.
    fn look(&mut self, query: QueryTree<'a>) {
        for source in query.sources() {
            match source {
                Source::Subquery(part) => self.look(part),
                Source::Functions(calls) => {
                    let stored = calls.into_iter().find_map(stored_of);
                    self.stored = stored.or(self.stored);
                }
                Source::Relation { oid, .. } if has_bucket(query) => {
                    self.grouped = Some((query, oid));
                }
                _ => {}
            }
        }
    }
}

/// Is a query of one relation grouped by a bucket?
fn has_bucket(query: QueryTree<'_>) -> bool {
    let mut groups = query
        .targets()
        .filter(|&target| query.is_grouped_by(target));
    query.sources().count() == 1 && groups.any(|target| bucket_of(target.expression()).is_some())
}

/// The first argument of a call of varve.rollup_live.
fn stored_of(expression: Expression<'_>) -> Option<Oid> {
    let Kind::Call(call) = expression.kind() else {
        return None;
    };
    let is_ours = names::is_function(call.function(), c"varve", c"rollup_live");
    let Kind::Constant(stored) = call.arguments().get(0)?.kind() else {
        return None;
    };
    let stored = stored.value().filter(|_| is_ours)?;
    Some(Oid::from_u32(stored.value() as u32))
}

impl Defined {
    /// The query for the buckets from `first` to `last`, whose rows have times from `low` to `high`; all of these are SQL.
    ///
    /// # Safety
    /// Within a statement.
    pub unsafe fn select(&self, low: &str, high: &str, first: &str, last: &str) -> String {
        // SAFETY: by contract.
        unsafe { self.select_of([low, high, first, last], None) }
    }

    /// The same, with another condition.
    ///
    /// # Safety
    /// As `select`.
    pub unsafe fn select_of(
        &self,
        [low, high, first, last]: [&str; 4],
        condition: Option<&str>,
    ) -> String {
        let select: Vec<_> = self
            .columns
            .iter()
            .map(|column| format!("{} AS {}", column.expression, sql::identifier(&column.name)))
            .collect();
        let groups: Vec<_> = self
            .columns
            .iter()
            .filter(|column| column.is_group)
            .map(|column| column.expression.clone())
            .collect();
        let (from, time) = {
            let from = Open::table(self.from, LockMode::AccessShare);
            let attribute = &from.rel().attributes()[self.time as usize - 1];
            (
                from.rel().qualified_name(),
                sql::identifier(&relation::attribute_name(attribute)),
            )
        };
        let filter: String = [self.filter.as_deref(), condition]
            .into_iter()
            .flatten()
            .map(|condition| format!("({condition}) AND "))
            .collect();
        let start = &self.columns[self.bucket].expression;
        format!(
            "SELECT {} FROM {from} src WHERE {filter}src.{time} {FROM_ON} {low} AND src.{time} {UP_TO} {high} \
             AND {start} {FROM_ON} {first} AND {start} {UP_TO} {last} GROUP BY {}",
            select.join(", "),
            groups.join(", "),
        )
    }
}

/// Whatever the search path has.
const FROM_ON: &str = "OPERATOR(pg_catalog.>=)";
const UP_TO: &str = "OPERATOR(pg_catalog.<=)";

/// The text of a query, for the parser.
pub fn text(query: &str) -> CString {
    CString::new(query).unwrap_or_else(|_| {
        raise(
            Code::ERRCODE_SYNTAX_ERROR,
            "the query has a zero byte",
            "",
            "",
        )
    })
}
