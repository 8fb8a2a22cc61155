//! Indexes of the tables of a query that is being planned.

use super::node::items;
use super::planned_table::PlannedTable;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Oid};
use smallvec::SmallVec;

/// An index that the planner knows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PlannedIndex<'a> {
    index: NonNull<pg_sys::IndexOptInfo>,
    kept: PhantomData<&'a pg_sys::IndexOptInfo>,
}

impl<'a> PlannedIndex<'a> {
    /// An index that PostgreSQL hands to a hook of the planner's.
    ///
    /// # Safety
    /// `index` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(index: *mut pg_sys::IndexOptInfo) -> PlannedIndex<'a> {
        debug_assert!(!index.is_null());
        PlannedIndex {
            // SAFETY: what the caller says is valid is not null.
            index: unsafe { NonNull::new_unchecked(index) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::IndexOptInfo {
        self.index.as_ptr()
    }

    fn fields(&self) -> &pg_sys::IndexOptInfo {
        // SAFETY: the handle's index is valid.
        unsafe { self.index.as_ref() }
    }

    /// Its OID, which is no relation's where it is hypothetical.
    pub fn oid(self) -> Oid {
        self.fields().indexoid
    }

    /// The OID of its access method.
    pub fn access_method(self) -> Oid {
        self.fields().relam
    }

    /// The table that it is of.
    pub fn table(self) -> PlannedTable<'a> {
        // SAFETY: the handle's index is valid, and is one of a table's.
        unsafe { PlannedTable::from_ptr(self.fields().rel) }
    }

    /// How many pages it has.
    pub fn pages(self) -> f64 {
        f64::from(self.fields().pages)
    }

    /// Is there no such index, and somebody asks what it would be good for?
    pub fn is_hypothetical(self) -> bool {
        self.fields().hypothetical
    }

    /// Are no two rows equal in its key columns?
    pub fn is_unique(self) -> bool {
        self.fields().unique
    }

    /// Is one of its columns an expression?
    pub fn has_expressions(self) -> bool {
        !self.fields().indexprs.is_null()
    }

    /// Does it have some of the table's rows only?
    pub fn is_partial(self) -> bool {
        !self.fields().indpred.is_null()
    }

    /// How many key columns it has.
    pub fn keys(self) -> usize {
        self.fields().nkeycolumns as usize
    }

    /// The column of the table, from 1, that a key column, from 0, is; 0 for an expression, less for a system column.
    pub fn key_column(self, at: usize) -> Option<i32> {
        // SAFETY: an index has as many columns as it says.
        (at < self.keys()).then(|| unsafe { *self.fields().indexkeys.add(at) })
    }

    /// All of these.
    pub fn key_columns(self) -> Vec<i32> {
        (0..self.keys())
            .filter_map(|at| self.key_column(at))
            .collect()
    }

    /// Has the planner make no path of it. It stays for what else is asked of an index.
    pub fn make_no_paths(self) {
        // SAFETY: the handle's index is valid, and the planner's own.
        unsafe {
            let index = self.as_ptr();
            (*index).amhasgettuple = false;
            (*index).amhasgetbitmap = false;
            // Core makes paths for parallel index scans whatever amhasgettuple says.
            (*index).amcanparallel = false;
        }
    }
}

impl<'a> PlannedTable<'a> {
    /// Its indexes.
    pub fn indexes(self) -> SmallVec<[PlannedIndex<'a>; 4]> {
        // SAFETY: the handle's relation is valid, and has a list of indexes.
        unsafe {
            items::<pg_sys::IndexOptInfo>((*self.as_ptr()).indexlist)
                .map(|index| PlannedIndex::from_ptr(index))
                .collect()
        }
    }

    /// Takes an index out of those that the planner knows.
    pub fn forget_index(self, index: PlannedIndex<'_>) {
        // SAFETY: the handle's relation is valid, and has a list of indexes; the index itself stays.
        unsafe {
            let list = &raw mut (*self.as_ptr()).indexlist;
            *list = pg_sys::list_delete_ptr(*list, index.as_ptr().cast());
        }
    }

    /// May an index of it or its partitioning be by an expression?
    pub fn may_use_expressions(self) -> bool {
        let by_expression = |index: PlannedIndex<'_>| index.has_expressions() || index.is_partial();
        self.is_partitioned() || self.indexes().into_iter().any(by_expression)
    }
}
