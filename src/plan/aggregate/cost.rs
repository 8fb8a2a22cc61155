//! What the node costs: the other side of a join, opening the chunks that a series index leaves, pages of the blocks that are decoded, a little for
//! each value that is folded, as much as core takes for each expression that is evaluated row by row, and a row for each
//! group.

use super::join::Input;
use super::target::Target;
use crate::am::series_index::contents;
use crate::catalog::layout;
use crate::exec::aggregate::is_folded;
use crate::pg::expression_kinds::Aggregate;
use crate::pg::node::{cast, items, list};
use pgrx::pg_sys::{self, Node};

/// Decoding and folding a value, in operators.
pub const VALUE: f64 = 0.05;
/// A row that is fetched from the tail, or put together for an expression, in tuples.
const ROW: f64 = 0.5;
/// Getting ready, in tuples.
pub const START: f64 = 200.0;
/// Opening a chunk, beside its header's page, in tuples.
pub const CHUNK: f64 = 50.0;
/// Rows that are decoded together, about.
pub const BLOCK_ROWS: f64 = 1024.0;
/// Most rows of a chunk.
const CHUNK_ROWS: f64 = 65_536.0;

/// Startup and total cost, where a series index leaves so much; `input` is the grouping's own, the join if there is one.
///
/// # Safety
/// Called by the planner's hook.
pub unsafe fn of_node(
    by_index: &ByIndex,
    input: *mut pg_sys::RelOptInfo,
    source: &Input,
    target: &Target,
    conditions: &[*mut Node],
    groups: f64,
) -> (f64, f64) {
    // SAFETY: by contract.
    unsafe {
        let table = source.table;
        let rows = (*table).tuples.max((*table).rows).max(1.0);
        let pages = f64::from((*table).pages);
        let opened = by_index.opened;
        let decoded = (by_index.share * rows + opened * BLOCK_ROWS).min(rows);
        let columns = columns_of((*table).relid, target, conditions);
        let column_share = columns / f64::from((*table).max_attr).max(columns);
        let read = by_index.pages + opened.min(pages) + pages * column_share * decoded / rows;
        let is_fold =
            |aggregate: &&*mut pg_sys::Aggref| is_folded(Aggregate::from_ptr(**aggregate));
        let folded = target.aggregates.iter().filter(is_fold).count();
        let evaluated = (target.aggregates.len() - folded) as f64;
        let values = decoded * (columns + 1.0) * VALUE * pg_sys::cpu_operator_cost;
        let row = if evaluated > 0.0 { ROW } else { 0.0 };
        let per_row = row * pg_sys::cpu_tuple_cost + evaluated * pg_sys::cpu_operator_cost;
        let other = source.join.as_ref().map_or(0.0, |join| {
            (*join.path).total_cost + (*join.path).rows * pg_sys::cpu_tuple_cost
        });
        let startup = other
            + read.min(pages + by_index.pages) * pg_sys::seq_page_cost
            + (START + opened * CHUNK) * pg_sys::cpu_tuple_cost
            + values
            + (*input).rows * per_row;
        let width = 1.0 + target.aggregates.len() as f64;
        let per_group = pg_sys::cpu_tuple_cost + width * pg_sys::cpu_operator_cost;
        (startup, startup + groups * per_group)
    }
}

/// What a series index leaves of the table.
pub struct ByIndex {
    /// Chunks that are opened.
    pub opened: f64,
    /// Rows that conditions on its columns leave, of all.
    pub share: f64,
    /// Stretches of one series in one chunk that are read, where the index tells.
    pub stretches: Option<f64>,
    /// Pages of the index.
    pub pages: f64,
    /// The share of the table's rows that is in the tail, at most.
    pub tail: f64,
}

