//! The columns of GROUP BY, and orders by them.

use super::expression::Expression;
use super::node::{items, list};
use super::operator;
use super::planner::Planner;
use super::sort_order::SortOrder;
use core::ptr::{null_mut, NonNull};
use pgrx::pg_sys::{self, InvalidOid, Oid, SortGroupClause};

/// A column that tells groups apart.
#[derive(Clone, Copy)]
pub struct GroupColumn<'a> {
    clause: NonNull<SortGroupClause>,
    pub expression: Expression<'a>,
}

impl<'a> Planner<'a> {
    /// The columns of GROUP BY, as the query has them; none where it groups by nothing.
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

    /// The order by these columns, each of which can be sorted.
    pub fn order_by(self, columns: &[GroupColumn<'a>]) -> SortOrder<'a> {
        let clauses = list(columns.iter().map(|column| column.clause.as_ptr()));
        let root = self.as_ptr();
        // SAFETY: the query is valid, and its target entries have the columns.
        unsafe {
            let targets = (*root).processed_tlist;
            let keys = pg_sys::make_pathkeys_for_sortclauses(root, clauses, targets);
            SortOrder::from_ptr(keys)
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

    /// The function that says whether two values are equal.
    pub fn equality(self) -> Oid {
        operator::function_of(self.fields().eqop)
    }

    /// Is there an operator that says which of two values comes first?
    pub fn can_be_sorted(self) -> bool {
        self.fields().sortop != InvalidOid
    }

    /// The same column in rising order, nulls last. Raises an error where its type has no order.
    pub fn ascending(self) -> GroupColumn<'a> {
        let (mut less, none) = (InvalidOid, null_mut());
        let (typ, needs_less) = (self.expression.typ(), true);
        // SAFETY: pointers to a local or null; the copy is nobody else's.
        unsafe {
            let copy = pg_sys::copyObjectImpl(self.clause.as_ptr().cast());
            let copy: *mut SortGroupClause = copy.cast();
            pg_sys::get_sort_group_operators(
                typ,
                needs_less,
                false,
                false,
                &mut less,
                none,
                none,
                null_mut(),
            );
            (*copy).sortop = less;
            (*copy).nulls_first = false;
            GroupColumn {
                clause: NonNull::new_unchecked(copy),
                ..self
            }
        }
    }
}
