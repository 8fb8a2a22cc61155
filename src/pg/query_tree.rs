//! Queries as the parser's analysis leaves them, before anybody plans them.

use super::expression::Expression;
use super::expression_kinds::{Constant, Kind};
use super::node::{self, items};
use super::relation::{self, Relation};
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Node, NodeTag, Oid, RTEKind};
use std::ffi::CStr;

/// A query, or a part of one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct QueryTree<'a> {
    query: NonNull<pg_sys::Query>,
    kept: PhantomData<&'a pg_sys::Query>,
}

/// Why a text is no query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not one statement.
    NotOne,
    /// It is another statement.
    NotSelect,
}

/// What a query may have beside columns, FROM, WHERE and GROUP BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// UNION, INTERSECT or EXCEPT.
    SetOperation,
    With,
    /// A subquery in an expression.
    Subquery,
    Distinct,
    /// A window function.
    Window,
    /// LIMIT or OFFSET.
    Limit,
    OrderBy,
    Having,
    /// GROUPING SETS, ROLLUP or CUBE.
    GroupingSets,
    /// A column of a function that returns a set.
    Set,
    /// FOR UPDATE or the like.
    RowLock,
}

/// What a query reads from.
#[derive(Clone)]
pub enum Source<'a> {
    Relation {
        oid: Oid,
        /// With TABLESAMPLE.
        is_sampled: bool,
    },
    Subquery(QueryTree<'a>),
    /// Calls of functions.
    Functions(Vec<Expression<'a>>),
    Other,
}

/// An expression that a query computes for each of its rows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Target<'a> {
    entry: NonNull<pg_sys::TargetEntry>,
    kept: PhantomData<&'a pg_sys::TargetEntry>,
}

impl<'a> QueryTree<'a> {
    /// # Safety
    /// `query` must be analysed, and valid as long as the handle is used.
    unsafe fn of(query: NonNull<pg_sys::Query>) -> QueryTree<'a> {
        let kept = PhantomData;
        QueryTree { query, kept }
    }

    /// The SELECT that a text is, in the current memory context. Errors of the parser are raised as they are. Inside a transaction with an
    /// active snapshot.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used.
    pub unsafe fn read(text: &CStr) -> Result<QueryTree<'a>, Fault> {
        // SAFETY: what the parser makes of a text; an analysed query is not null.
        unsafe {
            let parsed = pg_sys::pg_parse_query(text.as_ptr());
            let statements = node::of_list::<pg_sys::RawStmt>(parsed);
            let [statement] = statements[..] else {
                return Err(Fault::NotOne);
            };
            let (no_types, none) = (core::ptr::null(), core::ptr::null_mut());
            let text = text.as_ptr();
            let query = pg_sys::parse_analyze_fixedparams(statement, text, no_types, 0, none);
            let is_select = (*query).commandType == pg_sys::CmdType::CMD_SELECT
                && (*query).utilityStmt.is_null();
            match NonNull::new(query).filter(|_| is_select) {
                Some(query) => Ok(QueryTree::of(query)),
                None => Err(Fault::NotSelect),
            }
        }
    }

    /// The query of a view; None of any other relation.
    pub fn of_view(view: Relation<'a>) -> Option<QueryTree<'a>> {
        if view.kind() != relation::Kind::View {
            return None;
        }
        // SAFETY: a view has a rule with its query, which is there as long as the view is open.
        unsafe { NonNull::new(pg_sys::get_view_query(view.as_ptr())).map(|query| Self::of(query)) }
    }

    fn fields(&self) -> &pg_sys::Query {
        // SAFETY: the handle's query is valid.
        unsafe { self.query.as_ref() }
    }

    pub fn has(self, clause: Clause) -> bool {
        let query = self.fields();
        match clause {
            Clause::SetOperation => !query.setOperations.is_null(),
            Clause::With => !query.cteList.is_null(),
            Clause::Subquery => query.hasSubLinks,
            Clause::Distinct => !query.distinctClause.is_null(),
            Clause::Window => query.hasWindowFuncs,
            Clause::Limit => !query.limitCount.is_null() || !query.limitOffset.is_null(),
            Clause::OrderBy => !query.sortClause.is_null(),
            Clause::Having => !query.havingQual.is_null(),
            Clause::GroupingSets => !query.groupingSets.is_null(),
            Clause::Set => query.hasTargetSRFs,
            Clause::RowLock => !query.rowMarks.is_null(),
        }
    }

    /// Its columns, and what it computes for GROUP BY besides.
    pub fn targets(self) -> impl Iterator<Item = Target<'a>> {
        // SAFETY: the query's targets are of this type.
        let all = unsafe { items::<pg_sys::TargetEntry>(self.fields().targetList) };
        all.filter_map(NonNull::new).map(|entry| Target {
            entry,
            kept: PhantomData,
        })
    }

    /// Is a target of it in GROUP BY?
    pub fn is_grouped_by(self, target: Target<'_>) -> bool {
        let number = target.fields().ressortgroupref;
        // SAFETY: the query's groups are of this type.
        unsafe {
            items::<pg_sys::SortGroupClause>(self.fields().groupClause)
                .any(|clause| (*clause).tleSortGroupRef == number)
        }
    }

    /// What it reads from, joins included.
    pub fn sources(self) -> impl Iterator<Item = Source<'a>> {
        // SAFETY: the query's range table is of this type.
        unsafe {
            items::<pg_sys::RangeTblEntry>(self.fields().rtable).map(|entry| Source::of(&*entry))
        }
    }

    /// Does FROM list one source and no join?
    pub fn reads_one(self) -> bool {
        // SAFETY: an analysed query has a FROM, with a list of nodes.
        let listed = unsafe { node::of_list::<Node>((*self.fields().jointree).fromlist) };
        // SAFETY: a node's tag says what it is.
        matches!(listed[..], [one] if unsafe { node::is(one, NodeTag::T_RangeTblRef) })
    }

    /// WHERE.
    pub fn condition(self) -> Option<Expression<'a>> {
        // SAFETY: an analysed query has a FROM, whose condition is an expression.
        unsafe { Expression::existing((*self.fields().jointree).quals) }
    }
}

