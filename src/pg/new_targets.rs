//! Targets of paths that are made while a query is planned. They are in the planner's memory.

use super::expression::Expression;
use super::path_target::PathTarget;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use pgrx::pg_sys;

impl<'a> PathTarget<'a> {
    /// A target of these columns, each with the number by which GROUP BY and ORDER BY refer to it; 0: they do not.
    pub fn of(
        planner: Planner<'a>,
        columns: impl IntoIterator<Item = (Expression<'a>, u32)>,
    ) -> PathTarget<'a> {
        // SAFETY: the planner's query is valid; what is made is in its memory.
        unsafe {
            let target = pg_sys::create_empty_pathtarget();
            for (column, reference) in columns {
                pg_sys::add_column_to_pathtarget(target, column.as_ptr().cast(), reference);
            }
            let target = pg_sys::set_pathtarget_cost_width(planner.as_ptr(), target);
            PathTarget::from_ptr(target)
        }
    }

    /// The target with some more columns behind its own.
    pub fn with(self, planner: Planner<'a>, more: &[Expression<'a>]) -> PathTarget<'a> {
        // SAFETY: valid handles; the copy is in the planner's memory, and nobody else's.
        unsafe {
            let target = pg_sys::copy_pathtarget(self.as_ptr());
            for column in more {
                pg_sys::add_new_column_to_pathtarget(target, column.as_ptr().cast());
            }
            let target = pg_sys::set_pathtarget_cost_width(planner.as_ptr(), target);
            PathTarget::from_ptr(target)
        }
    }

    /// The target for one of a table's partitions: it has columns of that table, and none of another one. Raises an error where it is no partition.
    pub fn of_partition(self, planner: Planner<'a>, partition: PlannedTable<'a>) -> PathTarget<'a> {
        let root = planner.as_ptr();
        // SAFETY: valid handles; the copy is in the planner's memory, and nobody else's.
        unsafe {
            let mut count = 0;
            let relids = (*partition.as_ptr()).relids;
            let infos = pg_sys::find_appinfos_by_relids(root, relids, &mut count);
            let own = pg_sys::copy_pathtarget(self.as_ptr());
            let columns = (*own).exprs.cast();
            let translated = pg_sys::adjust_appendrel_attrs(root, columns, count, infos);
            (*own).exprs = translated.cast();
            pg_sys::pfree(infos.cast());
            PathTarget::from_ptr(own)
        }
    }
}
