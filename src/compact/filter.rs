//! Filters of jobs: conditions on the columns of a series key, kept as text. They are read anew each time, as the table's
//! owner and with a fixed search_path, so what they name is what it names at that time.

use crate::catalog::layout::Layout;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{self, Table};
use pgrx::pg_sys;
use std::ffi::CString;

/// Raises what is wrong with a filter on rows of an open table.
///
/// # Safety
/// `table` must be open with a lock; to be called by `as_owner`.
pub unsafe fn check(table: Table<'_>, layout: &Layout, filter: &str) {
    // SAFETY: by contract.
    unsafe {
        let condition = transform(table, parse(filter));
        if pg_sys::contain_volatile_functions(condition) {
            refuse(
                "a series filter cannot use volatile functions",
                "It must say the same of a series whenever it is asked.",
            );
        }
        for column in columns(condition) {
            let is_key = u16::try_from(column).is_ok_and(|column| layout.keys.contains(&column));
            if !is_key {
                refuse_column(table, layout, column);
            }
        }
    }
}

/// The expression that a text consists of.
unsafe fn parse(filter: &str) -> *mut pg_sys::Node {
    let Ok(text) = CString::new(format!("SELECT {filter}\n")) else {
        refuse("a series filter cannot contain a zero byte", "");
    };
    // SAFETY: raw parse trees are as the grammar makes them.
    unsafe {
        let list = pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        let expression = single(list)
            .map(|raw| (*raw.cast::<pg_sys::RawStmt>()).stmt)
            .filter(|statement| (**statement).type_ == pg_sys::NodeTag::T_SelectStmt)
            .and_then(|statement| only_expression(&*statement.cast()));
        expression.unwrap_or_else(|| {
            refuse(
                "a series filter must be one condition",
                "Write what would stand behind WHERE, such as host LIKE 'test-%'.",
            )
        })
    }
}

unsafe fn single(list: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    // SAFETY: a list of nodes, or NIL.
    unsafe {
        (!list.is_null() && (*list).length == 1).then(|| (*(*list).elements).ptr_value.cast())
    }
}

/// The one target of a SELECT that has nothing else.
unsafe fn only_expression(select: &pg_sys::SelectStmt) -> Option<*mut pg_sys::Node> {
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
unsafe fn transform(table: Table<'_>, expression: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the caller's contract; the range table has this one entry.
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
        let condition = pg_sys::coerce_to_boolean(state, condition, c"series filter".as_ptr());
        if (*state).p_hasSubLinks {
            refuse(
                "a series filter cannot use subqueries",
                "It may look at the columns of the series key only.",
            );
        }
        pg_sys::assign_expr_collations(state, condition);
        condition
    }
}

/// Numbers of the columns that a condition uses; system columns are negative, and 0 is the whole row.
unsafe fn columns(condition: *mut pg_sys::Node) -> Vec<i32> {
    let mut found = Vec::new();
    // SAFETY: an expression over the only entry of a range table.
    unsafe {
        let mut set = core::ptr::null_mut();
        pg_sys::pull_varattnos(condition, 1, &mut set);
        let mut member = -1;
        loop {
            member = pg_sys::bms_next_member(set, member);
            if member < 0 {
                return found;
            }
            found.push(member + pg_sys::FirstLowInvalidHeapAttributeNumber);
        }
    }
}

fn refuse_column(table: Table<'_>, layout: &Layout, column: i32) -> ! {
    let attributes = table.attributes();
    let name = |at: usize| relation::attribute_name(&attributes[at]);
    let used = match usize::try_from(column) {
        Ok(0) => "the whole row".to_string(),
        Ok(column) => format!("column \"{}\"", name(column - 1)),
        Err(_) => "a system column".to_string(),
    };
    let keys: Vec<String> = layout
        .keys
        .iter()
        .map(|&key| name(usize::from(key) - 1))
        .collect();
    let hint = if keys.is_empty() {
        "The table has no series key; CREATE INDEX … USING varve (key, time) states one."
            .to_string()
    } else {
        format!("The series key is ({}).", keys.join(", "))
    };
    error::raise(
        Code::ERRCODE_INVALID_COLUMN_REFERENCE,
        format!("a series filter cannot use {used}, which is not of the series key"),
        "",
        &hint,
    )
}

fn refuse(message: &str, hint: &str) -> ! {
    error::raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, "", hint)
}
