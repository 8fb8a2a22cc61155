//! The planner's side: recognizes a grouping by `time_bucket_gapfill` and puts the gap-filling node above it.
//!
//! The grouping below the node computes the group columns, the aggregates and the arguments of `locf` and `interpolate`: the
//! *columns*. The node hands up rows of the same columns, where those of `locf` and `interpolate` stand for the whole calls,
//! and projects the query's expressions from them. So `coalesce(sum(x), 0)` is 0 in an inserted row.
use super::bounds::{self, raise_missing_bound, Bound};
use super::buckets::TimeType;
use super::rows::{ColumnKind, Gapfill};
use crate::functions::errors::{invalid, raise, Code};
use crate::functions::gapfill_calls::{marker_of, Marker};
use crate::pg::custom_scan::{Chosen, CustomPlanner, NewPlan, Private};
use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Call, Kind};
use crate::pg::fence::{self, AddsRows};
use crate::pg::group_columns::GroupColumn;
use crate::pg::path::Path;
use crate::pg::path_target::PathTarget;
use crate::pg::planner::Planner;
use crate::pg::planner_settings::cpu_tuple_cost;
use crate::pg::sort_order::SortOrder;
use crate::pg::upper_paths::{self, Grouping, UpperPaths};
use crate::pg::{InvalidOid, Oid};

struct Offers;

pub fn init() {
    upper_paths::install::<Offers>();
}

pub fn init_fence() {
    fence::install::<Offers>();
}

impl AddsRows for Offers {
    fn adds_rows(function: Oid) -> bool {
        marker_of(function) == Some(Marker::Bucket)
    }
}

/// A column: what the grouping computes and what the node stands for.
struct Column<'a> {
    kind: ColumnKind,
    below: Expression<'a>,
    above: Expression<'a>,
    sortgroupref: u32,
    /// The function that tells groups apart; 0 where the column does not.
    equality: Oid,
    /// Further arguments of locf and interpolate.
    arguments: [Option<Expression<'a>>; 2],
}

/// The columns that the query's expressions need.
struct Columns<'a> {
    columns: Vec<Column<'a>>,
    stray_bucket: bool,
}

/// The group columns, and that among them which calls `time_bucket_gapfill`.
struct Groups<'a> {
    columns: Vec<GroupColumn<'a>>,
    bucket: usize,
    call: Call<'a>,
}

impl UpperPaths for Offers {
    fn grouping(grouping: Grouping<'_>) {
        // With partition-wise aggregation the hook is called for each partition, too.
        if grouping.output.is_upper() && grouping.planner.has_group_columns() {
            if let Some(groups) = gapfill_groups(grouping.planner) {
                fill_gaps(grouping, &groups);
            }
        }
    }
}

/// None where no column calls `time_bucket_gapfill`.
fn gapfill_groups(planner: Planner<'_>) -> Option<Groups<'_>> {
    let columns = planner.group_columns();
    let mut found = None;
    for (at, column) in columns.iter().enumerate() {
        let Some((Marker::Bucket, call)) = marked(column.expression) else {
            if has_bucket(column.expression) {
                raise_stray_bucket();
            }
            continue;
        };
        if found.is_some() {
            unsupported(
                "a query can group by only one time_bucket_gapfill",
                "Fill the gaps in a subquery.",
            );
        }
        found = Some((at, call));
    }
    if found.is_some() && planner.has_grouping_sets() {
        unsupported(
            "time_bucket_gapfill cannot be used with GROUPING SETS, ROLLUP or CUBE",
            "Fill the gaps in a subquery.",
        );
    }
    let (bucket, call) = found?;
    Some(Groups {
        columns,
        bucket,
        call,
    })
}

/// Does an expression call `time_bucket_gapfill`?
fn has_bucket(expression: Expression<'_>) -> bool {
    let mut has = false;
    expression.visit(|part| {
        has |= matches!(marked(part), Some((Marker::Bucket, _)));
        Step::Into
    });
    has
}

#[cold]
fn raise_stray_bucket() -> ! {
    unsupported(
        "time_bucket_gapfill must be a group column by itself",
        "Group by it, and use the same call in the select list.",
    )
}

#[cold]
fn unsupported(message: &str, hint: &str) -> ! {
    raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, "", hint)
}

