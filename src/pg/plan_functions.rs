//! Which functions the expressions of a started plan call. Core walks over expressions and over the nodes of a plan, but nowhere over the
//! expressions of nodes.

use super::node::items;
use super::unbound::planstate_tree_walker;
use core::ffi::c_void;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary, List, Node, NodeTag, Oid, PlanState};
use pgrx::prelude::*;

/// What a walk asks of functions.
struct Question {
    is_meant: fn(Oid) -> bool,
}

/// Does a plan call a function that `is_meant` is true of? So it is taken to where it has a kind of node that this does not know.
///
/// # Safety
/// `state` must be of a plan that was started.
pub unsafe fn calls_any(state: *mut PlanState, is_meant: fn(Oid) -> bool) -> bool {
    let mut question = Question { is_meant };
    // SAFETY: by contract; the question outlives the walk.
    unsafe { visit_state(state, (&raw mut question).cast()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn visit_state(state: *mut PlanState, question: *mut c_void) -> bool {
    // SAFETY: called for the nodes of a started plan, each of which has its plan.
    unsafe {
        let plan = (*state).plan;
        let common = [(*plan).targetlist.cast(), (*plan).qual.cast()];
        let Some(own) = expressions_of(plan.cast()) else {
            return true;
        };
        common
            .into_iter()
            .chain(own)
            .any(|expression| visit_expression(expression, question))
            || pg_guard_ffi_boundary(|| planstate_tree_walker(state, visit_state, question))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn visit_expression(node: *mut Node, question: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: called for the expressions of a plan.
    unsafe {
        pg_sys::check_functions_in_node(node, Some(is_meant), question)
            || pg_sys::expression_tree_walker(node, Some(visit_expression), question)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn is_meant(function: Oid, question: *mut c_void) -> bool {
    // SAFETY: `calls_any` hands it on.
    unsafe { ((*question.cast::<Question>()).is_meant)(function) }
}

/// The expressions, and lists of them, that a node of a plan has besides its target list and its condition; `None` for a node
/// that is not known here. Those of a ModifyTable are left out, which an INSERT without RETURNING, ON CONFLICT and checks has none of.
///
/// # Safety
/// `plan` must be a node of a finished plan.
unsafe fn expressions_of(plan: *mut Node) -> Option<Vec<*mut Node>> {
    // SAFETY: the tag tells the type of the node.
    unsafe {
        macro_rules! of {
            ($node:ident: $($field:ident),*) => {
                vec![$((*plan.cast::<pg_sys::$node>()).$field.cast()),*]
            };
        }
        Some(match (*plan).type_ {
            NodeTag::T_Result => of!(Result: resconstantqual),
            NodeTag::T_ValuesScan => lists_of((*plan.cast::<pg_sys::ValuesScan>()).values_lists),
            NodeTag::T_FunctionScan => of!(FunctionScan: functions),
            NodeTag::T_TableFuncScan => of!(TableFuncScan: tablefunc),
            NodeTag::T_SampleScan => of!(SampleScan: tablesample),
            NodeTag::T_IndexScan => of!(IndexScan: indexqual, indexorderby),
            NodeTag::T_IndexOnlyScan => of!(IndexOnlyScan: indexqual, indexorderby),
            NodeTag::T_BitmapIndexScan => of!(BitmapIndexScan: indexqual),
            NodeTag::T_BitmapHeapScan => of!(BitmapHeapScan: bitmapqualorig),
            NodeTag::T_TidScan => of!(TidScan: tidquals),
            NodeTag::T_TidRangeScan => of!(TidRangeScan: tidrangequals),
            NodeTag::T_ForeignScan => of!(ForeignScan: fdw_exprs, fdw_recheck_quals),
            NodeTag::T_CustomScan => of!(CustomScan: custom_exprs, custom_scan_tlist),
            NodeTag::T_NestLoop => of!(Join: joinqual),
            NodeTag::T_MergeJoin => {
                let mut all = of!(Join: joinqual);
                all.extend(of!(MergeJoin: mergeclauses));
                all
            }
            NodeTag::T_HashJoin => {
                let mut all = of!(Join: joinqual);
                all.extend(of!(HashJoin: hashclauses, hashkeys));
                all
            }
            NodeTag::T_Hash => of!(Hash: hashkeys),
            NodeTag::T_Memoize => of!(Memoize: param_exprs),
            NodeTag::T_WindowAgg => of!(WindowAgg: startOffset, endOffset, runCondition),
            NodeTag::T_Limit => of!(Limit: limitOffset, limitCount),
            NodeTag::T_ModifyTable
            | NodeTag::T_ProjectSet
            | NodeTag::T_Append
            | NodeTag::T_MergeAppend
            | NodeTag::T_RecursiveUnion
            | NodeTag::T_BitmapAnd
            | NodeTag::T_BitmapOr
            | NodeTag::T_SeqScan
            | NodeTag::T_SubqueryScan
            | NodeTag::T_CteScan
            | NodeTag::T_NamedTuplestoreScan
            | NodeTag::T_WorkTableScan
            | NodeTag::T_Material
            | NodeTag::T_Sort
            | NodeTag::T_IncrementalSort
            | NodeTag::T_Group
            | NodeTag::T_Agg
            | NodeTag::T_Unique
            | NodeTag::T_Gather
            | NodeTag::T_GatherMerge
            | NodeTag::T_SetOp
            | NodeTag::T_LockRows => Vec::new(),
            _ => return None,
        })
    }
}

/// The lists of a list.
///
/// # Safety
/// It must be null, or a list of lists.
unsafe fn lists_of(lists: *mut List) -> Vec<*mut Node> {
    // SAFETY: the caller's promise.
    unsafe { items::<List>(lists) }
        .map(|list| list.cast())
        .collect()
}
