//! The columns of GROUP BY.

use super::expression::Expression;
use super::node::items;
use super::planner::Planner;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, SortGroupClause};

/// A column that tells groups apart.
#[derive(Clone, Copy)]
pub struct GroupColumn<'a> {
    clause: NonNull<SortGroupClause>,
    pub expression: Expression<'a>,
}

impl<'a> Planner<'a> {
    pub fn group_columns(self) -> Vec<GroupColumn<'a>> {
        // SAFETY: the query is valid, and has lists of clauses and of target entries that these refer to.
        unsafe {
            let root = self.as_ptr();
            let clauses = items::<SortGroupClause>((*(*root).parse).groupClause);
            let column = |clause| {
                let column = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
                GroupColumn {
                    clause: NonNull::new_unchecked(clause),
                    expression: Expression::from_ptr(column),
                }
            };
            clauses.map(column).collect()
        }
    }
}

impl<'a> GroupColumn<'a> {
    fn fields(&self) -> &SortGroupClause {
        // SAFETY: of a list of the query's, or a copy in the planner's memory.
        unsafe { self.clause.as_ref() }
    }

    /// By what the query refers to it.
    pub fn reference(self) -> u32 {
        self.fields().tleSortGroupRef
    }
}