/// Replaces every path of the grouping by one that fills gaps.
fn fill_gaps<'a>(grouping: Grouping<'a>, groups: &Groups<'a>) {
    let (planner, output) = (grouping.planner, grouping.output);
    let target = with_postponed(planner, output.target());
    let columns = columns_of(target, groups);
    let below = columns
        .iter()
        .map(|column| (column.below, column.sortgroupref));
    let below = PathTarget::of(planner, below);
    let order = required_order(planner, groups);
    let private = private_of(planner, &columns, groups.call);
    // Only core's steps compute what they are told to; a path of another hook is bound to its target.
    let paths = output
        .paths()
        .filter(|path| path.is_grouping())
        .map(|path| {
            path.set_target(below);
            gapfill_path(
                grouping,
                target,
                planner.sorted(output, path, order),
                order,
                &private,
            )
        });
    let paths: Vec<Path<'_>> = paths.collect();
    if paths.is_empty() {
        unsupported(
            "time_bucket_gapfill found no grouping that it can fill",
            "Fill the gaps in a subquery.",
        );
    }
    // SAFETY: each makes what the query wants of each group.
    unsafe { grouping.replace_paths(paths) };
}

/// A target, and the calls of `locf` and `interpolate` that the planner wants to have computed later, since a sort or LIMIT above comes first. It finds
/// them as columns then. Not above a window function, which hands up no others than it was told.
fn with_postponed<'a>(planner: Planner<'a>, target: PathTarget<'a>) -> PathTarget<'a> {
    if planner.has_windows() || planner.returns_sets() {
        return target;
    }
    let mut postponed: Vec<Expression<'_>> = Vec::new();
    for expression in planner.targets() {
        if target
            .columns()
            .iter()
            .any(|column| column.equals(expression))
        {
            continue;
        }
        expression.visit(|part| match marked(part) {
            Some((Marker::Locf | Marker::Interpolate, _)) => {
                postponed.push(part);
                Step::Past
            }
            _ => Step::Into,
        });
    }
    match postponed.is_empty() {
        true => target,
        false => target.with(planner, &postponed),
    }
}

fn gapfill_path<'a>(
    grouping: Grouping<'a>,
    target: PathTarget<'a>,
    input: Path<'a>,
    order: SortOrder<'a>,
    private: &[Private<'a>],
) -> Path<'a> {
    let made = grouping
        .planner
        .custom_path::<Filling>(grouping.output, target, private);
    made.set_source(input);
    let (path, cost) = (made.path(), target.cost());
    path.set_rows(input.rows());
    let startup = input.startup_cost() + cost.startup;
    let per_row = cpu_tuple_cost() + cost.per_row;
    let total = input.total_cost() + cost.startup + per_row * input.rows();
    path.set_costs(startup, total);
    path.set_order(order);
    path
}

/// The order that the node needs, and keeps: the other group columns, then the bucket, ascending.
fn required_order<'a>(planner: Planner<'a>, groups: &Groups<'a>) -> SortOrder<'a> {
    let mut columns = groups.columns.clone();
    let bucket = columns.remove(groups.bucket);
    columns.push(bucket.ascending());
    if !columns.iter().all(|column| column.can_be_sorted()) {
        unsupported(
            "time_bucket_gapfill needs group columns that can be sorted",
            "Cast the column, for example to text.",
        );
    }
    planner.order_by(&columns)
}

fn columns_of<'a>(target: PathTarget<'a>, groups: &Groups<'a>) -> Vec<Column<'a>> {
    let mut found = Columns {
        columns: Vec::new(),
        stray_bucket: false,
    };
    for (at, column) in groups.columns.iter().enumerate() {
        let is_bucket = at == groups.bucket;
        found.columns.push(Column {
            kind: match is_bucket {
                true => ColumnKind::Bucket,
                false => ColumnKind::Group,
            },
            below: column.expression,
            above: column.expression,
            sortgroupref: column.reference(),
            equality: match is_bucket {
                true => InvalidOid,
                false => column.equality(),
            },
            arguments: [None; 2],
        });
    }
    for expression in target.columns().iter() {
        found.collect(expression);
    }
    if found.stray_bucket {
        raise_stray_bucket();
    }
    found.columns
}

