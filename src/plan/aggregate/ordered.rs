//! The node with its groups in order: in that of time, slice by slice, where a LIMIT above wants the first few of them; in that of their columns, where
//! these are such that the node sorts them faster than core.

use super::checks;
use super::join::Input;
use super::target::Target;
use crate::exec::aggregate::{class_of, rises_with, Class, Groups, KeyType, SortKey};
use crate::pg::custom_scan::{CustomPath, Private};
use crate::pg::memory;
use crate::pg::planner::Planner;
use crate::pg::planner_settings::cpu_operator_cost;
use crate::pg::sort_order::SortColumn;
use crate::pg::{types, InvalidOid, Oid};

/// Where a path has its order for the node: that of time, and that of columns.
pub const SLICES: usize = 3;
pub const KEYS: usize = 4;

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

/// Does a family order values as the integers that they are stored as?
fn is_of_integers(family: Oid) -> bool {
    [INTEGER_FAMILY, DATETIME_FAMILY].contains(&family.to_u32())
}

/// The order in which a query wants the first of its groups, if the node can put them up so. Within a guarded entry point.
pub fn order_of(
    planner: Planner<'_>,
    source: &Input<'_>,
    target: &Target<'_>,
    groups: f64,
) -> Option<Order> {
    // Of a LIMIT that is known; a share is no reason to hurry.
    let wanted = planner.tuple_fraction();
    let order = planner.group_order();
    let keys: Vec<SortColumn<'_>> = order.columns().collect();
    let ([group], [key]) = (&target.groups[..], &keys[..]) else {
        return None;
    };
    if source.join.is_some()
        || wanted < 1.0
        || wanted * ROOM >= groups
        || !planner.sort_order().is_kept_by(order)
        || class_of(group.typ()) != Class::Int
        || !is_of_integers(key.family())
    {
        return None;
    }
    let column = rises_with(*group)?;
    // A null has no place among slices.
    let is_time = checks::time_column(planner, source.table) == Some((column, true));
    is_time.then(|| Order {
        column,
        descending: key.is_descending(),
        share: (wanted * ROOM / groups).clamp(1e-6, 1.0),
    })
}

impl Order {
    /// Makes the node put its groups up in this order. The path is nobody else's.
    pub fn apply<'a>(&self, planner: Planner<'a>, path: CustomPath<'a>) {
        let numbers = vec![
            i32::from(self.column),
            i32::from(self.descending),
            (self.share * 1e6) as i32,
        ];
        path.set_private(SLICES, Private::Integers(numbers));
        let path = path.path();
        path.set_order(planner.group_order());
        let total = path.total_cost() * SLICED;
        path.set_costs(total * (2.0 * self.share).min(1.0), total);
    }
}

/// Is there memory for about so many groups twice over, as far as is known?
pub fn fits(target: &Target<'_>, groups: f64) -> bool {
    let types = target.groups.iter().map(|group| KeyType::of(group.typ()));
    2.0 * Groups::bytes_of(groups, types, target.aggregates.len()) <= memory::hash_limit() as f64
}

/// The order that core's final step wants of groups, if the node can put them up so, where memory has room for them. Within a guarded entry
/// point.
pub fn keys_of(planner: Planner<'_>, target: &Target<'_>) -> Option<Vec<SortKey>> {
    let keys = planner.group_order().columns();
    keys.map(|key| key_of(key, target)).collect()
}

fn key_of(key: SortColumn<'_>, target: &Target<'_>) -> Option<SortKey> {
    let column = target.groups.iter().position(|&group| key.is_by(group))?;
    let typ = target.groups[column].typ();
    if class_of(typ) != Class::Int || !is_of_integers(key.family()) {
        return None;
    }
    let operator = types::operator(key.family(), types::base(typ), key.strategy());
    (operator != InvalidOid).then_some(SortKey {
        column,
        operator,
        is_descending: key.is_descending(),
        has_nulls_first: key.has_nulls_first(),
    })
}

/// Makes the node put its groups up in the order of these columns. The path is nobody else's.
pub fn sort<'a>(planner: Planner<'a>, path: CustomPath<'a>, keys: &[SortKey]) {
    let numbers = keys.iter().flat_map(|key| key.numbers()).collect();
    path.set_private(KEYS, Private::Integers(numbers));
    let path = path.path();
    path.set_order(planner.group_order());
    let groups = path.rows().max(2.0);
    let cost = groups * groups.log2() * COMPARE * cpu_operator_cost();
    path.set_costs(path.startup_cost() + cost, path.total_cost() + cost);
}
