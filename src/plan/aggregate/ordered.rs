//! The node with its groups in order: in that of time, slice by slice, where a LIMIT above wants the first few of them; in that of their columns, where
//! these are such that the node sorts them faster than core.

use super::checks;
use super::join::Input;
use super::target::Target;
use crate::exec::aggregate::{class_of, rises_with, Class, Groups, SortKey};
use crate::pg::expression::Expression;
use crate::pg::node::{integer_list, items, list};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::types;
use pgrx::pg_sys;

/// Operator families whose order is that of the integers which values are stored as.
const INTEGER_FAMILY: u32 = 1976;
const DATETIME_FAMILY: u32 = 434;

/// The first slice has room for so many times the groups that are wanted.
const ROOM: f64 = 1.5;
/// What it costs to compare two groups, in operators.
const COMPARE: f64 = 0.1;
/// What reading slice by slice costs, against reading at once.
const SLICED: f64 = 1.3;

/// Groups by one expression that never falls where time rises.
pub struct Order {
    /// The time column, from 1.
    column: i16,
    descending: bool,
    /// The share of all groups that is wanted.
    share: f64,
}

/// The order in which a query wants the first of its groups, if the node can put them up so.
///
/// # Safety
/// Called by the planner's hook.
pub unsafe fn order_of(
    root: *mut pg_sys::PlannerInfo,
    source: &Input,
    target: &Target,
    groups: f64,
) -> Option<Order> {
    // SAFETY: by contract.
    unsafe {
        // Of a LIMIT that is known; a share is no reason to hurry.
        let wanted = (*root).tuple_fraction;
        let keys: Vec<*mut pg_sys::PathKey> = items((*root).group_pathkeys).collect();
        let ([group], [key]) = (&target.groups[..], &keys[..]) else {
            return None;
        };
        if source.join.is_some()
            || wanted < 1.0
            || wanted * ROOM >= groups
            || !pg_sys::pathkeys_contained_in((*root).sort_pathkeys, (*root).group_pathkeys)
            || class_of(pg_sys::exprType(*group)) != Class::Int
            || ![INTEGER_FAMILY, DATETIME_FAMILY].contains(&(**key).pk_opfamily.to_u32())
        {
            return None;
        }
        let column = rises_with(Expression::from_ptr(*group))?;
        // A null has no place among slices.
        let (planner, table) = (
            Planner::from_ptr(root),
            PlannedTable::from_ptr(source.table),
        );
        let is_time = checks::time_column(planner, table) == Some((column, true));
        is_time.then(|| Order {
            column,
            descending: (**key).pk_strategy == pg_sys::BTGreaterStrategyNumber as i32,
            share: (wanted * ROOM / groups).clamp(1e-6, 1.0),
        })
    }
}

impl Order {
    /// Makes the node put its groups up in this order.
    ///
    /// # Safety
    /// As `order_of`; the path is nobody else's.
    pub unsafe fn apply(&self, root: *mut pg_sys::PlannerInfo, path: *mut pg_sys::CustomPath) {
        // SAFETY: by contract.
        unsafe {
            let mut private: Vec<*mut pg_sys::List> = items((*path).custom_private).collect();
            private[3] = integer_list([
                i32::from(self.column),
                i32::from(self.descending),
                (self.share * 1e6) as i32,
            ]);
            (*path).custom_private = list(private);
            let path = &raw mut (*path).path;
            (*path).pathkeys = (*root).group_pathkeys;
            (*path).total_cost *= SLICED;
            (*path).startup_cost = (*path).total_cost * (2.0 * self.share).min(1.0);
        }
    }
}

/// Is there memory for about so many groups twice over, as far as is known?
///
/// # Safety
/// Called by the planner's hook.
pub unsafe fn fits(target: &Target, groups: f64) -> bool {
    let bytes = Groups::bytes_of(groups, target.groups.len(), target.aggregates.len());
    // SAFETY: looks at settings.
    2.0 * bytes <= unsafe { pg_sys::get_hash_memory_limit() } as f64
}

/// The order that core's final step wants of groups, if the node can put them up so, where memory has room for them.
///
/// # Safety
/// Called by the planner's hook.
pub unsafe fn keys_of(root: *mut pg_sys::PlannerInfo, target: &Target) -> Option<Vec<SortKey>> {
    // SAFETY: by contract.
    unsafe {
        let keys = items::<pg_sys::PathKey>((*root).group_pathkeys);
        keys.map(|key| key_of(key, target)).collect()
    }
}

unsafe fn key_of(key: *mut pg_sys::PathKey, target: &Target) -> Option<SortKey> {
    // SAFETY: the caller's contract.
    unsafe {
        let members = || items::<pg_sys::EquivalenceMember>((*(*key).pk_eclass).ec_members);
        let is_key = |group: &*mut pg_sys::Node| {
            members().any(|member| pg_sys::equal((*member).em_expr.cast(), group.cast()))
        };
        let column = target.groups.iter().position(is_key)?;
        let typ = pg_sys::exprType(target.groups[column]);
        if class_of(typ) != Class::Int
            || ![INTEGER_FAMILY, DATETIME_FAMILY].contains(&(*key).pk_opfamily.to_u32())
        {
            return None;
        }
        let (typ, strategy) = (types::base(typ), (*key).pk_strategy);
        let operator = pg_sys::get_opfamily_member((*key).pk_opfamily, typ, typ, strategy as i16);
        (operator != pg_sys::InvalidOid).then_some(SortKey {
            column,
            operator,
            is_descending: strategy == pg_sys::BTGreaterStrategyNumber as i32,
            has_nulls_first: (*key).pk_nulls_first,
        })
    }
}

/// Makes the node put its groups up in the order of these columns.
///
/// # Safety
/// As `keys_of`; the path is nobody else's.
pub unsafe fn sort(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::CustomPath,
    keys: &[SortKey],
) {
    // SAFETY: by contract.
    unsafe {
        let mut private: Vec<*mut pg_sys::List> = items((*path).custom_private).collect();
        private[4] = integer_list(keys.iter().flat_map(|key| key.numbers()));
        (*path).custom_private = list(private);
        let path = &raw mut (*path).path;
        (*path).pathkeys = (*root).group_pathkeys;
        let groups = (*path).rows.max(2.0);
        let cost = groups * groups.log2() * COMPARE * pg_sys::cpu_operator_cost;
        (*path).startup_cost += cost;
        (*path).total_cost += cost;
    }
}
