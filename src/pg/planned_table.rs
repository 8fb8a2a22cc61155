//! Relations of a query that is being planned: what FROM names, partitions of it, joins, and what stands for groups.

use super::bare;
use super::expression::Expression;
use super::node::items;
use super::path_target::PathTarget;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys;

/// A relation of a query that is being planned.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PlannedTable<'a> {
    table: NonNull<pg_sys::RelOptInfo>,
    kept: PhantomData<&'a pg_sys::RelOptInfo>,
}

/// A condition of WHERE or ON on one relation.
#[derive(Clone, Copy)]
pub struct Restriction<'a> {
    pub clause: Expression<'a>,
    /// One of a lower level is asked first.
    pub security_level: u32,
    /// It tells nobody of values: one of a lower level may be asked later. Known of levels above 0 only.
    pub is_leakproof: bool,
    /// It is the same for all rows.
    pub is_constant: bool,
    info: *mut pg_sys::RestrictInfo,
}

impl<'a> Restriction<'a> {
    /// Those of a list.
    ///
    /// # Safety
    /// `list` must be NIL or a list of conditions, and valid as long as a handle is used.
    pub(super) unsafe fn of_list(list: *mut pg_sys::List) -> impl Iterator<Item = Restriction<'a>> {
        // SAFETY: a list of conditions, each of which has a clause.
        unsafe {
            items::<pg_sys::RestrictInfo>(list).map(|info| Restriction {
                clause: Expression::from_ptr((*info).clause.cast()),
                security_level: (*info).security_level,
                is_leakproof: (*info).leakproof,
                is_constant: (*info).pseudoconstant,
                info,
            })
        }
    }

    /// For PostgreSQL's functions.
    pub(super) fn as_ptr(self) -> *mut pg_sys::RestrictInfo {
        self.info
    }
}

impl<'a> PlannedTable<'a> {
    /// A relation that PostgreSQL hands to a hook of the planner's.
    ///
    /// # Safety
    /// `table` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(table: *mut pg_sys::RelOptInfo) -> PlannedTable<'a> {
        debug_assert!(!table.is_null());
        PlannedTable {
            // SAFETY: what the caller says is valid is not null.
            table: unsafe { NonNull::new_unchecked(table) },
            kept: PhantomData,
        }
    }

    fn fields(&self) -> &pg_sys::RelOptInfo {
        // SAFETY: the handle's relation is valid.
        unsafe { self.table.as_ref() }
    }

    /// Its number in the query.
    #[inline]
    pub fn number(self) -> u32 {
        self.fields().relid
    }

    /// As many rows as conditions are thought to leave.
    #[inline]
    pub fn rows(self) -> f64 {
        self.fields().rows
    }

    /// As many as there are thought to be.
    #[inline]
    pub fn tuples(self) -> f64 {
        self.fields().tuples
    }

    /// How many pages it has.
    #[inline]
    pub fn pages(self) -> f64 {
        f64::from(self.fields().pages)
    }

    /// How many columns it has, dropped ones included.
    #[inline]
    pub fn columns(self) -> i16 {
        self.fields().max_attr
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::RelOptInfo {
        self.table.as_ptr()
    }

    /// Is it one relation of FROM or a partition, with rows of its own, and LATERAL names nothing in it?
    pub(super) fn is_plain(self) -> bool {
        (self.is_named() || self.is_partition()) && self.is_of_catalog() && !self.is_lateral()
    }

    /// Is it one that FROM names?
    pub fn is_named(self) -> bool {
        self.fields().reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
    }

    /// Is it a partition or another descendant of one that FROM names?
    pub fn is_partition(self) -> bool {
        self.fields().reloptkind == pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL
    }

    /// Is it a join of ones that FROM names?
    pub fn is_join(self) -> bool {
        self.fields().reloptkind == pg_sys::RelOptKind::RELOPT_JOINREL
    }

    /// Is it what the whole query makes of its joins, and not what it makes of a partition?
    pub fn is_upper(self) -> bool {
        self.fields().reloptkind == pg_sys::RelOptKind::RELOPT_UPPER_REL
    }

    /// Is it one of the catalog's, and no function, list of values or the like?
    pub fn is_of_catalog(self) -> bool {
        self.fields().rtekind == pg_sys::RTEKind::RTE_RELATION
    }

    /// Does LATERAL name something in it?
    pub fn is_lateral(self) -> bool {
        !self.fields().lateral_relids.is_null()
    }

    /// Are there conditions on it and others that are no equalities of the planner's classes?
    pub fn has_join_conditions(self) -> bool {
        !self.fields().joininfo.is_null()
    }

    /// Is it known to have no rows?
    pub fn is_empty(self) -> bool {
        // SAFETY: the handle's relation is valid.
        unsafe { pg_sys::is_dummy_rel(self.as_ptr()) }
    }

    /// May its rows be made in several processes?
    pub fn may_be_parallel(self) -> bool {
        self.fields().consider_parallel
    }

    /// Has the planner take its whole row for needed above the scan: a plan then has a list of those columns that are asked for, and not one
    /// of all of them, which is good for no more than to hand on rows as they are.
    pub fn need_whole_row(self) {
        let table = self.fields();
        if table.attr_needed.is_null() {
            return;
        }
        // SAFETY: the array is of columns from the least number on, which is less than 0; the set is in the planner's memory.
        unsafe {
            let whole_row = table.attr_needed.offset(-isize::from(table.min_attr));
            if (*whole_row).is_null() {
                *whole_row = pg_sys::bms_make_singleton(0);
            }
        }
    }

    /// What rows it hands up.
    pub fn target(self) -> PathTarget<'a> {
        // SAFETY: the handle's relation is valid, and has a target.
        unsafe { PathTarget::from_ptr(self.fields().reltarget) }
    }

    /// Is it divided into partitions?
    pub(super) fn is_partitioned(self) -> bool {
        !self.fields().part_scheme.is_null()
    }

    /// Has it partitions that are planned one by one?
    pub fn has_partitions(self) -> bool {
        let table = self.fields();
        self.is_partitioned()
            && !table.boundinfo.is_null()
            && table.nparts > 0
            && !table.part_rels.is_null()
            && !self.is_empty()
    }

    /// The partitions that the query does not rule out, in their order.
    pub fn live_partitions(self) -> Vec<PlannedTable<'a>> {
        let mut found = Vec::new();
        let table = self.fields();
        // SAFETY: the handle's relation is valid; members of the set are places of the array, where one is null that is not planned.
        unsafe {
            let mut at = bare::bms_next_member(table.live_parts, -1);
            while at >= 0 {
                let child = *table.part_rels.add(at as usize);
                at = bare::bms_next_member(table.live_parts, at);
                if !child.is_null() && !pg_sys::is_dummy_rel(child) {
                    found.push(PlannedTable::from_ptr(child));
                }
            }
        }
        found
    }

    /// The conditions on it alone.
    pub fn restrictions(self) -> impl Iterator<Item = Restriction<'a>> {
        // SAFETY: the handle's relation is valid, and has a list of conditions.
        unsafe { Restriction::of_list(self.fields().baserestrictinfo) }
    }
}
