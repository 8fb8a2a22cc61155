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
use crate::pg::custom_scan::{CustomScan, Shared, SUPPORTS_PROJECTION};
use crate::pg::expression::Expression;
use crate::pg::node::{self, cast, integer_list, items, list as node_list};
use crate::pg::planner::Planner;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Node, NodeTag, Oid};

static mut PREVIOUS_HOOK: pg_sys::create_upper_paths_hook_type = None;

pub fn init() {
    // SAFETY: runs once, in the only thread.
    unsafe {
        PREVIOUS_HOOK = pg_sys::create_upper_paths_hook;
        pg_sys::create_upper_paths_hook = Some(create_upper_paths);
    }
}

/// A column: what the grouping computes and what the node stands for.
struct Column {
    kind: ColumnKind,
    below: *mut Node,
    above: *mut Node,
    sortgroupref: u32,
    /// The operator that tells groups apart; 0 where the column does not.
    equality: Oid,
    /// Further arguments of locf and interpolate.
    arguments: [*mut Node; 2],
}

/// The columns that the query's expressions need.
struct Columns {
    columns: Vec<Column>,
    stray_bucket: bool,
}

#[pg_guard]
unsafe extern "C-unwind" fn create_upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input_rel: *mut pg_sys::RelOptInfo,
    output_rel: *mut pg_sys::RelOptInfo,
    extra: *mut core::ffi::c_void,
) {
    // SAFETY: called by the planner with valid arguments; hooks are C functions and may raise.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                previous(root, stage, input_rel, output_rel, extra)
            });
        }
        // With partition-wise aggregation the hook is called for each partition, too.
        let whole = (*output_rel).reloptkind == pg_sys::RelOptKind::RELOPT_UPPER_REL;
        if stage == pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG
            && whole
            && !(*(*root).parse).groupClause.is_null()
        {
            if let Some((bucket, call)) = gapfill_group(root) {
                fill_gaps(root, output_rel, bucket, call);
            }
        }
    }
}

/// The group column that calls `time_bucket_gapfill`.
///
/// # Safety
/// As the hook.
unsafe fn gapfill_group(
    root: *mut pg_sys::PlannerInfo,
) -> Option<(*mut pg_sys::SortGroupClause, *mut pg_sys::FuncExpr)> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut found = None;
        for clause in items::<pg_sys::SortGroupClause>((*(*root).parse).groupClause) {
            let expression = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
            if let Some((Marker::Bucket, call)) = marked(expression) {
                if found.is_some() {
                    unsupported(
                        "a query can group by only one time_bucket_gapfill",
                        "Fill the gaps in a subquery.",
                    );
                }
                found = Some((clause, call));
            }
        }
        if found.is_some() && !(*(*root).parse).groupingSets.is_null() {
            unsupported(
                "time_bucket_gapfill cannot be used with GROUPING SETS, ROLLUP or CUBE",
                "Fill the gaps in a subquery.",
            );
        }
        found
    }
}

#[cold]
fn unsupported(message: &str, hint: &str) -> ! {
    raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, "", hint)
}

/// Replaces every path of the grouping by one that fills gaps.
///
/// # Safety
/// As the hook.
unsafe fn fill_gaps(
    root: *mut pg_sys::PlannerInfo,
    grouped_rel: *mut pg_sys::RelOptInfo,
    bucket: *mut pg_sys::SortGroupClause,
    call: *mut pg_sys::FuncExpr,
) {
    // SAFETY: the caller's promise; all nodes belong to the planner's memory context.
    unsafe {
        let target = (*grouped_rel).reltarget;
        let columns = columns_of(root, target, bucket);
        let below = pg_sys::create_empty_pathtarget();
        for column in &columns {
            pg_sys::add_column_to_pathtarget(below, column.below.cast(), column.sortgroupref);
        }
        let below = pg_sys::set_pathtarget_cost_width(root, below);
        let pathkeys = required_order(root, bucket);
        let private = private_of(root, &columns, call);
        let mut paths = std::ptr::null_mut();
        for path in items::<pg_sys::Path>((*grouped_rel).pathlist) {
            // Only these compute what they are told to; a path of another hook is bound to its target.
            if !matches!((*path).type_, NodeTag::T_AggPath | NodeTag::T_GroupPath) {
                continue;
            }
            (*path).pathtarget = below;
            let ordered = if pg_sys::pathkeys_contained_in(pathkeys, (*path).pathkeys) {
                path
            } else {
                pg_sys::create_sort_path(root, grouped_rel, path, pathkeys, -1.0).cast()
            };
            paths = pg_sys::lappend(
                paths,
                gapfill_path(grouped_rel, target, ordered, pathkeys, private).cast(),
            );
        }
        if paths.is_null() {
            unsupported(
                "time_bucket_gapfill found no grouping that it can fill",
                "Fill the gaps in a subquery.",
            );
        }
        (*grouped_rel).pathlist = paths;
    }
}

