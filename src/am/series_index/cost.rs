//! What a scan through a series index costs: entries that its leading quals select, the chunks behind
//! them, the chunks that every scan looks at before its first row, and the rows that come out.

use super::contents::{self, Unkeyed};
use crate::chunk::index_entries::ENTRIES_PER_PAGE;
use crate::pg::planned_index::PlannedIndex;
use crate::pg::planner::Planner;
use crate::table::fetched::RECENT_CHUNKS;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Strategy number of equality.
const EQUAL: i32 = 3;
/// Fetching a row by virtual TID, in tuples of a sequential scan.
const ROW_COST: f64 = 2.0;
/// Finding the rows of a series in a chunk by its entry, in the same.
const SERIES_COST: f64 = 6.0;
/// The same of a series whose entry is passed by, since that of another one of the chunk comes before it.
const PASSED_SERIES_COST: f64 = 1.5;
/// Testing a row of a chunk that every scan looks at, and putting one that fits into order.
const TESTED_ROW_COST: f64 = 2.0;
/// Looking at the header of a chunk that is opened when its times come.
const LISTED_COST: f64 = 5.0;
/// Opening a chunk again, and decoding a block of it for one row.
const REOPENED_COST: f64 = 200.0;

#[expect(clippy::too_many_arguments, reason = "the index AM's signature")]
#[pg_guard]
pub unsafe extern "C-unwind" fn estimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loops: f64,
    startup: *mut pg_sys::Cost,
    total: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    // SAFETY: called by core while it plans.
    unsafe {
        let index = (*path).indexinfo;
        let rel = (*index).rel;
        let clauses = (*path).indexclauses;
        let select = |quals: *mut pg_sys::List| {
            pg_sys::clauselist_selectivity(
                root,
                quals,
                (*rel).relid as i32,
                pg_sys::JoinType::JOIN_INNER,
                core::ptr::null_mut(),
            )
        };
        let all = select(pg_sys::get_quals_from_indexclauses(clauses));
        let length = |list: *mut pg_sys::List| list.as_ref().map_or(0, |list| list.length);
        let leading = leading_clauses(index, clauses);
        let leading = match length(leading) == length(clauses) {
            true => all,
            false => select(pg_sys::get_quals_from_indexclauses(leading)),
        };
        let table_rows = (*rel).tuples.max(1.0);
        let rows = (all * table_rows).max(1.0);
        let found = contents::of(Planner::from_ptr(root), PlannedIndex::from_ptr(index));
        let unkeyed = found.unkeyed;
        let keyed_rows = (table_rows - unkeyed.rows).max(1.0);
        let entries = (found.entries - unkeyed.chunks).clamp(1.0, keyed_rows);
        let visited = (leading * entries).ceil().max(1.0);
        let passed = if asks_for_times(index, clauses) {
            0.0
        } else {
            leading * found.passed
        };
        let met = leading * found.series - passed;
        // Of each series in a chunk, the header and columns are read. A few chunks stay open: of these, nothing is read again for another
        // series.
        let of_series = 2.0 * met.ceil();
        let of_chunks = leading * f64::from((*rel).pages) + 2.0 * found.keyed;
        let chunk_pages = if found.keyed <= RECENT_CHUNKS as f64 {
            of_series.min(of_chunks.ceil())
        } else {
            of_series
        };
        let descent = pg_sys::random_page_cost
            + 50.0 * pg_sys::cpu_operator_cost * f64::from((*index).tree_height + 1);
        let rescan_share = if loops > 1.0 { 0.1 } else { 1.0 };
        let leaf_pages = (visited / ENTRIES_PER_PAGE).ceil();
        let section = if names_series(index, clauses) && !unkeyed.are_foreign {
            waiting_cost(index, &unkeyed, rescan_share)
        } else {
            section_cost(index, &unkeyed, (leading, all), rescan_share)
        };
        *startup = descent * rescan_share + section.startup;
        *total = *startup
            + section.fetching
            + rescan_share * (leaf_pages - 1.0) * pg_sys::random_page_cost
            + visited * pg_sys::cpu_index_tuple_cost
            + (met * SERIES_COST + passed * PASSED_SERIES_COST) * pg_sys::cpu_tuple_cost
            + rescan_share * chunk_pages * pg_sys::random_page_cost
            + rows * ROW_COST * pg_sys::cpu_tuple_cost;
        if (*path).path.pathtype == pg_sys::NodeTag::T_IndexOnlyScan {
            // No column is asked for, so nothing is gained by order or quals: a plain scan does it with less work.
            *total += f64::from((*rel).pages) * pg_sys::seq_page_cost
                + table_rows * ROW_COST * pg_sys::cpu_tuple_cost;
        }
        *selectivity = all;
        // Chunks hold the rows of a series side by side.
        *correlation = 1.0;
        *pages = f64::from((*index).pages);
    }
}

