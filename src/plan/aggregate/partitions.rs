//! A grouping over a partitioned table: the node reads each partition that is a varve table, core's first step each other one, an Append
//! puts their groups together, and core's final step finishes them. The Append stands for the table itself, so that partitions which
//! parameters rule out are left out when the query starts, as in any other plan.

use super::checks;
use super::cost;
use super::join::Input;
use super::parallel;
use super::path::{self, group_clauses};
use super::target::Target;
use crate::pg::expression::Expression;
use crate::pg::node::{items, list};
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use pgrx::pg_sys::{self, AggSplit, AggStrategy, Path, RelOptInfo};

/// Paths of partitions: for one process, and for several.
#[derive(Default)]
struct Parts {
    whole: Vec<*mut Path>,
    /// Paths of which each process takes a part, and those that one process takes.
    shared: Vec<*mut Path>,
    single: Vec<*mut Path>,
    workers: i32,
    /// Groups of all partitions.
    groups: f64,
    /// Does the node read one of them, and can several processes take part?
    any_node: bool,
    is_safe: bool,
}

/// What stays the same while partitions are looked at.
struct Grouping {
    root: *mut pg_sys::PlannerInfo,
    grouped: *mut RelOptInfo,
    flags: i32,
}

/// Adds paths to a grouping of a partitioned table, if the node reads one of its partitions.
///
/// # Safety
/// Called by the planner's hook with its arguments.
pub unsafe fn offer(
    root: *mut pg_sys::PlannerInfo,
    input: *mut RelOptInfo,
    grouped: *mut RelOptInfo,
    extra: *mut pg_sys::GroupPathExtraData,
) {
    // SAFETY: by contract.
    unsafe {
        let is_table = (*input).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
            && (*input).rtekind == pg_sys::RTEKind::RTE_RELATION
            && (*input).lateral_relids.is_null();
        if !is_table || !has_partitions(input) {
            return;
        }
        let Some(target) = Target::of(root, (*input).relid, grouped, (*extra).havingQual) else {
            return;
        };
        let grouping = Grouping {
            root,
            grouped,
            flags: (*extra).flags,
        };
        let mut parts = Parts {
            is_safe: true,
            ..Parts::default()
        };
        if grouping.add(input, &target, &mut parts).is_none() || !parts.any_node {
            return;
        }
        let source = Input {
            table: input,
            join: None,
        };
        let groups = path::number_of_groups(root, input, &source, &target).min(parts.groups);
        let whole = list(parts.whole.iter().copied());
        let append = grouping.append(input, &target, whole, core::ptr::null_mut(), 0);
        path::add_final_paths(root, append, grouped, extra, groups);
        let single = pg_sys::enable_parallel_append || parts.single.is_empty();
        if parts.is_safe && parts.workers > 0 && single {
            let shared = list(parts.shared.iter().copied());
            let single = list(parts.single.iter().copied());
            let append = grouping.append(input, &target, single, shared, parts.workers);
            let gather =
                parallel::gather(root, append, (*append).rows * parallel::processes(append));
            path::add_final_paths(root, gather, grouped, extra, groups);
        }
    }
}

/// Has a relation partitions that are planned one by one?
unsafe fn has_partitions(rel: *mut RelOptInfo) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        !(*rel).part_scheme.is_null()
            && !(*rel).boundinfo.is_null()
            && (*rel).nparts > 0
            && !(*rel).part_rels.is_null()
            && !pg_sys::is_dummy_rel(rel)
    }
}

impl Grouping {
    /// Adds the partitions of a table, and theirs; None where one of them can have no path.
    unsafe fn add(
        &self,
        parent: *mut RelOptInfo,
        target: &Target,
        parts: &mut Parts,
    ) -> Option<()> {
        // SAFETY: the caller's contract: a partitioned table whose partitions the query does not rule out are in `live_parts`.
        unsafe {
            let mut at = pg_sys::bms_next_member((*parent).live_parts, -1);
            while at >= 0 {
                let child = *(*parent).part_rels.add(at as usize);
                at = pg_sys::bms_next_member((*parent).live_parts, at);
                if child.is_null() || pg_sys::is_dummy_rel(child) {
                    continue;
                }
                let own = self.translated(target, child);
                match has_partitions(child) {
                    true => self.add(child, &own, parts)?,
                    false => self.add_leaf(child, &own, parts)?,
                }
            }
            Some(())
        }
    }