/// # Safety
/// As the hook.
unsafe fn gapfill_path(
    rel: *mut pg_sys::RelOptInfo,
    target: *mut pg_sys::PathTarget,
    input: *mut pg_sys::Path,
    pathkeys: *mut pg_sys::List,
    private: *mut pg_sys::List,
) -> *mut pg_sys::CustomPath {
    // SAFETY: the caller's promise.
    unsafe {
        let path = node::make::<pg_sys::CustomPath>(NodeTag::T_CustomPath);
        (*path).path.pathtype = NodeTag::T_CustomScan;
        (*path).path.parent = rel;
        (*path).path.pathtarget = target;
        (*path).path.rows = (*input).rows;
        (*path).path.startup_cost = (*input).startup_cost + (*target).cost.startup;
        (*path).path.total_cost = (*input).total_cost
            + (*target).cost.startup
            + (pg_sys::cpu_tuple_cost + (*target).cost.per_tuple) * (*input).rows;
        (*path).path.pathkeys = pathkeys;
        (*path).flags = SUPPORTS_PROJECTION;
        (*path).custom_paths = node_list([input]);
        (*path).custom_private = private;
        (*path).methods = &raw const PATH_METHODS.0;
        path
    }
}

/// The order that the node needs, and keeps: the other group columns, then the bucket, ascending.
///
/// # Safety
/// As the hook.
unsafe fn required_order(
    root: *mut pg_sys::PlannerInfo,
    bucket: *mut pg_sys::SortGroupClause,
) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    unsafe {
        let ascending: *mut pg_sys::SortGroupClause = pg_sys::copyObjectImpl(bucket.cast()).cast();
        let typ = pg_sys::exprType(pg_sys::get_sortgroupclause_expr(
            bucket,
            (*root).processed_tlist,
        ));
        let mut less = Oid::INVALID;
        pg_sys::get_sort_group_operators(
            typ,
            true,
            false,
            false,
            &mut less,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        (*ascending).sortop = less;
        (*ascending).nulls_first = false;
        let clauses: Vec<_> = items::<pg_sys::SortGroupClause>((*(*root).parse).groupClause)
            .filter(|clause| *clause != bucket)
            .chain([ascending])
            .collect();
        if clauses
            .iter()
            .any(|clause| (**clause).sortop == Oid::INVALID)
        {
            unsupported(
                "time_bucket_gapfill needs group columns that can be sorted",
                "Cast the column, for example to text.",
            );
        }
        pg_sys::make_pathkeys_for_sortclauses(root, node_list(clauses), (*root).processed_tlist)
    }
}

/// # Safety
/// As the hook.
unsafe fn columns_of(
    root: *mut pg_sys::PlannerInfo,
    target: *mut pg_sys::PathTarget,
    bucket: *mut pg_sys::SortGroupClause,
) -> Vec<Column> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut found = Columns {
            columns: Vec::new(),
            stray_bucket: false,
        };
        for clause in items::<pg_sys::SortGroupClause>((*(*root).parse).groupClause) {
            let expression = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
            found.columns.push(Column {
                kind: if clause == bucket {
                    ColumnKind::Bucket
                } else {
                    ColumnKind::Group
                },
                below: expression,
                above: expression,
                sortgroupref: (*clause).tleSortGroupRef,
                equality: if clause == bucket {
                    Oid::INVALID
                } else {
                    pg_sys::get_opcode((*clause).eqop)
                },
                arguments: [std::ptr::null_mut(); 2],
            });
        }
        for expression in items::<Node>((*target).exprs) {
            collect(expression, (&raw mut found).cast());
        }
        if found.stray_bucket {
            unsupported(
                "time_bucket_gapfill must be a group column by itself",
                "Group by it, and use the same call in the select list.",
            );
        }
        found.columns
    }
}

impl Columns {
    fn add(
        &mut self,
        kind: ColumnKind,
        below: *mut Node,
        above: *mut Node,
        arguments: [*mut Node; 2],
    ) {
        self.columns.push(Column {
            kind,
            below,
            above,
            sortgroupref: 0,
            equality: Oid::INVALID,
            arguments,
        });
    }
}

/// A call of one of our markers, whatever name and schema it has.
///
/// # Safety
/// `node` is null or an expression; must run inside a guarded entry point.
unsafe fn marked(node: *mut Node) -> Option<(Marker, *mut pg_sys::FuncExpr)> {
    // SAFETY: the caller's promise.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(node, NodeTag::T_FuncExpr)?;
        Some((marker_of((*call).funcid)?, call))
    }
}