/// What the series index of a table, if it has one, leaves of it.
///
/// # Safety
/// As `of_node`.
pub unsafe fn by_index(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    source: &Input,
) -> ByIndex {
    // SAFETY: the caller's contract.
    unsafe {
        let table = source.table;
        let rows = (*table).tuples.max(1.0);
        let Some(index) = series_index(table) else {
            let pages = f64::from((*table).pages);
            return ByIndex {
                opened: (rows / CHUNK_ROWS).max(1.0).min(pages.max(1.0)),
                share: 1.0,
                stretches: None,
                pages: 0.0,
                tail: 0.0,
            };
        };
        let count = (*index).nkeycolumns as usize;
        let columns: Vec<i32> = (0..count).map(|at| *(*index).indexkeys.add(at)).collect();
        let select = |wanted: &dyn Fn(&[i32]) -> bool| {
            let infos = items::<pg_sys::RestrictInfo>((*table).baserestrictinfo);
            let clauses = infos.filter(|info| {
                let of_clause = attributes((**info).clause.cast(), (*table).relid);
                !of_clause.is_empty() && wanted(&of_clause)
            });
            pg_sys::clauselist_selectivity(
                root,
                list(clauses),
                (*table).relid as i32,
                pg_sys::JoinType::JOIN_INNER,
                core::ptr::null_mut(),
            )
        };
        let keys = &columns[..count.saturating_sub(1)];
        let of_keys = |of_clause: &[i32]| of_clause.iter().all(|at| keys.contains(at));
        let of_index = |of_clause: &[i32]| of_clause.iter().all(|at| columns.contains(at));
        let (mut by_keys, mut share) = (select(&of_keys), select(&of_index));
        if let Some(join) = &source.join {
            let left = ((*input).rows / (*table).rows.max(1.0)).min(1.0);
            if columns.contains(&i32::from(join.column)) {
                share *= left;
            }
            if keys.contains(&i32::from(join.column)) {
                by_keys *= left;
            }
        }
        let found = contents::of(root, index);
        // Those that a range of time leaves are told by their headers.
        let opened = (by_keys * found.series).min(found.keyed) + found.unkeyed.chunks;
        ByIndex {
            opened: opened.min(f64::from((*table).pages)).max(1.0),
            share,
            stretches: (found.unkeyed.chunks == 0.0).then_some(by_keys * found.series),
            pages: 1.0 + by_keys * f64::from((*index).pages),
            // Chunks have few entries.
            tail: (found.entries / rows).min(1.0),
        }
    }
}

/// Rows that go up from so many processes, each of which reads some of the chunks: where groups keep series apart, a group goes up more than
/// once only where one of its series goes on in another chunk.
///
/// # Safety
/// As `of_node`.
pub unsafe fn rows_of_processes(
    by_index: &ByIndex,
    source: &Input,
    target: &Target,
    groups: f64,
    processes: f64,
) -> f64 {
    // SAFETY: by contract.
    unsafe {
        let table = source.table;
        let index = series_index(table);
        let plain = |group: &*mut Node| {
            let var = cast::<pg_sys::Var>(*group, pg_sys::NodeTag::T_Var)?;
            Some(i32::from((*var).varattno))
        };
        let plain: Vec<i32> = target.groups.iter().filter_map(plain).collect();
        let is_apart = index.is_some_and(|index| {
            let keys = ((*index).nkeycolumns as usize).saturating_sub(1);
            keys > 0 && (0..keys).all(|at| plain.contains(&*(*index).indexkeys.add(at)))
        });
        let most = groups * processes;
        match is_apart {
            true => {
                let stretches = by_index.stretches;
                stretches.map_or(most, |stretches| most.min(groups + stretches))
            }
            false => most,
        }
    }
}

/// The series index of a table.
unsafe fn series_index(table: *mut pg_sys::RelOptInfo) -> Option<*mut pg_sys::IndexOptInfo> {
    // SAFETY: the caller's contract.
    unsafe {
        let series = layout::index_am();
        items::<pg_sys::IndexOptInfo>((*table).indexlist)
            .find(|index| (**index).relam == series && !(**index).hypothetical)
    }
}

/// Columns of the table that the node decodes.
unsafe fn columns_of(table: u32, target: &Target, conditions: &[*mut Node]) -> f64 {
    let aggregates = target.aggregates.iter().map(|&aggregate| aggregate.cast());
    let all = target.groups.iter().copied().chain(aggregates);
    let all = list(all.chain(conditions.iter().copied()));
    // SAFETY: the caller's contract.
    unsafe { attributes(all.cast(), table).len() as f64 }
}

/// The columns of a table, from 1, that an expression has.
unsafe fn attributes(expression: *mut Node, table: u32) -> Vec<i32> {
    let (mut columns, mut found) = (core::ptr::null_mut(), Vec::new());
    // SAFETY: the caller's contract.
    unsafe {
        pg_sys::pull_varattnos(expression, table, &mut columns);
        let mut member = pg_sys::bms_next_member(columns, -1);
        while member >= 0 {
            found.push(member + pg_sys::FirstLowInvalidHeapAttributeNumber);
            member = pg_sys::bms_next_member(columns, member);
        }
    }
    found
}
