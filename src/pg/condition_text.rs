//! A condition on rows of a table, read from the text that stands for it.

use super::expression::Expression;
use super::lock_mode::LockMode;
use super::relation::Table;
use core::ffi::CStr;
use pgrx::pg_sys::{self, List, Node, NodeTag};
use std::ffi::CString;

/// Why a text is no condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    ZeroByte,
    /// It is not one expression, but more or something else.
    NotOne,
    Subquery,
}

/// The condition that a text is. What is wrong with an expression, such as a column that is not there, core raises; `what` is its name in
/// such errors. The condition is in the current memory context.
///
/// # Safety
/// The memory context must live as long as the handle is used.
pub unsafe fn read<'a>(table: Table<'_>, text: &str, what: &CStr) -> Result<Expression<'a>, Fault> {
    // SAFETY: the expression is one of the parser's.
    unsafe { transform(table, parse(text)?, what) }
}

/// The expression that a text consists of.
fn parse(text: &str) -> Result<*mut Node, Fault> {
    // A line of its own ends a comment at the text's end.
    let text = CString::new(format!("SELECT {text}\n")).map_err(|_| Fault::ZeroByte)?;
    // SAFETY: raw parse trees are as the grammar makes them.
    let expression = unsafe {
        let list = pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        single(list)
            .map(|raw| (*raw.cast::<pg_sys::RawStmt>()).stmt)
            .filter(|statement| (**statement).type_ == NodeTag::T_SelectStmt)
            .and_then(|statement| only_expression(&*statement.cast()))
    };
    expression.ok_or(Fault::NotOne)
}

/// # Safety
/// `list` must be NIL or a list of nodes.
unsafe fn single(list: *mut List) -> Option<*mut Node> {
    // SAFETY: a list that is not NIL has so many nodes.
    unsafe {
        (!list.is_null() && (*list).length == 1).then(|| (*(*list).elements).ptr_value.cast())
    }
}

/// The one target of a SELECT that has nothing else.
///
/// # Safety
/// The statement must be as the grammar makes it.
unsafe fn only_expression(select: &pg_sys::SelectStmt) -> Option<*mut Node> {
    let lists = [
        select.distinctClause,
        select.fromClause,
        select.groupClause,
        select.windowClause,
        select.valuesLists,
        select.sortClause,
        select.lockingClause,
    ];
    let nodes = [
        select.whereClause,
        select.havingClause,
        select.limitOffset,
        select.limitCount,
    ];
    let is_bare = lists.iter().all(|list| list.is_null())
        && nodes.iter().all(|node| node.is_null())
        && select.intoClause.is_null()
        && select.withClause.is_null()
        && select.op == pg_sys::SetOperation::SETOP_NONE;
    // SAFETY: the targets of a SELECT are ResTargets.
    unsafe {
        let target = single(select.targetList).filter(|_| is_bare)?;
        let target = &*target.cast::<pg_sys::ResTarget>();
        (target.name.is_null() && !target.val.is_null()).then_some(target.val)
    }
}

/// The expression as a condition on rows of the table.
///
/// # Safety
/// As `read`; the expression must be as the grammar makes it.
unsafe fn transform<'a>(
    table: Table<'_>,
    expression: *mut Node,
    what: &CStr,
) -> Result<Expression<'a>, Fault> {
    // SAFETY: the table is open; the range table has this one entry.
    unsafe {
        let state = pg_sys::make_parsestate(core::ptr::null_mut());
        let item = pg_sys::addRangeTableEntryForRelation(
            state,
            table.as_ptr(),
            LockMode::AccessShare.as_raw(),
            core::ptr::null_mut(),
            false,
            true,
        );
        pg_sys::addNSItemToQuery(state, item, true, true, true);
        let kind = pg_sys::ParseExprKind::EXPR_KIND_WHERE;
        let condition = pg_sys::transformExpr(state, expression, kind);
        let condition = pg_sys::coerce_to_boolean(state, condition, what.as_ptr());
        if (*state).p_hasSubLinks {
            return Err(Fault::Subquery);
        }
        pg_sys::assign_expr_collations(state, condition);
        Ok(Expression::from_ptr(condition))
    }
}

/// The number that the table of a condition of `read` has in it.
pub const ITS_TABLE: u32 = 1;