impl<'a> Source<'a> {
    /// # Safety
    /// The entry must be of an analysed query, and what it refers to valid as long as what comes out is used.
    unsafe fn of(entry: &pg_sys::RangeTblEntry) -> Source<'a> {
        match entry.rtekind {
            RTEKind::RTE_RELATION => Source::Relation {
                oid: entry.relid,
                is_sampled: !entry.tablesample.is_null(),
            },
            // SAFETY: an entry of this kind has an analysed query.
            RTEKind::RTE_SUBQUERY => unsafe {
                NonNull::new(entry.subquery).map_or(Source::Other, |query| {
                    Source::Subquery(QueryTree::of(query))
                })
            },
            // SAFETY: an entry of this kind has a list of functions, each of which is an expression.
            RTEKind::RTE_FUNCTION => unsafe {
                let functions = items::<pg_sys::RangeTblFunction>(entry.functions);
                let calls = functions.filter_map(|one| Expression::existing((*one).funcexpr));
                Source::Functions(calls.collect())
            },
            _ => Source::Other,
        }
    }
}

impl<'a> Target<'a> {
    fn fields(&self) -> &pg_sys::TargetEntry {
        // SAFETY: the handle's node is valid.
        unsafe { self.entry.as_ref() }
    }

    /// Is it no column of what the query gives?
    pub fn is_hidden(self) -> bool {
        self.fields().resjunk
    }

    /// The column's name; that of a hidden one is empty.
    pub fn name(self) -> String {
        // SAFETY: null or a NUL-terminated name.
        let name = unsafe { node::owned(self.fields().resname) };
        name.to_string_lossy().into_owned()
    }

    pub fn expression(self) -> Expression<'a> {
        // SAFETY: a target has an expression, which is valid as long as the query.
        unsafe { Expression::from_ptr(self.fields().expr.cast()) }
    }

    /// What belongs to its type, as the n of char(n); -1 where nothing does.
    pub fn type_modifier(self) -> i32 {
        // SAFETY: a target has an expression.
        unsafe { pg_sys::exprTypmod(self.fields().expr.cast()) }
    }
}

/// May the value of an expression change with what is around it, from one query to the next?
pub fn is_mutable(expression: Expression<'_>) -> bool {
    // SAFETY: a valid expression; look-ups in the catalog.
    unsafe { pg_sys::contain_mutable_functions(expression.as_ptr()) }
}

/// Has an expression of a query columns of the query around it?
pub fn refers_outward(expression: Expression<'_>) -> bool {
    const AROUND: i32 = 1;
    // SAFETY: a valid expression.
    unsafe { pg_sys::contain_vars_of_level(expression.as_ptr(), AROUND) }
}

/// The constant that an argument of a call comes to, whether it is named or not, in the current memory context; None where it comes to
/// none.
///
/// # Safety
/// The memory context must live as long as the handle is used.
pub unsafe fn constant_of<'a>(argument: Expression<'a>) -> Option<Constant<'a>> {
    // SAFETY: a valid expression, and what becomes of it is one.
    let simple: Expression<'a> = unsafe {
        let named = NodeTag::T_NamedArgExpr;
        let node = node::cast::<pg_sys::NamedArgExpr>(argument.as_ptr(), named)
            .map_or(argument.as_ptr(), |named| (*named).arg.cast());
        Expression::from_ptr(pg_sys::eval_const_expressions(core::ptr::null_mut(), node))
    };
    match simple.kind() {
        Kind::Constant(constant) => Some(constant),
        _ => None,
    }
}