struct SectionCost {
    /// Before the first row.
    startup: f64,
    /// For rows that come out, beside what each row costs.
    fetching: f64,
}

/// What the chunks that every scan looks at cost one that names a series, where they are sorted as the index is. It opens them one after the other, as
/// their times come, and finds the series in each by search.
///
/// # Safety
/// `index` must be one of the query that is planned.
unsafe fn waiting_cost(
    index: *mut pg_sys::IndexOptInfo,
    unkeyed: &Unkeyed,
    rescan_share: f64,
) -> SectionCost {
    // SAFETY: the caller's contract.
    unsafe {
        let opened_pages = rescan_share * f64::from((*index).nkeycolumns);
        let search = SERIES_COST * pg_sys::cpu_tuple_cost;
        SectionCost {
            startup: unkeyed.chunks * LISTED_COST * pg_sys::cpu_tuple_cost,
            fetching: unkeyed.chunks * (opened_pages * pg_sys::seq_page_cost + search),
        }
    }
}

/// What the chunks cost that every scan looks at. All of them are opened. Quals exclude blocks by their bounds where a chunk is
/// sorted as the index is; else each row's time is decoded and tested. What fits is sorted before the first row goes out.
///
/// # Safety
/// As `waiting_cost`; its table must be there too.
unsafe fn section_cost(
    index: *mut pg_sys::IndexOptInfo,
    unkeyed: &Unkeyed,
    (leading, all): (f64, f64),
    rescan_share: f64,
) -> SectionCost {
    // SAFETY: the caller's contract.
    unsafe {
        let rel = (*index).rel;
        let columns = f64::from((*index).nkeycolumns);
        let tested = if unkeyed.are_foreign {
            unkeyed.rows
        } else {
            (leading * unkeyed.rows + unkeyed.chunks * ROWS_PER_BLOCK).min(unkeyed.rows)
        };
        let fitting = all * unkeyed.rows;
        let share = tested / (*rel).tuples.max(1.0);
        let column_share = (columns / f64::from((*rel).max_attr).max(1.0)).min(1.0);
        let pages = unkeyed.chunks * columns + share * column_share * f64::from((*rel).pages);
        let tests = pg_sys::cpu_tuple_cost * TESTED_ROW_COST * tested;
        let order = 2.0 * pg_sys::cpu_operator_cost * fitting * (fitting + 2.0).log2();
        // Rows that lie in other chunks one after the other have these opened over and over, where they are many.
        let is_scattered = unkeyed.are_foreign && unkeyed.chunks > RECENT_CHUNKS as f64;
        let reopened = if is_scattered {
            fitting * REOPENED_COST * pg_sys::cpu_tuple_cost
        } else {
            0.0
        };
        SectionCost {
            startup: rescan_share.max(0.5) * pages * pg_sys::seq_page_cost + tests + order,
            fetching: reopened,
        }
    }
}

/// Rows that are decoded together, about.
const ROWS_PER_BLOCK: f64 = 1024.0;

