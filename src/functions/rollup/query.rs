//! The query of a rollup: what it is made of, and what cannot be.

use crate::functions::bucket::{Width, DAY_US};
use crate::functions::errors::{raise, Code};
use crate::functions::time_bucket;
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{cast, items};
use crate::pg::relation::{self, Open, Table};
use crate::pg::sql;
use crate::rollup::time::TimeType;
use core::ffi::CStr;
use pgrx::pg_sys::{self, Node, NodeTag, Oid};
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
    // SAFETY: by contract; errors of the parser are raised as they are.
    unsafe {
        let query = parse(text);
        check_clauses(query);
        let from = source(query);
        for entry in items::<pg_sys::TargetEntry>((*query).targetList) {
            if (*entry).resjunk {
                refuse(
                    "a group that is no column",
                    "Add each expression of GROUP BY to the select list.",
                );
            }
            let is_group = groups(query).contains(&(*entry).ressortgroupref);
            check_expression((*entry).expr.cast(), is_group);
        }
        let quals = (*(*query).jointree).quals;
        if !quals.is_null() {
            check_expression(quals, true);
        }
        take_apart(query, from)
    }
}

/// The groups of a query.
unsafe fn groups(query: *mut pg_sys::Query) -> Vec<u32> {
    // SAFETY: the caller's contract.
    unsafe {
        items::<pg_sys::SortGroupClause>((*query).groupClause)
            .map(|clause| (*clause).tleSortGroupRef)
            .collect()
    }
}

