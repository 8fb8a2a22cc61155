//! Which queries the node answers. Whatever is not known to be right is left to core.

use crate::catalog::access_method;
use crate::catalog::keys;
use crate::catalog::layout;
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{cast, items};
use crate::pg::relation::Open;
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;

/// The table of an input that is one varve table, or one partition, and nothing else.
///
/// # Safety
/// Called by the planner's hook with its arguments.
pub unsafe fn table_of(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Option<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe {
        use pg_sys::RelOptKind::{RELOPT_BASEREL, RELOPT_OTHER_MEMBER_REL};
        let plain = [RELOPT_BASEREL, RELOPT_OTHER_MEMBER_REL].contains(&(*input).reloptkind)
            && (*input).rtekind == pg_sys::RTEKind::RTE_RELATION
            && (*input).lateral_relids.is_null();
        if !plain {
            return None;
        }
        let entry = *(*root).simple_rte_array.add((*input).relid as usize);
        let kind = (*entry).relkind as u8;
        let is_table = kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_MATVIEW;
        if !is_table || (*entry).inh || !(*entry).tablesample.is_null() {
            return None;
        }
        let open = Open::table((*entry).relid, LockMode::Held);
        let table = open.rel();
        (access_method::is_varve(table) && keys::may_have_chunks(table)).then_some((*entry).relid)
    }
}

/// The time column of a table of ours, from 1, and whether it is NOT NULL.
///
/// # Safety
/// As `table_of`, which must have found it.
pub unsafe fn time_column(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
) -> Option<(i16, bool)> {
    // SAFETY: by contract; the statement has the table's lock.
    unsafe {
        let entry = *(*root).simple_rte_array.add((*table).relid as usize);
        let open = Open::table((*entry).relid, LockMode::Held);
        let time = layout::of(open.rel()).time?;
        let attributes = open.rel().attributes();
        Some((time as i16, attributes[usize::from(time) - 1].attnotnull))
    }
}

/// May the grouping be done in two steps, as parallel ones are?
///
/// # Safety
/// As `table_of`; `extra` is the hook's.
pub unsafe fn has_two_steps(
    root: *mut pg_sys::PlannerInfo,
    extra: *mut pg_sys::GroupPathExtraData,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let query = (*root).parse;
        !extra.is_null()
            && (*extra).flags & pg_sys::GROUPING_CAN_PARTIAL_AGG as i32 != 0
            && (*query).groupingSets.is_null()
            && (*query).rowMarks.is_null()
            && ((*query).hasAggs || !(*query).groupClause.is_null())
    }
}

/// The conditions of the table in the order in which they may be evaluated; None where one of them is not for the node.
///
/// # Safety
/// As `table_of`.
pub unsafe fn conditions_of(input: *mut pg_sys::RelOptInfo) -> Option<Vec<*mut Node>> {
    // SAFETY: by contract.
    unsafe {
        let mut found: Vec<(u32, *mut Node)> = Vec::new();
        for info in items::<pg_sys::RestrictInfo>((*input).baserestrictinfo) {
            let clause: *mut Node = (*info).clause.cast();
            if !is_plain(clause, (*input).relid) {
                return None;
            }
            found.push(((*info).security_level, clause));
        }
        found.sort_by_key(|(level, _)| *level);
        Some(found.into_iter().map(|(_, clause)| clause).collect())
    }
}

/// The conditions of the table that depend on its rows; None where one of them is not for a node of ours.
///
/// # Safety
/// As `table_of`.
pub unsafe fn row_conditions_of(table: *mut pg_sys::RelOptInfo) -> Option<Vec<*mut Node>> {
    // SAFETY: by contract.
    unsafe {
        let infos = items::<pg_sys::RestrictInfo>((*table).baserestrictinfo);
        let infos = infos.filter(|info| !(**info).pseudoconstant);
        let clauses = infos.map(|info| (*info).clause.cast::<Node>());
        let plain = |clause| is_plain(clause, (*table).relid).then_some(clause);
        clauses.map(plain).collect()
    }
}

/// Can an expression be evaluated over rows of the table, whenever and however often the node likes?
///
/// # Safety
/// `expression` is null or valid; called while planning.
pub unsafe fn is_plain(expression: *mut Node, table: u32) -> bool {
    let mut context = Context { table, plain: true };
    // SAFETY: by contract.
    unsafe {
        walk(expression, (&raw mut context).cast());
        context.plain
            && !pg_sys::contain_volatile_functions(expression)
            && !pg_sys::expression_returns_set(expression)
    }
}

struct Context {
    table: u32,
    plain: bool,
}

#[pg_guard]
unsafe extern "C-unwind" fn walk(node: *mut Node, context: *mut core::ffi::c_void) -> bool {
    // SAFETY: called on nodes of an expression.
    unsafe {
        if node.is_null() {
            return false;
        }
        let own = &mut *context.cast::<Context>();
        let is_plain = match (*node).type_ {
            NodeTag::T_Var => {
                let var = node.cast::<pg_sys::Var>();
                (*var).varno as u32 == own.table && (*var).varattno > 0 && (*var).varlevelsup == 0
            }
            NodeTag::T_SubPlan
            | NodeTag::T_AlternativeSubPlan
            | NodeTag::T_SubLink
            | NodeTag::T_PlaceHolderVar
            | NodeTag::T_CurrentOfExpr
            | NodeTag::T_GroupingFunc
            | NodeTag::T_WindowFunc
            | NodeTag::T_NextValueExpr
            | NodeTag::T_Aggref => false,
            _ => true,
        };
        if !is_plain {
            own.plain = false;
            return true;
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            pg_sys::expression_tree_walker(node, Some(walk), context)
        })
    }
}

/// Can the node compute an aggregate's partial state?
///
/// # Safety
/// As `is_plain`.
pub unsafe fn is_plain_aggregate(aggregate: *mut pg_sys::Aggref, table: u32) -> bool {
    // SAFETY: by contract.
    unsafe {
        let simple = (*aggregate).aggkind == b'n' as core::ffi::c_char
            && (*aggregate).agglevelsup == 0
            && (*aggregate).aggdirectargs.is_null()
            && (*aggregate).aggorder.is_null()
            && (*aggregate).aggdistinct.is_null();
        simple
            && is_plain((*aggregate).aggfilter.cast(), table)
            && items::<pg_sys::TargetEntry>((*aggregate).args)
                .all(|argument| is_plain((*argument).expr.cast(), table))
    }
}

/// The parameters that expressions refer to, for the planner to see.
///
/// # Safety
/// As `is_plain`.
pub unsafe fn parameters_of(expressions: &[*mut Node]) -> Vec<*mut Node> {
    let mut found: Vec<*mut Node> = Vec::new();
    for expression in expressions {
        // SAFETY: by contract.
        unsafe { gather(*expression, (&raw mut found).cast()) };
    }
    found
}

#[pg_guard]
unsafe extern "C-unwind" fn gather(node: *mut Node, found: *mut core::ffi::c_void) -> bool {
    // SAFETY: called on nodes of an expression.
    unsafe {
        if node.is_null() {
            return false;
        }
        if cast::<pg_sys::Param>(node, NodeTag::T_Param).is_some() {
            let found = &mut *found.cast::<Vec<*mut Node>>();
            if !found
                .iter()
                .any(|known| pg_sys::equal(known.cast(), node.cast()))
            {
                found.push(node);
            }
            return false;
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            pg_sys::expression_tree_walker(node, Some(gather), found)
        })
    }
}
