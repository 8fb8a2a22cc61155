//! Which statements get a conflict filter: those of which it can do exactly what core would. Before core looks for a row's key, it fires
//! triggers, computes columns, checks policies, constraints and the bounds of a partition: a table that has any of these
//! keeps core's way. NOT NULL is seen to by the conflict filter.

use super::node::ConflictFilter;
use crate::catalog::keys::{self, Unique};
use crate::guc;
use crate::pg::custom_scan::{path_above, path_methods_above, Shared};
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{cast, integer_list, items, list};
use crate::pg::relation::{Open, OpenIndex, Table};
use pgrx::pg_sys::{self, NodeTag};
use std::collections::BTreeSet;

unsafe fn does_nothing_on_conflict(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let query = (*root).parse;
        (*query).commandType == pg_sys::CmdType::CMD_INSERT
            && !(*query).onConflict.is_null()
            && (*(*query).onConflict).action == pg_sys::OnConflictAction::ONCONFLICT_NOTHING
    }
}

/// Puts a conflict filter above the source of an INSERT, if one can be of use there.
///
/// # Safety
/// Called by the planner's hook; all nodes belong to the planner's memory context.
pub unsafe fn offer(root: *mut pg_sys::PlannerInfo, modify: *mut pg_sys::ModifyTablePath) {
    // SAFETY: by contract.
    unsafe {
        if !does_nothing_on_conflict(root) {
            return;
        }
        let source = (*modify).subpath;
        let few = (*source).rows < guc::batch_rows() as f64;
        let has_policies = !(*modify).withCheckOptionLists.is_null();
        if few || has_policies || repeats_volatile((*source).pathtarget) {
            return;
        }
        let entry = *(*root)
            .simple_rte_array
            .add((*(*root).parse).resultRelation as usize);
        // The statement has its lock.
        let table = Open::table((*entry).relid, LockMode::Held);
        let keys = keys::of(table.rel());
        if !keys.concern_chunks() || does_more_than_insert(table.rel()) {
            return;
        }
        // With arbiters, other keys that are taken are errors.
        let conflict = (*(*root).parse).onConflict;
        let counts = |unique: &&Unique| is_arbiter(unique, conflict);
        let asked: Vec<&Unique> = keys.unique.iter().filter(counts).collect();
        // A deferrable key is no arbiter: an error.
        if asked.iter().any(|unique| !unique.immediate) {
            return;
        }
        let found: Vec<i32> = asked
            .iter()
            .filter(|unique| unique.series.is_some())
            .map(|unique| unique.index.to_u32() as i32)
            .collect();
        if !found.is_empty() {
            let relid = (*entry).relid.to_u32() as i32;
            let private = list([integer_list([relid]), integer_list(found)]);
            let methods = &raw const PATH_METHODS.0;
            let path = path_above(source, pg_sys::cpu_operator_cost, private, methods);
            (*modify).subpath = path.cast();
        }
    }
}

/// Does an INSERT of a row do anything before it looks for the row's keys, or may it end in an error?
unsafe fn does_more_than_insert(table: Table<'_>) -> bool {
    // SAFETY: the caller's contract: the table is open.
    unsafe {
        let triggers = table.triggers();
        let fires = triggers.is_some_and(|triggers| {
            triggers.trig_insert_before_row || triggers.trig_insert_instead_row
        });
        let constraints = (*table.descriptor().as_ptr()).constr.as_ref();
        let checks = constraints.is_some_and(|constraints| {
            constraints.num_check > 0 || constraints.has_generated_stored
        });
        fires || checks || table.class().relispartition
    }
}

/// Has a target list the same volatile expression twice? Its columns are told apart by their expressions, once there is a node
/// above it.
unsafe fn repeats_volatile(target: *mut pg_sys::PathTarget) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let is_volatile = |node: &*mut pg_sys::Node| pg_sys::contain_volatile_functions(*node);
        let volatile: Vec<_> = items((*target).exprs).filter(is_volatile).collect();
        let repeated = |(at, node): (usize, &*mut pg_sys::Node)| {
            let before = &volatile[..at];
            before
                .iter()
                .any(|other| pg_sys::equal(other.cast(), node.cast()))
        };
        volatile.iter().enumerate().any(repeated)
    }
}

/// Does a row do nothing if it has a taken key of this index? Of those of which it does, some may not be recognized.
unsafe fn is_arbiter(unique: &Unique, conflict: *mut pg_sys::OnConflictExpr) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let index = OpenIndex::open(unique.index, LockMode::AccessShare);
        // One that is being built may not be looked at yet.
        if !index.rel().form().indisvalid {
            return false;
        }
        if (*conflict).constraint != pg_sys::InvalidOid {
            return pg_sys::get_constraint_index((*conflict).constraint) == unique.index;
        }
        if (*conflict).arbiterElems.is_null() {
            return true;
        }
        let column_of = |element: *mut pg_sys::InferenceElem| {
            let column = cast::<pg_sys::Var>((*element).expr, NodeTag::T_Var)?;
            let any_order = (*element).infercollid == pg_sys::InvalidOid
                && (*element).inferopclass == pg_sys::InvalidOid;
            any_order.then_some((*column).varattno)
        };
        let columns: Option<BTreeSet<i16>> =
            items((*conflict).arbiterElems).map(column_of).collect();
        let of_index = unique.columns.iter().map(|&column| column as i16 + 1);
        columns == Some(of_index.collect())
    }
}

static PATH_METHODS: Shared<pg_sys::CustomPathMethods> =
    Shared(path_methods_above::<ConflictFilter>());