/// What a query over the one relation `from` is made of. Conditions on what is around the query, where it is part of another,
/// are left out.
unsafe fn take_apart(query: *mut pg_sys::Query, from: Oid) -> Defined {
    // SAFETY: the caller's contract.
    unsafe {
        let groups = groups(query);
        let context = pg_sys::deparse_context_for(c"src".as_ptr(), from);
        let mut columns = Vec::new();
        let mut buckets = Vec::new();
        for entry in items::<pg_sys::TargetEntry>((*query).targetList) {
            let is_group = groups.contains(&(*entry).ressortgroupref);
            let node = (*entry).expr.cast();
            if is_group {
                buckets.extend(bucket_of(node).map(|found| (columns.len(), found)));
            }
            columns.push(Column {
                name: CStr::from_ptr((*entry).resname)
                    .to_string_lossy()
                    .into_owned(),
                expression: deparse(node, context),
                kind: pg_sys::exprType(node),
                typmod: pg_sys::exprTypmod(node),
                collation: pg_sys::exprCollation(node),
                is_group,
                attribute: cast::<pg_sys::Var>(node, NodeTag::T_Var)
                    .filter(|&column| (*column).varlevelsup == 0)
                    .map_or(0, |column| (*column).varattno),
            });
        }
        let filters: Vec<_> = conjuncts((*(*query).jointree).quals)
            .into_iter()
            .filter(|&part| !pg_sys::contain_vars_of_level(part, 1))
            .map(|part| deparse(part, context))
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
}

/// The parts of a condition that must all hold.
unsafe fn conjuncts(node: *mut Node) -> Vec<*mut Node> {
    // SAFETY: the caller's contract.
    unsafe {
        match cast::<pg_sys::BoolExpr>(node, NodeTag::T_BoolExpr) {
            Some(all) if (*all).boolop == pg_sys::BoolExprType::AND_EXPR => items((*all).args)
                .flat_map(|part| conjuncts(part))
                .collect(),
            _ if node.is_null() => Vec::new(),
            _ => vec![node],
        }
    }
}

unsafe fn parse(text: &CStr) -> *mut pg_sys::Query {
    // SAFETY: the caller's contract.
    unsafe {
        let statements: Vec<_> =
            items::<pg_sys::RawStmt>(pg_sys::pg_parse_query(text.as_ptr())).collect();
        let [statement] = statements[..] else {
            raise(
                Code::ERRCODE_SYNTAX_ERROR,
                "a rollup is made of one query",
                "",
                "Write one SELECT … FROM … GROUP BY ….",
            );
        };
        let none = core::ptr::null_mut();
        let query =
            pg_sys::parse_analyze_fixedparams(statement, text.as_ptr(), core::ptr::null(), 0, none);
        if (*query).commandType != pg_sys::CmdType::CMD_SELECT || !(*query).utilityStmt.is_null() {
            raise(
                Code::ERRCODE_SYNTAX_ERROR,
                "a rollup is made of a SELECT",
                "",
                "Write one SELECT … FROM … GROUP BY ….",
            );
        }
        query
    }
}

/// Clauses that a rollup's query cannot have.
unsafe fn check_clauses(query: *mut pg_sys::Query) {
    // SAFETY: the caller's contract: an analysed query.
    let q = unsafe { &*query };
    let join = "Join the rollup's view with the other tables instead.";
    let outside = "Query the rollup's view with it instead.";
    let clauses = [
        (
            !q.setOperations.is_null(),
            "UNION, INTERSECT or EXCEPT",
            "Make a rollup for each part.",
        ),
        (!q.cteList.is_null(), "WITH", "Name the table in FROM."),
        (q.hasSubLinks, "subqueries", join),
        (!q.distinctClause.is_null(), "DISTINCT", outside),
        (q.hasWindowFuncs, "window functions", outside),
        (
            !q.limitCount.is_null() || !q.limitOffset.is_null(),
            "LIMIT or OFFSET",
            outside,
        ),
        (!q.sortClause.is_null(), "ORDER BY", outside),
        (!q.havingQual.is_null(), "HAVING", outside),
        (
            !q.groupingSets.is_null(),
            "GROUPING SETS, ROLLUP or CUBE",
            "Make a rollup for each set.",
        ),
        (q.hasTargetSRFs, "functions that return sets", outside),
        (
            !q.rowMarks.is_null(),
            "FOR UPDATE or FOR SHARE",
            "Leave it out.",
        ),
    ];
    for (found, what, hint) in clauses {
        if found {
            refuse(what, hint);
        }
    }
}

/// The one relation of the query.
unsafe fn source(query: *mut pg_sys::Query) -> Oid {
    // SAFETY: the caller's contract.
    unsafe {
        let tables: Vec<_> = items::<pg_sys::RangeTblEntry>((*query).rtable).collect();
        let refs = items::<Node>((*(*query).jointree).fromlist).collect::<Vec<_>>();
        let one = match (&tables[..], &refs[..]) {
            ([table], [from]) if (**from).type_ == NodeTag::T_RangeTblRef => *table,
            ([], _) => raise(
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
        if (*one).rtekind != pg_sys::RTEKind::RTE_RELATION {
            refuse(
                "subqueries or functions in FROM",
                "Name a varve table or a rollup.",
            );
        }
        if !(*one).tablesample.is_null() {
            refuse("TABLESAMPLE", "Leave it out.");
        }
        (*one).relid
    }
}

/// What an expression cannot contain. `is_plain`: a group, or a condition, which have no aggregates.
unsafe fn check_expression(node: *mut Node, is_plain: bool) {
    // SAFETY: the caller's contract: an expression of an analysed query over one relation.
    unsafe {
        let mut seen = Seen::default();
        seen.look(node);
        if let Some((what, hint)) = seen.refused {
            refuse(what, hint);
        }
        if pg_sys::contain_mutable_functions(node) {
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
}

#[derive(Default)]
struct Seen {
    has_aggregate: bool,
    refused: Option<(&'static str, &'static str)>,
    /// The first function that is not immutable.
    mutable: Option<String>,
}

impl Seen {
    unsafe fn look(&mut self, node: *mut Node) {
        // SAFETY: the caller's contract.
        unsafe {
            walk(node, core::ptr::from_mut(self).cast());
        }
    }

    unsafe fn note(&mut self, node: *mut Node) {
        const NORMAL: u8 = b'n';
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(aggregate) = cast::<pg_sys::Aggref>(node, NodeTag::T_Aggref) {
                self.has_aggregate = true;
                if (*aggregate).aggkind as u8 != NORMAL {
                    self.refused = Some((
                        "ordered-set or hypothetical-set aggregates",
                        "Use percentile_agg, whose value can be stored and queried by approx_percentile.",
                    ));
                } else if !(*aggregate).aggdistinct.is_null() {
                    self.refused = Some((
                        "aggregates of DISTINCT values",
                        "Add the column to GROUP BY, and count the groups of the view.",
                    ));
                }
            }
            let called = match (*node).type_ {
                NodeTag::T_FuncExpr => (*node.cast::<pg_sys::FuncExpr>()).funcid,
                NodeTag::T_OpExpr => pg_sys::get_opcode((*node.cast::<pg_sys::OpExpr>()).opno),
                NodeTag::T_Aggref => (*node.cast::<pg_sys::Aggref>()).aggfnoid,
                _ => pg_sys::InvalidOid,
            };
            if called != pg_sys::InvalidOid && self.mutable.is_none() {
                self.mutable = mutable(called);
            }
            if let Some(var) = cast::<pg_sys::Var>(node, NodeTag::T_Var) {
                if (*var).varattno <= 0 {
                    self.refused = Some((
                        "system columns or whole rows",
                        "Name the columns that are wanted.",
                    ));
                }
            }
        }
    }
}

/// The name of a function, if it is not immutable.
unsafe fn mutable(function: Oid) -> Option<String> {
    const IMMUTABLE: u8 = b'i';
    // SAFETY: look-ups in caches of a function that exists.
    unsafe {
        let name = pg_sys::get_func_name(function);
        (pg_sys::func_volatile(function) as u8 != IMMUTABLE && !name.is_null())
            .then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

unsafe extern "C-unwind" fn walk(node: *mut Node, seen: *mut core::ffi::c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: `seen` is what `look` has passed.
    unsafe {
        (*seen.cast::<Seen>()).note(node);
        pg_sys::expression_tree_walker(node, Some(walk), seen)
    }
}

unsafe fn deparse(node: *mut Node, context: *mut pg_sys::List) -> String {
    // SAFETY: the caller's contract.
    unsafe {
        let text = pg_sys::deparse_expression(node, context, true, false);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
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
unsafe fn bucket_of(node: *mut Node) -> Option<Bucket> {
    // SAFETY: the caller's contract: an expression of the query.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(node, NodeTag::T_FuncExpr)?;
        if !time_bucket::is_time_bucket((*call).funcid) {
            return None;
        }
        let mut arguments = items::<Node>((*call).args);
        let (width, time) = (arguments.next()?, arguments.next()?);
        let column =
            cast::<pg_sys::Var>(time, NodeTag::T_Var).filter(|&var| (*var).varlevelsup == 0);
        let column = column.unwrap_or_else(|| {
            refuse(
                "time_bucket of anything but a column",
                "Give the table's time column to time_bucket as it is.",
            )
        });
        let constants: Vec<_> = arguments
            .chain([width])
            .map(|node| constant(node))
            .collect();
        let zoned = constants.iter().any(|c| (**c).consttype == pg_sys::TEXTOID);
        let shifted = constants[..constants.len() - 1].iter().any(|c| {
            (**c).consttype == pg_sys::INTERVALOID
                && !(**c).constisnull
                && (*(**c).constvalue.cast_mut_ptr::<pg_sys::Interval>()).month != 0
        });
        let kind = TimeType::of((*column).vartype)?;
        let width = width_of(kind, *constants.last()?);
        let day = if kind == TimeType::Date { 1 } else { DAY_US };
        let slack = (i64::from(zoned) * ZONE_US + i64::from(shifted) * MONTH_END_US) / DAY_US * day;
        Some(Bucket {
            time: (*column).varattno,
            width: width.saturating_add(slack),
            over: slack,
        })
    }
}

unsafe fn constant(node: *mut Node) -> *mut pg_sys::Const {
    // SAFETY: the caller's contract.
    let found = unsafe {
        let named = cast::<pg_sys::NamedArgExpr>(node, NodeTag::T_NamedArgExpr);
        let node = named.map_or(node, |named| (*named).arg.cast());
        let simple = pg_sys::eval_const_expressions(core::ptr::null_mut(), node);
        cast::<pg_sys::Const>(simple, NodeTag::T_Const)
    };
    found.unwrap_or_else(|| {
        refuse(
            "time_bucket with arguments that are no constants",
            "Write width, time zone, origin and offset as constants.",
        )
    })
}

/// The longest that a bucket can be, in the unit of its times. The width is checked as time_bucket does.
unsafe fn width_of(kind: TimeType, width: *mut pg_sys::Const) -> i64 {
    // SAFETY: the caller's contract: a constant of the type that goes with the time.
    unsafe {
        if (*width).constisnull {
            refuse(
                "time_bucket of width NULL",
                "Give a width such as '5 minutes'.",
            );
        }
        let value = (*width).constvalue;
        let interval = || &*value.cast_mut_ptr::<pg_sys::Interval>();
        let checked = match kind {
            TimeType::Timestamp => Width::of(interval()).map(|width| match width {
                Width::Fixed(us) => us,
                Width::Months(months) => months.saturating_mul(LONGEST_MONTH_DAYS * DAY_US),
            }),
            TimeType::Date => Width::of_days(interval()).map(|width| match width {
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
}

/// Looks for a rollup's stored table, and its query, in a view; None in any other view.
pub fn of_view(view: Table<'_>) -> Option<(Oid, Defined)> {
    // SAFETY: the table is open; a view has a rule with its query.
    unsafe {
        let is_view = view.class().relkind as u8 == pg_sys::RELKIND_VIEW;
        let mut found = InView::default();
        if is_view {
            found.look(pg_sys::get_view_query(view.as_ptr()));
        }
        let (query, from) = found.grouped?;
        Some((found.stored?, take_apart(query, from)))
    }
}

#[derive(Default)]
struct InView {
    stored: Option<Oid>,
    grouped: Option<(*mut pg_sys::Query, Oid)>,
}

impl InView {
    /// Looks through the subqueries of a query.
    unsafe fn look(&mut self, query: *mut pg_sys::Query) {
        // SAFETY: the caller's contract: an analysed query.
        unsafe {
            for table in items::<pg_sys::RangeTblEntry>((*query).rtable) {
                match (*table).rtekind {
                    pg_sys::RTEKind::RTE_SUBQUERY => self.look((*table).subquery),
                    pg_sys::RTEKind::RTE_FUNCTION => {
                        let functions = items::<pg_sys::RangeTblFunction>((*table).functions);
                        self.stored = functions
                            .filter_map(|function| stored_of((*function).funcexpr))
                            .next()
                            .or(self.stored);
                    }
                    pg_sys::RTEKind::RTE_RELATION if has_bucket(query) => {
                        self.grouped = Some((query, (*table).relid));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Is a query of one relation grouped by a bucket?
unsafe fn has_bucket(query: *mut pg_sys::Query) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let groups = groups(query);
        let mut entries = items::<pg_sys::TargetEntry>((*query).targetList)
            .filter(|entry| groups.contains(&(**entry).ressortgroupref));
        items::<Node>((*query).rtable).count() == 1
            && entries.any(|entry| bucket_of((*entry).expr.cast()).is_some())
    }
}

/// The first argument of a call of varve.rollup_live.
unsafe fn stored_of(node: *mut Node) -> Option<Oid> {
    // SAFETY: the caller's contract.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(node, NodeTag::T_FuncExpr)?;
        let schema = pg_sys::get_namespace_oid(c"varve".as_ptr(), true);
        let name = pg_sys::get_func_name((*call).funcid);
        let is_ours = !name.is_null()
            && CStr::from_ptr(name) == c"rollup_live"
            && pg_sys::get_func_namespace((*call).funcid) == schema;
        let first = items::<Node>((*call).args).next()?;
        let stored = cast::<pg_sys::Const>(first, NodeTag::T_Const)?;
        (is_ours && !(*stored).constisnull)
            .then(|| Oid::from_u32((*stored).constvalue.value() as u32))
    }
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
