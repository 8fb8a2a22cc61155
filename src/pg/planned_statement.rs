//! Plans of whole statements, as the planner has made them.

use super::node::{self, items};
use core::marker::PhantomData;
use pgrx::pg_sys::{self, NodeTag};
use std::ffi::CStr;

/// A plan that was made.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Planned<'a>(
    pub(super) *mut pg_sys::PlannedStmt,
    PhantomData<&'a pg_sys::PlannedStmt>,
);

impl Planned<'_> {
    /// # Safety
    /// It must be a plan, and valid as long as the handle is used.
    pub(super) unsafe fn from_ptr(plan: *mut pg_sys::PlannedStmt) -> Planned<'static> {
        Planned(plan, PhantomData)
    }

    /// What it costs, in the planner's units.
    pub fn cost(&self) -> f64 {
        // SAFETY: the plan is valid.
        unsafe { (*(*self.0).planTree).total_cost }
    }

    /// Is it good for later transactions and for whoever runs it, by one process, and made of nodes that are known: custom ones by their `names`?
    pub fn may_be_kept(&self, names: &[&CStr]) -> bool {
        // SAFETY: the plan is valid.
        unsafe {
            let plan = &*self.0;
            !plan.transientPlan
                && !plan.dependsOnRole
                && !plan.parallelModeNeeded
                && plan.subplans.is_null()
                && plan.rowMarks.is_null()
                && is_known(plan.planTree, names)
        }
    }

    /// Does it read no other tables than these?
    pub fn reads_only(&self, tables: &[pg_sys::Oid]) -> bool {
        // SAFETY: the plan is valid.
        unsafe {
            items::<pg_sys::RangeTblEntry>((*self.0).rtable).all(|entry| {
                (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION
                    || tables.contains(&(*entry).relid)
            })
        }
    }

    /// Has it the nodes of another one that `may_be_kept`, on the same tables and indexes?
    pub fn is_alike(&self, other: Planned<'_>) -> bool {
        // SAFETY: both are valid.
        unsafe { are_alike((*self.0).planTree, (*other.0).planTree) }
    }
}

/// The children of a node that `is_known`.
///
/// # Safety
/// It must be a node of a plan.
unsafe fn children(plan: *mut pg_sys::Plan) -> impl Iterator<Item = *mut pg_sys::Plan> {
    // SAFETY: by contract; the node's tag says what it is.
    unsafe {
        let custom = node::cast::<pg_sys::CustomScan>(plan.cast(), NodeTag::T_CustomScan);
        let of_custom = custom.map_or(core::ptr::null_mut(), |scan| (*scan).custom_plans);
        let own = [(*plan).lefttree, (*plan).righttree].into_iter();
        own.filter(|child| !child.is_null()).chain(items(of_custom))
    }
}

/// # Safety
/// As `children`.
unsafe fn is_known(plan: *mut pg_sys::Plan, names: &[&CStr]) -> bool {
    use NodeTag::*;
    // SAFETY: by contract; the node's tag says what it is.
    unsafe {
        let is_it = match (*plan).type_ {
            T_ModifyTable | T_Result | T_Limit | T_Sort | T_IncrementalSort | T_Agg | T_Group
            | T_Unique | T_Material | T_SeqScan | T_IndexScan | T_IndexOnlyScan | T_NestLoop
            | T_HashJoin | T_Hash => true,
            T_CustomScan => {
                let methods = (*plan.cast::<pg_sys::CustomScan>()).methods;
                names.contains(&CStr::from_ptr((*methods).CustomName))
            }
            _ => false,
        };
        is_it && (*plan).initPlan.is_null() && children(plan).all(|child| is_known(child, names))
    }
}

/// What a scan reads: its table's number, and an index.
///
/// # Safety
/// As `children`.
unsafe fn read(plan: *mut pg_sys::Plan) -> (u32, pg_sys::Oid) {
    use NodeTag::*;
    // SAFETY: by contract; the node's tag says what it is.
    unsafe {
        let none = pg_sys::InvalidOid;
        match (*plan).type_ {
            T_SeqScan | T_CustomScan => ((*plan.cast::<pg_sys::Scan>()).scanrelid, none),
            T_IndexScan => {
                let scan = plan.cast::<pg_sys::IndexScan>();
                ((*scan).scan.scanrelid, (*scan).indexid)
            }
            T_IndexOnlyScan => {
                let scan = plan.cast::<pg_sys::IndexOnlyScan>();
                ((*scan).scan.scanrelid, (*scan).indexid)
            }
            _ => (0, none),
        }
    }
}

/// # Safety
/// As `children`, of both.
unsafe fn are_alike(one: *mut pg_sys::Plan, other: *mut pg_sys::Plan) -> bool {
    // SAFETY: by contract.
    unsafe {
        let number_of_conditions = |plan: *mut pg_sys::Plan| items::<()>((*plan).qual).count();
        let (mut of_one, mut of_other) = (children(one), children(other));
        let mut are_children_alike = || loop {
            match (of_one.next(), of_other.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if are_alike(one, other) => {}
                _ => return false,
            }
        };
        (*one).type_ == (*other).type_
            && read(one) == read(other)
            && number_of_conditions(one) == number_of_conditions(other)
            && are_children_alike()
    }
}