/// Walks an expression of the query and adds the columns that it needs.
#[pg_guard]
unsafe extern "C-unwind" fn collect(node: *mut Node, found: *mut core::ffi::c_void) -> bool {
    // SAFETY: called on expressions of the query, with the columns found so far.
    unsafe {
        let columns = &mut *found.cast::<Columns>();
        if node.is_null()
            || columns
                .columns
                .iter()
                .any(|column| pg_sys::equal(column.above.cast(), node.cast()))
        {
            return false;
        }
        match marked(node) {
            Some((Marker::Bucket, _)) => {
                columns.stray_bucket = true;
                return false;
            }
            Some((marker, call)) => {
                let arguments: Vec<*mut Node> = items((*call).args).collect();
                let kind = if marker == Marker::Locf {
                    ColumnKind::Locf
                } else {
                    ColumnKind::Interpolate
                };
                columns.add(kind, arguments[0], node, [arguments[1], arguments[2]]);
                return collect(arguments[1], found) || collect(arguments[2], found);
            }
            None => {}
        }
        match (*node).type_ {
            NodeTag::T_Aggref => {
                columns.add(ColumnKind::Aggregate, node, node, [std::ptr::null_mut(); 2])
            }
            NodeTag::T_Var | NodeTag::T_PlaceHolderVar => {
                columns.add(ColumnKind::Group, node, node, [std::ptr::null_mut(); 2])
            }
            _ => {
                return pg_sys::ffi::pg_guard_ffi_boundary(|| {
                    pg_sys::expression_tree_walker(node, Some(collect), found)
                });
            }
        }
        false
    }
}

/// The parts of the plan, in the order in which `node` takes them apart: expressions, columns, then what is known of them.
///
/// # Safety
/// As the hook.
unsafe fn private_of(
    root: *mut pg_sys::PlannerInfo,
    columns: &[Column],
    call: *mut pg_sys::FuncExpr,
) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    unsafe {
        let arguments: Vec<*mut Node> = items((*call).args).collect();
        let null = std::ptr::null_mut();
        let (width, time, zone, start, finish) = match arguments[..] {
            [width, time, start, finish] => (width, time, null, start, finish),
            [width, time, zone, start, finish] => (width, time, zone, start, finish),
            _ => panic!(
                "BUG: time_bucket_gapfill with {} arguments",
                arguments.len()
            ),
        };
        for argument in [width, zone, start, finish] {
            if pg_sys::contain_var_clause(argument) || pg_sys::contain_volatile_functions(argument)
            {
                invalid(
                    "width, time zone and bounds of time_bucket_gapfill must be the same for all rows",
                    "Use constants, parameters or uncorrelated subqueries.",
                );
            }
        }
        let bounds = bounds::collect(Planner::from_ptr(root), Expression::from_ptr(time));
        let missing = |argument: *mut Node, lower: bool| {
            let is_null =
                cast::<pg_sys::Const>(argument, NodeTag::T_Const).is_some_and(|c| (*c).constisnull);
            is_null && !bounds.iter().any(|bound| bound.lower == lower)
        };
        if missing(start, true) {
            raise_missing_bound("start");
        }
        if missing(finish, false) {
            raise_missing_bound("finish");
        }
        let mut expressions = vec![width, zone, start, finish];
        expressions.extend(bounds.iter().map(|bound| bound.value.as_ptr()));
        expressions.extend(columns.iter().flat_map(|column| column.arguments));
        let bound_kinds = bounds.iter().flat_map(
            |Bound {
                 lower,
                 successor,
                 date_from_timestamp,
                 value,
             }| {
                let time_type = TimeType::of(value.typ()).map_or(-1, |t| t as i32);
                [
                    i32::from(*lower),
                    i32::from(*successor),
                    i32::from(*date_from_timestamp),
                    time_type,
                ]
            },
        );
        let oids = |oid: Oid| oid.to_u32() as i32;
        node_list([
            node_list(expressions),
            node_list(columns.iter().map(|column| column.above)),
            integer_list(columns.iter().map(|column| column.kind as i32)),
            integer_list(columns.iter().map(|column| oids(column.equality))),
            integer_list(
                columns
                    .iter()
                    .map(|column| oids(pg_sys::exprCollation(column.below))),
            ),
            integer_list(bound_kinds),
        ])
    }
}

static PATH_METHODS: Shared<pg_sys::CustomPathMethods> = Shared(pg_sys::CustomPathMethods {
    CustomName: Gapfill::NAME.as_ptr(),
    PlanCustomPath: Some(plan_custom_path),
    ReparameterizeCustomPathByChild: None,
});

#[pg_guard]
unsafe extern "C-unwind" fn plan_custom_path(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    _clauses: *mut pg_sys::List,
    custom_plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner for a path that `gapfill_path` made.
    unsafe {
        let parts: Vec<*mut pg_sys::List> = items((*path).custom_private).collect();
        let scan_tlist = items::<Node>(parts[1]).enumerate().map(|(n, expression)| {
            let copy = pg_sys::copyObjectImpl(expression.cast()).cast();
            pg_sys::makeTargetEntry(copy, n as i16 + 1, std::ptr::null_mut(), false)
        });
        let scan = node::make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
        (*scan).scan.plan.targetlist = tlist;
        (*scan).flags = (*path).flags;
        (*scan).custom_plans = custom_plans;
        (*scan).custom_exprs = pg_sys::copyObjectImpl(parts[0].cast()).cast();
        (*scan).custom_scan_tlist = node_list(scan_tlist);
        (*scan).custom_private = node_list(parts[2..].iter().copied());
        (*scan).methods = Gapfill::METHODS.scan();
        scan.cast()
    }
}
