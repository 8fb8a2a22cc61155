//! Paths of core's own nodes above others. They are in the planner's memory.

use super::node::list;
use super::path::Path;
use super::path_target::PathTarget;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use super::sort_order::SortOrder;
use super::unbound::get_agg_clause_costs;
use core::ptr::null_mut;
use pgrx::pg_sys::{self, AggSplit, List, Node};

/// How core tells groups apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// There is one.
    Plain,
    /// By a table of hashes.
    Hashed,
    /// They come in order.
    Sorted,
}

impl Strategy {
    fn number(self) -> pg_sys::AggStrategy::Type {
        match self {
            Strategy::Plain => pg_sys::AggStrategy::AGG_PLAIN,
            Strategy::Hashed => pg_sys::AggStrategy::AGG_HASHED,
            Strategy::Sorted => pg_sys::AggStrategy::AGG_SORTED,
        }
    }
}

/// A step of a grouping in two, as of several processes.
#[derive(Clone, Copy)]
pub(super) enum GroupStep {
    /// It makes states of rows.
    First,
    /// It makes results of states, of groups for which these conditions hold: NULL, or a list of them.
    Final(*mut Node),
}

/// The paths below an Append.
#[derive(Clone, Copy)]
pub struct Parts<'p, 'a> {
    /// Those that one process runs.
    pub whole: &'p [Path<'a>],
    /// Those of which each process makes a part of the rows.
    pub shared: &'p [Path<'a>],
}

fn list_of(paths: &[Path<'_>]) -> *mut List {
    list(paths.iter().map(|path| path.as_ptr()))
}

impl<'a> Planner<'a> {
    /// Gather above a path of several processes, from which so many rows go up.
    pub fn gather(self, path: Path<'a>, mut rows: f64) -> Path<'a> {
        let (table, target) = (path.table().as_ptr(), path.target().as_ptr());
        // SAFETY: valid handles.
        unsafe {
            let (root, path) = (self.as_ptr(), path.as_ptr());
            let made = pg_sys::create_gather_path(root, table, path, target, null_mut(), &mut rows);
            Path::from_ptr(made.cast())
        }
    }

    /// Gather Merge above a path of several processes, each of whose rows come in an order, from which so many rows go up.
    pub fn gather_in_order(self, path: Path<'a>, mut rows: f64) -> Path<'a> {
        let (table, target) = (path.table().as_ptr(), path.target().as_ptr());
        let (path, keys) = (path.as_ptr(), path.order().as_ptr());
        // SAFETY: valid handles.
        unsafe {
            let made = pg_sys::create_gather_merge_path(
                self.as_ptr(),
                table,
                path,
                target,
                keys,
                null_mut(),
                &mut rows,
            );
            Path::from_ptr(made.cast())
        }
    }

    /// A path with the rows of another one in an order: itself, where they are in that one already, as any are in an order by no column.
    pub fn sorted(self, table: PlannedTable<'a>, path: Path<'a>, order: SortOrder<'a>) -> Path<'a> {
        if order.is_kept_by(path.order()) {
            return path;
        }
        let (root, table, keys) = (self.as_ptr(), table.as_ptr(), order.as_ptr());
        // SAFETY: valid handles.
        unsafe {
            let made = pg_sys::create_sort_path(root, table, path.as_ptr(), keys, -1.0);
            Path::from_ptr(made.cast())
        }
    }

    /// Append, which stands for a table and hands up that target. With workers, these share its parts.
    pub fn append(
        self,
        table: PlannedTable<'a>,
        target: PathTarget<'a>,
        parts: Parts<'_, 'a>,
        workers: i32,
    ) -> Path<'a> {
        // SAFETY: valid handles; a setting.
        unsafe {
            let append = pg_sys::create_append_path(
                self.as_ptr(),
                table.as_ptr(),
                list_of(parts.whole),
                list_of(parts.shared),
                null_mut(),
                null_mut(),
                workers,
                workers > 0 && pg_sys::enable_parallel_append,
                -1.0,
            );
            let append = Path::from_ptr(append.cast());
            append.set_target(target);
            append
        }
    }

    /// A step of the query's grouping above a path, for a relation, of so many groups.
    ///
    /// # Safety
    /// The conditions of the final step must be the query's.
    pub(super) unsafe fn group(
        self,
        table: PlannedTable<'a>,
        path: Path<'a>,
        target: PathTarget<'a>,
        (step, strategy): (GroupStep, Strategy),
        groups: f64,
    ) -> Path<'a> {
        let (split, having) = match step {
            GroupStep::First => (AggSplit::AGGSPLIT_INITIAL_SERIAL, null_mut()),
            GroupStep::Final(having) => (AggSplit::AGGSPLIT_FINAL_DESERIAL, having),
        };
        // SAFETY: valid handles; the conditions are the query's.
        unsafe {
            let costs = self.aggregate_costs(split);
            let made = pg_sys::create_agg_path(
                self.as_ptr(),
                table.as_ptr(),
                path.as_ptr(),
                target.as_ptr(),
                strategy.number(),
                split,
                self.group_clauses(),
                having.cast(),
                &costs,
                groups,
            );
            Path::from_ptr(made.cast())
        }
    }

    /// The first step of the query's grouping above a path of a table: it makes states of rows.
    pub fn first_step(
        self,
        table: PlannedTable<'a>,
        path: Path<'a>,
        target: PathTarget<'a>,
        strategy: Strategy,
        groups: f64,
    ) -> Path<'a> {
        // SAFETY: it has no conditions.
        unsafe { self.group(table, path, target, (GroupStep::First, strategy), groups) }
    }

    /// What transition and final functions cost in one of the two steps.
    fn aggregate_costs(self, split: AggSplit::Type) -> pg_sys::AggClauseCosts {
        let mut costs = pg_sys::AggClauseCosts::default();
        let root = self.as_ptr();
        // SAFETY: the handle's query is valid; errors become panics at the boundary.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| get_agg_clause_costs(root, split, &mut costs));
        }
        costs
    }

    /// The columns that core's steps tell groups apart by.
    fn group_clauses(self) -> *mut List {
        // SAFETY: the handle's query is valid.
        unsafe {
            #[cfg(feature = "pg15")]
            return (*(*self.as_ptr()).parse).groupClause;
            #[cfg(feature = "pg17")]
            return (*self.as_ptr()).processed_groupClause;
        }
    }
}
