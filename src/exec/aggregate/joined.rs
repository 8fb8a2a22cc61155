//! The other side of a join, whose values choose rows by one column. It runs first. Under an inner join a value that comes several times has
//! its rows counted as often: by as many passes over the table, each with the values that are left.

use super::conditions::Bounded;
use super::fold::int_of;
use super::lanes::{class_of, Class};
use crate::pg::custom_scan::rescan_source;
use crate::pg::executor;
use crate::pg::node::{items, list};
use crate::pg::relation::Table;
use crate::pg::varlena::with_body;
use pgrx::pg_sys::{self, Oid};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A join of a plan.
#[derive(Clone, Copy)]
pub struct JoinPart {
    /// Column of the table, from 0.
    pub at: usize,
    is_semi: bool,
    /// Type of the value.
    typ: Oid,
    /// Column of the child, from 0.
    place: usize,
}

impl JoinPart {
    /// From the numbers that a plan has of it.
    pub fn of(numbers: &[i32]) -> Option<JoinPart> {
        match *numbers {
            [] => None,
            [column, is_semi, typ, place] => Some(JoinPart {
                at: column as usize - 1,
                is_semi: is_semi != 0,
                typ: Oid::from(typ as u32),
                place: place as usize - 1,
            }),
            _ => panic!("BUG: a join of {} numbers", numbers.len()),
        }
    }
}

/// A join that runs.
pub struct Joined {
    part: JoinPart,
    class: Class,
    child: *mut pg_sys::PlanState,
    /// Conditions of the passes that are left, the next one at the end.
    passes: Vec<Bounded>,
}

impl Joined {
    /// # Safety
    /// `node` must be a node of ours that begins, with its table open; inside a guarded entry point.
    pub unsafe fn begin(
        node: *mut pg_sys::CustomScanState,
        part: JoinPart,
        estate: *mut pg_sys::EState,
        flags: i32,
    ) -> Joined {
        // SAFETY: by contract; the plan has a child.
        unsafe {
            let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
            let plan = items::<pg_sys::Plan>((*scan).custom_plans).next();
            let plan = plan.unwrap_or(core::ptr::null_mut());
            let child = pg_sys::ExecInitNode(plan, estate, flags);
            (*node).custom_ps = list([child]);
            let table = Table::from_ptr((*node).ss.ss_currentRelation);
            let class = class_of(table.attributes()[part.at].atttypid);
            Joined {
                part,
                class,
                child,
                passes: Vec::new(),
            }
        }
    }

    /// Runs the other side.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn read(&mut self) {
        // SAFETY: by contract; the child's column is of the type that the plan says.
        unsafe {
            let length = pg_sys::get_typlen(self.part.typ);
            let (mut ints, mut bodies) = (FxHashMap::default(), FxHashMap::default());
            loop {
                let slot = executor::next_row(self.child);
                if executor::is_empty(slot) {
                    break;
                }
                let (values, nulls) = executor::attributes(slot, self.part.place + 1);
                if nulls[self.part.place] {
                    continue;
                }
                let value = values[self.part.place];
                match self.class {
                    Class::Int => count(&mut ints, int_of(value, length)),
                    _ => count(&mut bodies, with_body(value, -1, <[u8]>::to_vec)),
                }
            }
            let is_semi = self.part.is_semi;
            self.passes = match self.class {
                Class::Int => passes(ints, is_semi).map(Bounded::Ints).collect(),
                _ => passes(bodies, is_semi).map(Bounded::Bytes).collect(),
            };
            self.passes.reverse();
        }
    }

    /// The condition of the next pass over the table.
    pub fn next_pass(&mut self) -> Option<Bounded> {
        self.passes.pop()
    }

    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn rescan(&mut self, node: *mut pg_sys::CustomScanState) {
        self.passes.clear();
        // SAFETY: by contract.
        unsafe { rescan_source(node, self.child) };
    }

    /// # Safety
    /// As `rescan`; the last call.
    pub unsafe fn end(&mut self) {
        self.passes = Vec::new();
        // SAFETY: by contract.
        unsafe { pg_sys::ExecEndNode(self.child) };
    }
}

fn count<T: Hash + Eq>(all: &mut FxHashMap<T, u32>, value: T) {
    let times = all.entry(value).or_insert(0);
    *times = times.saturating_add(1);
}

/// The values of each pass, in order: of pass n those that come at least n times.
fn passes<T: Ord + Clone + Hash>(
    counted: FxHashMap<T, u32>,
    is_semi: bool,
) -> impl Iterator<Item = Vec<T>> {
    let mut counted: Vec<(T, u32)> = counted.into_iter().collect();
    counted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut pass = 0;
    core::iter::from_fn(move || {
        pass += 1;
        counted.retain(|(_, times)| *times >= pass && (pass == 1 || !is_semi));
        let values: Vec<T> = counted.iter().map(|(value, _)| value.clone()).collect();
        (!values.is_empty()).then_some(values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_as_many_passes_as_it_comes_times() {
        let mut counted = FxHashMap::default();
        for value in [3, 1, 3, 2, 3, 1] {
            count(&mut counted, value);
        }
        let all: Vec<_> = passes(counted.clone(), false).collect();
        assert_eq!(all, [vec![1, 2, 3], vec![1, 3], vec![3]]);
        let once: Vec<_> = passes(counted, true).collect();
        assert_eq!(once, [vec![1, 2, 3]]);
        assert_eq!(passes(FxHashMap::<i64, u32>::default(), false).count(), 0);
    }
}
