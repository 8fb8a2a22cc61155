//! By what groups are put in order.

use super::fold::int_of;
use super::groups::Groups;
use crate::pg::{Datum, Oid};
use std::cmp::Ordering;

/// A column by which groups are sorted, of those whose order is that of the integers they are stored as.
#[derive(Clone, Copy)]
pub struct SortKey {
    /// Of the group columns, from 0.
    pub column: usize,
    /// That tells the order.
    pub operator: Oid,
    pub is_descending: bool,
    pub has_nulls_first: bool,
}

impl SortKey {
    /// As a plan has it.
    pub fn numbers(self) -> [i32; 4] {
        [
            self.column as i32,
            self.operator.to_u32() as i32,
            i32::from(self.is_descending),
            i32::from(self.has_nulls_first),
        ]
    }

    /// From the numbers that a plan has of all of them.
    pub fn of(numbers: &[i32]) -> Vec<SortKey> {
        let (keys, _) = numbers.as_chunks();
        keys.iter()
            .map(
                |&[column, operator, is_descending, has_nulls_first]| SortKey {
                    column: column as usize,
                    operator: Oid::from(operator as u32),
                    is_descending: is_descending != 0,
                    has_nulls_first: has_nulls_first != 0,
                },
            )
            .collect()
    }

    fn value(self, groups: &Groups, group: u32) -> (Datum, bool) {
        groups.values[group as usize * groups.columns() + self.column]
    }

    /// A number that is less for a group that comes before another one here, unless one of them has a null, whose number is the least or the
    /// greatest of all; and whether it has.
    pub fn rank(self, groups: &Groups, group: u32) -> (u64, bool) {
        let (value, isnull) = self.value(groups, group);
        let rank = match isnull {
            true if self.has_nulls_first => u64::MIN,
            true => u64::MAX,
            false => {
                let rank = int_of(value, groups.length(self.column)) as u64 ^ 1 << 63;
                match self.is_descending {
                    true => !rank,
                    false => rank,
                }
            }
        };
        (rank, isnull)
    }

    /// How the values that two groups have here compare.
    pub fn compare(self, groups: &Groups, one: u32, other: u32) -> Ordering {
        let length = groups.length(self.column);
        let (one, one_null) = self.value(groups, one);
        let (other, other_null) = self.value(groups, other);
        match (one_null, other_null) {
            (true, true) => Ordering::Equal,
            (false, false) => {
                let order = int_of(one, length).cmp(&int_of(other, length));
                match self.is_descending {
                    true => order.reverse(),
                    false => order,
                }
            }
            (is_first, _) if is_first == self.has_nulls_first => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
}