impl<'a> Columns<'a> {
    fn add(
        &mut self,
        kind: ColumnKind,
        below: Expression<'a>,
        above: Expression<'a>,
        arguments: [Option<Expression<'a>>; 2],
    ) {
        self.columns.push(Column {
            kind,
            below,
            above,
            sortgroupref: 0,
            equality: InvalidOid,
            arguments,
        });
    }

    /// Walks an expression of the query and adds the columns that it needs.
    fn collect(&mut self, expression: Expression<'a>) {
        expression.visit(|part| {
            if self.columns.iter().any(|column| column.above.equals(part)) {
                return Step::Past;
            }
            match marked(part) {
                Some((Marker::Bucket, _)) => {
                    self.stray_bucket = true;
                    return Step::Past;
                }
                Some((marker, call)) => {
                    let arguments = call.arguments().array();
                    let [value, first, second] = arguments.expect("BUG: a marker's arguments");
                    let kind = match marker {
                        Marker::Locf => ColumnKind::Locf,
                        _ => ColumnKind::Interpolate,
                    };
                    self.add(kind, value, part, [Some(first), Some(second)]);
                    self.collect(first);
                    self.collect(second);
                    return Step::Past;
                }
                None => {}
            }
            let kind = match part.kind() {
                Kind::Aggregate(_) => ColumnKind::Aggregate,
                Kind::Column(_) | Kind::PlaceHolder | Kind::Grouping => ColumnKind::Group,
                _ => return Step::Into,
            };
            self.add(kind, part, part, [None; 2]);
            Step::Past
        });
    }
}

/// A call of one of our markers, whatever name and schema it has. Within a guarded entry point.
fn marked(expression: Expression<'_>) -> Option<(Marker, Call<'_>)> {
    match expression.kind() {
        Kind::Call(call) => Some((marker_of(call.function())?, call)),
        _ => None,
    }
}

/// The parts of the plan, in the order in which `node` takes them apart: expressions, columns, then what is known of them.
fn private_of<'a>(
    planner: Planner<'a>,
    columns: &[Column<'a>],
    call: Call<'a>,
) -> [Private<'a>; PARTS] {
    let arguments: Vec<Expression<'_>> = call.arguments().iter().collect();
    let (width, time, zone, start, finish) = match arguments[..] {
        [width, time, start, finish] => (width, time, None, start, finish),
        [width, time, zone, start, finish] => (width, time, Some(zone), start, finish),
        _ => panic!(
            "BUG: time_bucket_gapfill with {} arguments",
            arguments.len()
        ),
    };
    let mut expressions = vec![Some(width), zone, Some(start), Some(finish)];
    if expressions
        .iter()
        .flatten()
        .any(|argument| argument.has_columns() || argument.is_volatile())
    {
        invalid(
            "width, time zone and bounds of time_bucket_gapfill must be the same for all rows",
            "Use constants, parameters or uncorrelated subqueries.",
        );
    }
    let bounds = bounds::collect(planner, time);
    let missing = |argument: Expression<'_>, lower: bool| {
        argument.is_null() && !bounds.iter().any(|bound| bound.lower == lower)
    };
    if missing(start, true) {
        raise_missing_bound("start");
    }
    if missing(finish, false) {
        raise_missing_bound("finish");
    }
    expressions.extend(bounds.iter().map(|bound| Some(bound.value)));
    expressions.extend(columns.iter().flat_map(|column| column.arguments));
    let integers =
        |of: &dyn Fn(&Column<'_>) -> i32| Private::Integers(columns.iter().map(of).collect());
    let oids = |oid: Oid| oid.to_u32() as i32;
    [
        Private::Expressions(expressions),
        Private::expressions(columns.iter().map(shown)),
        integers(&|column| column.kind as i32),
        integers(&|column| oids(column.equality)),
        integers(&|column| oids(column.below.collation())),
        Private::Integers(bounds.iter().flat_map(numbers_of).collect()),
    ]
}

/// What the node's row shows a column as. The planner takes a part of what the node evaluates, or hands up, for a column where they are equal. What is the
/// same for all rows must not be: width and bounds are evaluated before there is a row.
fn shown<'a>(column: &Column<'a>) -> Expression<'a> {
    match column.kind {
        // SAFETY: the planner, in whose memory it is, makes a path.
        ColumnKind::Group if !column.above.has_columns() => unsafe {
            column.above.cast_to_its_own()
        },
        _ => column.above,
    }
}

/// What a plan says of a bound besides its value.
fn numbers_of(bound: &Bound<'_>) -> [i32; 4] {
    let time_type = TimeType::of(bound.value.typ()).map_or(-1, |t| t as i32);
    [
        i32::from(bound.lower),
        i32::from(bound.successor),
        i32::from(bound.date_from_timestamp),
        time_type,
    ]
}

/// How many parts `private_of` has.
const PARTS: usize = 6;

/// Paths of the node.
struct Filling;

impl CustomPlanner for Filling {
    type Node = Gapfill;

    fn plan<'a>(chosen: Chosen<'a>) -> NewPlan<'a> {
        let Ok([expressions, columns, kinds, equalities, collations, bounds]) =
            <[Private<'_>; PARTS]>::try_from(chosen.private())
        else {
            panic!("BUG: a path that leaves something else for its plan");
        };
        // SAFETY: the planner, in whose memory it is, makes a plan.
        let copy = |expression: Expression<'a>| unsafe { expression.copy() };
        let Private::Expressions(expressions) = expressions else {
            panic!("BUG: a path without its expressions");
        };
        NewPlan {
            table: 0,
            expressions: expressions.into_iter().map(|one| one.map(copy)).collect(),
            columns: columns.into_expressions().into_iter().map(copy).collect(),
            kept: Vec::new(),
            private: vec![kinds, equalities, collations, bounds],
        }
    }
}
