//! Why the groups of a query are core's to fold, for EXPLAIN.

use crate::pg::aggregation::Definition;
use crate::pg::node::{cast, items, name};
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

/// The reason, as a node; null where there are no groups, or they might be folded by us.
///
/// # Safety
/// Called by the planner's hook.
pub unsafe fn of(root: *mut pg_sys::PlannerInfo) -> *mut Node {
    // SAFETY: by contract; the text is copied.
    unsafe {
        let query = (*root).parse;
        let mut found: Option<CString> = None;
        if !(*query).groupingSets.is_null() {
            found = Some(c"grouping sets".to_owned());
        } else if (*query).hasAggs {
            let context = (&raw mut found).cast();
            search((*root).processed_tlist.cast(), context);
            search((*query).havingQual, context);
        }
        match found {
            Some(text) => pg_sys::makeString(name(&text)).cast(),
            None => core::ptr::null_mut(),
        }
    }
}

/// Looks for an aggregate that has no partial form.
#[pg_guard]
unsafe extern "C-unwind" fn search(node: *mut Node, found: *mut core::ffi::c_void) -> bool {
    // SAFETY: called on nodes of a query's expressions.
    unsafe {
        if node.is_null() {
            return false;
        }
        if let Some(aggregate) = cast::<pg_sys::Aggref>(node, NodeTag::T_Aggref) {
            let reason = of_aggregate(aggregate);
            let is_found = reason.is_some();
            if is_found {
                *found.cast::<Option<CString>>() = reason;
            }
            return is_found;
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            pg_sys::expression_tree_walker(node, Some(search), found)
        })
    }
}

unsafe fn of_aggregate(aggregate: *mut pg_sys::Aggref) -> Option<CString> {
    // SAFETY: the caller's contract.
    unsafe {
        let called = pg_sys::get_func_name((*aggregate).aggfnoid);
        if called.is_null() {
            return None;
        }
        let called = CStr::from_ptr(called).to_string_lossy();
        let is_set = (*aggregate).aggkind as u8 != b'n';
        let text = if !is_set && items::<Node>((*aggregate).aggdistinct).next().is_some() {
            format!("{called} has DISTINCT")
        } else if !is_set && items::<Node>((*aggregate).aggorder).next().is_some() {
            format!("{called} has ORDER BY")
        } else if is_set || Definition::of((*aggregate).aggfnoid).combine == pg_sys::InvalidOid {
            format!("{called} has no combine function")
        } else {
            return None;
        };
        CString::new(text).ok()
    }
}
