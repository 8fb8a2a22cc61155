//! Orders in which rows come, as the planner compares them.

use super::expression::Expression;
use super::node::items;
use core::marker::PhantomData;
use pgrx::pg_sys::{self, List, Oid, PathKey};

/// An order by some columns, the first one before the others; by none: any.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct SortOrder<'a> {
    keys: *mut List,
    kept: PhantomData<&'a List>,
}

/// A column of it.
#[derive(Clone, Copy)]
pub struct SortColumn<'a> {
    key: *mut PathKey,
    kept: PhantomData<&'a PathKey>,
}

impl<'a> SortOrder<'a> {
    /// An order that PostgreSQL hands out.
    ///
    /// # Safety
    /// `keys` must be NIL or a list of pathkeys, and valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(keys: *mut List) -> SortOrder<'a> {
        let kept = PhantomData;
        SortOrder { keys, kept }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut List {
        self.keys
    }

    /// Is it by no column?
    pub fn is_any(self) -> bool {
        self.keys.is_null()
    }

    /// Are rows in this order where they are in the other one?
    pub fn is_kept_by(self, other: SortOrder<'_>) -> bool {
        // SAFETY: valid lists.
        unsafe { pg_sys::pathkeys_contained_in(self.as_ptr(), other.as_ptr()) }
    }

    /// The columns, the first one first; none of an order that is any.
    pub fn columns(self) -> impl Iterator<Item = SortColumn<'a>> {
        let kept = PhantomData;
        // SAFETY: the handle's list is NIL or valid.
        unsafe { items(self.keys) }.map(move |key| SortColumn { key, kept })
    }
}

impl SortColumn<'_> {
    fn fields(&self) -> &PathKey {
        // SAFETY: of a valid list.
        unsafe { &*self.key }
    }

    /// The btree family by which it sorts.
    pub fn family(self) -> Oid {
        self.fields().pk_opfamily
    }

    /// The number of the operator of that family that says what comes first.
    pub fn strategy(self) -> u32 {
        self.fields().pk_strategy as u32
    }

    /// Does the greatest value come first?
    pub fn is_descending(self) -> bool {
        self.strategy() == pg_sys::BTGreaterStrategyNumber
    }

    /// Do nulls come before all values?
    pub fn has_nulls_first(self) -> bool {
        self.fields().pk_nulls_first
    }

    /// Does it sort by this expression, or by one that conditions make equal?
    pub fn is_by(self, expression: Expression<'_>) -> bool {
        // SAFETY: a pathkey has a class, which has a list of members.
        unsafe {
            let members = (*self.fields().pk_eclass).ec_members;
            items::<pg_sys::EquivalenceMember>(members)
                .any(|member| pg_sys::equal((*member).em_expr.cast(), expression.as_ptr().cast()))
        }
    }
}
