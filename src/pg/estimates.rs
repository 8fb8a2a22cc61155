//! What the planner reckons: how many rows conditions leave, how many different values there are, what evaluating costs, and how many workers
//! a table is worth.

use super::expression::Expression;
use super::node::{items, list};
use super::path_target::Evaluating;
use super::planned_table::{PlannedTable, Restriction};
use super::planner::Planner;
use core::ptr::null_mut;
use pgrx::pg_sys;

impl<'a> Planner<'a> {
    /// The share of a table's rows that those of its conditions leave that are `wanted`.
    pub fn share(self, table: PlannedTable<'a>, wanted: impl Fn(Expression<'a>) -> bool) -> f64 {
        // SAFETY: valid handles; a table has a list of conditions.
        unsafe {
            let infos = items::<pg_sys::RestrictInfo>((*table.as_ptr()).baserestrictinfo);
            let clauses = infos.filter(|info| wanted(Expression::from_ptr((**info).clause.cast())));
            let (clauses, number) = (list(clauses), table.number() as i32);
            let join = pg_sys::JoinType::JOIN_INNER;
            pg_sys::clauselist_selectivity(self.as_ptr(), clauses, number, join, null_mut())
        }
    }

    /// How many combinations of values these expressions have in so many rows.
    pub fn combinations(self, of: &[Expression<'_>], rows: f64) -> f64 {
        let of = list(of.iter().map(|expression| expression.as_ptr()));
        // SAFETY: valid handles.
        unsafe { pg_sys::estimate_num_groups(self.as_ptr(), of, rows, null_mut(), null_mut()) }
    }

    /// What it costs to evaluate conditions.
    pub fn cost_of<'c>(self, conditions: impl IntoIterator<Item = Expression<'c>>) -> Evaluating {
        let conditions = list(conditions.into_iter().map(|condition| condition.as_ptr()));
        let mut cost = pg_sys::QualCost::default();
        // SAFETY: valid handles, and a pointer to a local.
        unsafe { pg_sys::cost_qual_eval(&mut cost, conditions, self.as_ptr()) };
        cost.into()
    }

    /// The same of one on a relation, which the planner remembers.
    pub fn cost_of_restriction(self, condition: Restriction<'a>) -> Evaluating {
        let mut cost = pg_sys::QualCost::default();
        // SAFETY: as above.
        unsafe {
            pg_sys::cost_qual_eval_node(&mut cost, condition.as_ptr().cast(), self.as_ptr());
        }
        cost.into()
    }
}

impl PlannedTable<'_> {
    /// How many workers may share its pages, beside the leader.
    pub fn workers(self) -> i32 {
        let (pages, of_no_index) = (self.pages(), -1.0);
        // SAFETY: a valid handle; a setting.
        unsafe {
            let most = pg_sys::max_parallel_workers_per_gather;
            pg_sys::compute_parallel_worker(self.as_ptr(), pages, of_no_index, most)
        }
    }
}