/// The clauses that say where a scan begins and ends: equalities of leading columns, and those on the
/// column behind them.
///
/// # Safety
/// `index` must be one of the query that is planned; `clauses` must be null, or a list of its IndexClauses in the order of columns. The result is
/// made in the current memory context. Within a guarded entry point.
unsafe fn leading_clauses(
    index: *mut pg_sys::IndexOptInfo,
    clauses: *mut pg_sys::List,
) -> *mut pg_sys::List {
    let mut leading = core::ptr::null_mut();
    if clauses.is_null() {
        return leading;
    }
    // SAFETY: by the caller's contract a list of IndexClauses, in the order of columns.
    unsafe {
        let mut open = 0;
        let mut equal = false;
        for at in 0..(*clauses).length as usize {
            let clause: *mut pg_sys::IndexClause = (*(*clauses).elements.add(at)).ptr_value.cast();
            let column = i32::from((*clause).indexcol);
            if column > open {
                if !equal || column > open + 1 {
                    break;
                }
                (open, equal) = (column, false);
            }
            leading = pg_sys::lappend(leading, clause.cast());
            equal |= is_equality(index, clause);
        }
    }
    leading
}

/// Is there a clause on the last column?
///
/// # Safety
/// `index` must be one of the query that is planned; `clauses` must be null, or a list of its IndexClauses in the order of columns.
unsafe fn asks_for_times(index: *mut pg_sys::IndexOptInfo, clauses: *mut pg_sys::List) -> bool {
    if clauses.is_null() {
        return false;
    }
    // SAFETY: by the caller's contract a list of IndexClauses, in the order of columns.
    unsafe {
        let last = (*(*clauses).elements.add((*clauses).length as usize - 1)).ptr_value;
        let last: *mut pg_sys::IndexClause = last.cast();
        i32::from((*last).indexcol) == (*index).nkeycolumns - 1
    }
}

/// Does each column but the last one have to equal one value?
///
/// # Safety
/// As `leading_clauses`.
unsafe fn names_series(index: *mut pg_sys::IndexOptInfo, clauses: *mut pg_sys::List) -> bool {
    if clauses.is_null() {
        return false;
    }
    // SAFETY: by the caller's contract a list of IndexClauses, in the order of columns.
    unsafe {
        let mut named = 0;
        for at in 0..(*clauses).length as usize {
            let clause: *mut pg_sys::IndexClause = (*(*clauses).elements.add(at)).ptr_value.cast();
            let is_next = i32::from((*clause).indexcol) == named;
            named += i32::from(is_next && is_equality_of_one(index, clause));
        }
        named == (*index).nkeycolumns - 1
    }
}

/// Is it an equality with one value?
///
/// # Safety
/// As `is_equality`.
unsafe fn is_equality_of_one(
    index: *mut pg_sys::IndexOptInfo,
    clause: *mut pg_sys::IndexClause,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let quals = (*clause).indexquals;
        if quals.is_null() || (*quals).length == 0 {
            return false;
        }
        let info: *mut pg_sys::RestrictInfo = (*(*quals).elements).ptr_value.cast();
        (*(*info).clause).type_ == pg_sys::NodeTag::T_OpExpr && is_equality(index, clause)
    }
}

/// Is it an equality, or IS NULL?
///
/// # Safety
/// `index` must be one of the query that is planned, and `clause` one of its IndexClauses. Within a guarded entry point.
unsafe fn is_equality(index: *mut pg_sys::IndexOptInfo, clause: *mut pg_sys::IndexClause) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let family = *(*index).opfamily.add((*clause).indexcol as usize);
        let quals = (*clause).indexquals;
        if quals.is_null() || (*quals).length == 0 {
            return false;
        }
        let info: *mut pg_sys::RestrictInfo = (*(*quals).elements).ptr_value.cast();
        let node = (*info).clause;
        let operator = match (*node).type_ {
            pg_sys::NodeTag::T_OpExpr => (*node.cast::<pg_sys::OpExpr>()).opno,
            pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                (*node.cast::<pg_sys::ScalarArrayOpExpr>()).opno
            }
            pg_sys::NodeTag::T_NullTest => {
                return (*node.cast::<pg_sys::NullTest>()).nulltesttype
                    == pg_sys::NullTestType::IS_NULL
            }
            _ => return false,
        };
        pg_sys::get_op_opfamily_strategy(operator, family) == EQUAL
    }
}
