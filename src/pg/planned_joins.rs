//! Joins of a query that is being planned.

use super::bare;
use super::expression::Expression;
use super::join_tree::JoinKind;
use super::node::items;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use core::marker::PhantomData;
use pgrx::pg_sys::{self, SpecialJoinInfo};

/// A join that is no inner one.
#[derive(Clone, Copy)]
pub struct SpecialJoin<'a> {
    info: *mut SpecialJoinInfo,
    kept: PhantomData<&'a SpecialJoinInfo>,
}

impl SpecialJoin<'_> {
    fn fields(&self) -> &SpecialJoinInfo {
        // SAFETY: of a list of the planner's.
        unsafe { &*self.info }
    }

    /// Of which rows it has some.
    pub fn kind(self) -> JoinKind {
        JoinKind::of(self.fields().jointype)
    }

    /// Is it written between these two relations, and no more?
    pub fn is_between(self, left: PlannedTable<'_>, right: PlannedTable<'_>) -> bool {
        let info = self.fields();
        // SAFETY: valid sets.
        unsafe {
            pg_sys::bms_equal(info.syn_lefthand, (*left.as_ptr()).relids)
                && pg_sys::bms_equal(info.syn_righthand, (*right.as_ptr()).relids)
        }
    }
}

impl<'a> Planner<'a> {
    /// The joins of a query that are no inner ones.
    pub fn special_joins(self) -> impl Iterator<Item = SpecialJoin<'a>> {
        let kept = PhantomData;
        // SAFETY: the handle's query is valid, and has a list of such.
        unsafe { items((*self.as_ptr()).join_info_list) }
            .map(move |info| SpecialJoin { info, kept })
    }

    /// Are there expressions that are evaluated below an outer join?
    pub fn has_place_holders(self) -> bool {
        // SAFETY: the handle's query is valid.
        unsafe { !(*self.as_ptr()).placeholder_list.is_null() }
    }

    /// What a join joins, in the order of their numbers; None for what has a number and is no relation, as an outer join.
    pub fn members(self, join: PlannedTable<'a>) -> Vec<Option<PlannedTable<'a>>> {
        let mut found = Vec::new();
        // SAFETY: valid handles.
        unsafe {
            let relids = (*join.as_ptr()).relids;
            let mut at = bare::bms_next_member(relids, -1);
            while at >= 0 {
                found.push(self.table(at as u32));
                at = bare::bms_next_member(relids, at);
            }
        }
        found
    }

    /// The equalities between the two sides of a join that follow from the planner's classes.
    pub fn implied_equalities(
        self,
        join: PlannedTable<'a>,
        outer: PlannedTable<'a>,
        inner: PlannedTable<'a>,
    ) -> Vec<Expression<'a>> {
        let root = self.as_ptr();
        // SAFETY: valid handles; what comes out is a list of conditions in the planner's memory.
        unsafe {
            let (both, outer) = ((*join.as_ptr()).relids, (*outer.as_ptr()).relids);
            let inner = inner.as_ptr();
            #[cfg(feature = "pg15")]
            let found = pg_sys::generate_join_implied_equalities(root, both, outer, inner);
            #[cfg(feature = "pg17")]
            let found = {
                let no_join = core::ptr::null_mut();
                pg_sys::generate_join_implied_equalities(root, both, outer, inner, no_join)
            };
            items::<pg_sys::RestrictInfo>(found)
                .map(|info| Expression::from_ptr((*info).clause.cast()))
                .collect()
        }
    }
}
