//! Ways in which the rows of a relation may be made, of which the planner takes the cheapest.

use super::node::{cast, items};
use super::path_target::PathTarget;
use super::planned_table::PlannedTable;
use super::sort_order::SortOrder;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, NodeTag};

/// A path. What is set of it is what the planner chooses by, and what the plan then says.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Path<'a> {
    path: NonNull<pg_sys::Path>,
    kept: PhantomData<&'a pg_sys::Path>,
}

impl<'a> Path<'a> {
    /// A path that PostgreSQL hands out.
    ///
    /// # Safety
    /// `path` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(path: *mut pg_sys::Path) -> Path<'a> {
        debug_assert!(!path.is_null());
        Path {
            // SAFETY: what the caller says is valid is not null.
            path: unsafe { NonNull::new_unchecked(path) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::Path {
        self.path.as_ptr()
    }

    fn fields(&self) -> &pg_sys::Path {
        // SAFETY: the handle's path is valid.
        unsafe { self.path.as_ref() }
    }

    /// Changes it in place.
    fn change(self, change: impl FnOnce(&mut pg_sys::Path)) {
        // SAFETY: the handle's path is valid; nobody refers to it meanwhile.
        change(unsafe { &mut *self.as_ptr() });
    }

    /// The relation whose rows it makes.
    pub fn table(self) -> PlannedTable<'a> {
        // SAFETY: the handle's path is valid, and is of a relation.
        unsafe { PlannedTable::from_ptr(self.fields().parent) }
    }

    /// What it hands up.
    pub fn target(self) -> PathTarget<'a> {
        // SAFETY: the handle's path is valid, and has a target.
        unsafe { PathTarget::from_ptr(self.fields().pathtarget) }
    }

    /// Has it hand up something else, which its node must be able to make.
    pub fn set_target(self, target: PathTarget<'a>) {
        self.change(|path| path.pathtarget = target.as_ptr());
    }

    /// How many rows it is thought to make; of one of several processes, a process's share.
    pub fn rows(self) -> f64 {
        self.fields().rows
    }

    /// Says how many.
    pub fn set_rows(self, rows: f64) {
        self.change(|path| path.rows = rows);
    }

    /// What it costs until the first row comes.
    pub fn startup_cost(self) -> f64 {
        self.fields().startup_cost
    }

    /// What it costs until the last row has come.
    pub fn total_cost(self) -> f64 {
        self.fields().total_cost
    }

    /// Says what it costs until the first row, and until the last one.
    pub fn set_costs(self, startup: f64, total: f64) {
        self.change(|path| (path.startup_cost, path.total_cost) = (startup, total));
    }

    /// The order in which its rows come.
    pub fn order(self) -> SortOrder<'a> {
        // SAFETY: the handle's path is valid, and has a list of pathkeys.
        unsafe { SortOrder::from_ptr(self.fields().pathkeys) }
    }

    /// Says in which order its rows come, which its node must see to.
    pub fn set_order(self, order: SortOrder<'a>) {
        self.change(|path| path.pathkeys = order.as_ptr());
    }

    /// Does it need values from relations that it is joined with?
    pub fn is_parameterized(self) -> bool {
        !self.fields().param_info.is_null()
    }

    /// May a parallel worker run it?
    pub fn is_parallel_safe(self) -> bool {
        self.fields().parallel_safe
    }

    /// Says whether one may.
    pub fn set_parallel_safe(self, is_safe: bool) {
        self.change(|path| path.parallel_safe = is_safe);
    }

    /// How many workers run it beside the leader.
    pub fn workers(self) -> i32 {
        self.fields().parallel_workers
    }

    /// Has so many workers run it beside the leader, of which each makes a part of its rows.
    pub fn share(self, workers: i32) {
        self.change(|path| {
            path.parallel_aware = true;
            path.parallel_safe = true;
            path.parallel_workers = workers;
        });
    }

    /// Does it put rows into groups, hashed or sorted, as core does?
    pub fn is_grouping(self) -> bool {
        matches!(
            self.fields().type_,
            NodeTag::T_AggPath | NodeTag::T_GroupPath
        )
    }

    /// What is known of it where it is a scan through an index.
    pub fn index_scan(self) -> Option<IndexScan> {
        let node = self.as_ptr().cast();
        // SAFETY: the handle's path is valid; its tag says what it is.
        unsafe {
            let path: *mut pg_sys::IndexPath = cast(node, NodeTag::T_IndexPath)?;
            let clauses = (*path).indexclauses.as_ref();
            Some(IndexScan {
                share: (*path).indexselectivity,
                conditions: clauses.map_or(0, |list| list.length as usize),
            })
        }
    }
}

/// A scan through an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexScan {
    /// The share of the table's rows that it looks at.
    pub share: f64,
    /// How many conditions it looks for rows by.
    pub conditions: usize,
}

impl<'a> PlannedTable<'a> {
    /// The paths that make its rows.
    pub fn paths(self) -> impl Iterator<Item = Path<'a>> {
        // SAFETY: the handle's relation is valid, and has a list of paths.
        unsafe { items::<pg_sys::Path>((*self.as_ptr()).pathlist).map(|path| Path::from_ptr(path)) }
    }

    /// Those of which each of several processes makes a part of the rows, the cheapest one first.
    pub fn partial_paths(self) -> impl Iterator<Item = Path<'a>> {
        // SAFETY: as above.
        unsafe {
            items::<pg_sys::Path>((*self.as_ptr()).partial_pathlist)
                .map(|path| Path::from_ptr(path))
        }
    }

    /// The path that makes all rows at the least cost, if it has been chosen.
    pub fn cheapest_path(self) -> Option<Path<'a>> {
        // SAFETY: the handle's relation is valid; what it has chosen is null or one of its paths.
        unsafe {
            let path = (*self.as_ptr()).cheapest_total_path;
            (!path.is_null()).then(|| Path::from_ptr(path))
        }
    }

    /// Adds a path to its paths, unless there is a better one.
    ///
    /// # Safety
    /// The path must make its rows, and be used no more: it may be gone. Nobody may walk its paths meanwhile.
    pub unsafe fn add_path(self, path: Path<'_>) {
        // SAFETY: the path makes the relation's rows, and nobody uses it after that.
        unsafe { pg_sys::add_path(self.as_ptr(), path.as_ptr()) }
    }

    /// The same of a path of which each of several processes makes a part of the rows.
    ///
    /// # Safety
    /// As `add_path`.
    pub unsafe fn add_partial_path(self, path: Path<'_>) {
        // SAFETY: as above.
        unsafe { pg_sys::add_partial_path(self.as_ptr(), path.as_ptr()) }
    }
}
