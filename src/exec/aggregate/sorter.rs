//! Groups that go up in the order of their columns, so that core's final step needs no sort below it. Those that memory holds are put in order where
//! they are; where there are more, all of them go through a sort of core's.

use super::chunk::Work;
use super::emit::Emitter;
use super::groups::Groups;
use super::packed_ranks::pack;
use super::sort_key::SortKey;
use crate::pg::custom_scan::NodeState;
use crate::pg::row_slot::RowSlot;
use crate::pg::row_sort::{RowSort, SortColumn};
use std::cmp::Ordering;

/// What puts the groups of an execution in order.
pub struct Sorter {
    keys: Vec<SortKey>,
    /// None before memory is full.
    sort: Option<RowSort>,
    /// For rows that come from it, and from the next one.
    slot: Option<RowSlot>,
}

impl Sorter {
    /// None where a plan wants no order.
    pub fn new(keys: &[SortKey]) -> Option<Sorter> {
        (!keys.is_empty()).then(|| Sorter {
            keys: keys.to_vec(),
            sort: None,
            slot: None,
        })
    }

    /// The groups in order; empty where they were met in it.
    pub fn order(&self, groups: &Groups) -> Vec<u32> {
        let Some((&first, others)) = self.keys.split_first() else {
            return Vec::new();
        };
        let mut any_null = false;
        let mut rank = |key: SortKey, group| {
            let (rank, isnull) = key.rank(groups, group);
            any_null |= isnull;
            rank
        };
        // By two columns, as a rule.
        let second = others.first().copied();
        let ranks = |group| {
            let second = second.map_or(0, |second| rank(second, group));
            ([rank(first, group), second], group)
        };
        let mut all: Vec<([u64; 2], u32)> = (0..groups.count() as u32).map(ranks).collect();
        let others = others.get(1..).unwrap_or_default();
        let by_columns = |keys: &[SortKey], one: u32, other: u32| {
            let mut orders = keys.iter().map(|key| key.compare(groups, one, other));
            let decides = orders.find(|order| order.is_ne());
            decides.unwrap_or(Ordering::Equal)
        };
        // A null may have the number of a value, which only the columns tell from it.
        let compare = |one: &([u64; 2], u32), other: &([u64; 2], u32)| match any_null {
            true => one.0[0]
                .cmp(&other.0[0])
                .then_with(|| by_columns(&self.keys, one.1, other.1)),
            false => (one.0.cmp(&other.0)).then_with(|| by_columns(others, one.1, other.1)),
        };
        if all.is_sorted_by(|one, other| compare(one, other).is_le()) {
            return Vec::new();
        }
        let packed = match any_null || !others.is_empty() {
            true => None,
            false => pack(&all),
        };
        if let Some(mut packed) = packed {
            packed.sort_unstable();
            return packed.into_iter().map(|one| one as u32).collect();
        }
        all.sort_unstable_by(compare);
        all.into_iter().map(|(_, group)| group).collect()
    }

    /// Has memory been full?
    pub fn has_spilled(&self) -> bool {
        self.sort.is_some()
    }

    /// Hands all groups on to core's sort.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node, of which the emitter is; the groups may be forgotten then.
    pub unsafe fn spill(&mut self, node: NodeState, emitter: &mut Emitter, work: &Work) {
        // SAFETY: by contract: the emitter's rows have the columns that the plan names.
        unsafe {
            let (slot, keys) = (&mut self.slot, &self.keys);
            let sort = self.sort.get_or_insert_with(|| {
                let slot = slot.get_or_insert_with(|| RowSort::slot(node, emitter.slot()));
                let columns: Vec<SortColumn> = keys.iter().map(column_of).collect();
                RowSort::begin(node, *slot, &columns)
            });
            for group in 0..work.groups.count() {
                sort.put(emitter.fill(work, group));
            }
        }
    }

    /// All groups are there.
    ///
    /// # Safety
    /// As `spill`, which was called.
    pub unsafe fn finish(&mut self) {
        let sort = self.sort.as_mut().expect("BUG: nothing was sorted");
        // SAFETY: by contract.
        unsafe { sort.finish() }
    }

    /// The next row in order, if there is one.
    ///
    /// # Safety
    /// As `finish`, which was called.
    pub unsafe fn next(&mut self, emitter: &Emitter) -> Option<RowSlot> {
        // SAFETY: by contract.
        unsafe {
            let row = self.sort.as_mut()?.next()?;
            let (values, nulls) = row.attributes(row.columns());
            let columns = values.iter().copied().zip(nulls.iter().copied());
            Some(emitter.show(columns))
        }
    }

    /// Lets go of what was sorted. Inside a guarded entry point of the node.
    pub fn end(&mut self) {
        if let Some(sort) = self.sort.take() {
            sort.end();
        }
    }
}

fn column_of(key: &SortKey) -> SortColumn {
    SortColumn {
        number: key.column as i16 + 1,
        operator: key.operator,
        has_nulls_first: key.has_nulls_first,
    }
}