    /// A table's target as one of its partitions computes it.
    unsafe fn translated(&self, target: &Target, child: *mut RelOptInfo) -> Target {
        // SAFETY: the caller's contract: a partition of the target's table.
        unsafe {
            let mut count = 0;
            let infos = pg_sys::find_appinfos_by_relids(self.root, (*child).relids, &mut count);
            let own = pg_sys::copy_pathtarget(target.target);
            let expressions = (*own).exprs.cast();
            let translated = pg_sys::adjust_appendrel_attrs(self.root, expressions, count, infos);
            (*own).exprs = translated.cast();
            pg_sys::pfree(infos.cast());
            Target::from_columns(own, target.groups.len())
        }
    }

    unsafe fn add_leaf(
        &self,
        child: *mut RelOptInfo,
        target: &Target,
        parts: &mut Parts,
    ) -> Option<()> {
        // SAFETY: the caller's contract.
        unsafe {
            let source = Input {
                table: child,
                join: None,
            };
            let groups = path::number_of_groups(self.root, child, &source, target);
            parts.groups += groups;
            let (planner, table) = (Planner::from_ptr(self.root), PlannedTable::from_ptr(child));
            let conditions = checks::table_of(planner, table);
            let conditions = conditions.and_then(|_| checks::conditions_of(table));
            let Some(conditions) = &conditions else {
                return self.add_foreign(child, target, groups, parts);
            };
            let conditions = Expression::as_ptrs(conditions);
            parts.any_node = true;
            let by_index = cost::by_index(self.root, child, &source);
            let costs = cost::of_node(&by_index, child, &source, target, conditions, groups);
            let make = || path::node_path(child, &source, target, conditions, groups, costs);
            let whole = make();
            let is_safe = (*child).consider_parallel && (*self.grouped).consider_parallel;
            (*whole).path.parallel_safe = is_safe;
            parts.whole.push(whole.cast());
            parts.is_safe &= is_safe;
            match parallel::workers(self.root, &source, self.grouped, conditions) {
                0 => parts.single.push(whole.cast()),
                workers => {
                    parts.workers = parts.workers.max(workers);
                    let path = make();
                    parallel::share(path, workers);
                    parts.shared.push(path.cast());
                }
            }
            Some(())
        }
    }

    /// Core's first step of a partition that is no table of the node's.
    unsafe fn add_foreign(
        &self,
        child: *mut RelOptInfo,
        target: &Target,
        groups: f64,
        parts: &mut Parts,
    ) -> Option<()> {
        // SAFETY: the caller's contract.
        unsafe {
            let strategy = match target.groups.is_empty() {
                true => AggStrategy::AGG_PLAIN,
                false if self.flags & pg_sys::GROUPING_CAN_USE_HASH as i32 == 0 => return None,
                false => AggStrategy::AGG_HASHED,
            };
            let first_step = |input: *mut Path, groups: f64| -> *mut Path {
                let split = AggSplit::AGGSPLIT_INITIAL_SERIAL;
                let costs = path::costs_of(self.root, split);
                pg_sys::create_agg_path(
                    self.root,
                    child,
                    input,
                    target.target,
                    strategy,
                    split,
                    group_clauses(self.root),
                    core::ptr::null_mut(),
                    &costs,
                    groups,
                )
                .cast()
            };
            let cheapest = (*child).cheapest_total_path;
            if cheapest.is_null() || !(*cheapest).param_info.is_null() {
                return None;
            }
            let whole = first_step(cheapest, groups);
            parts.whole.push(whole);
            let shared = items::<Path>((*child).partial_pathlist).next();
            match shared.filter(|_| (*self.grouped).consider_parallel) {
                Some(input) => {
                    let path = first_step(input, groups);
                    parts.workers = parts.workers.max((*path).parallel_workers);
                    parts.shared.push(path);
                }
                None => {
                    parts.is_safe &= (*whole).parallel_safe;
                    parts.single.push(whole);
                }
            }
            Some(())
        }
    }

    /// Core's Append, which stands for the partitioned table.
    unsafe fn append(
        &self,
        table: *mut RelOptInfo,
        target: &Target,
        whole: *mut pg_sys::List,
        shared: *mut pg_sys::List,
        workers: i32,
    ) -> *mut Path {
        // SAFETY: the caller's contract.
        unsafe {
            let append = pg_sys::create_append_path(
                self.root,
                table,
                whole,
                shared,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                workers,
                workers > 0 && pg_sys::enable_parallel_append,
                -1.0,
            );
            (*append).path.pathtarget = target.target;
            append.cast()
        }
    }
}
