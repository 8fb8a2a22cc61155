//! A grouping over a join of the table with another relation, where an equality names rows of the table by one of its columns: the
//! other side is planned by core, runs first, and its values choose series. A semi-join, or an inner one: how often a value comes counts then.

use super::checks;
use crate::exec::aggregate::joinable;
use crate::pg::expression::Expression;
use crate::pg::expression_kinds::Kind;
use crate::pg::node::items;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use pgrx::pg_sys;

/// What is aggregated, and what its rows are joined with.
pub struct Input {
    /// The varve table.
    pub table: *mut pg_sys::RelOptInfo,
    pub join: Option<Join>,
}

pub struct Join {
    /// Of the other relation.
    pub path: *mut pg_sys::Path,
    pub value: *mut pg_sys::Var,
    /// Column of the table, from 1.
    pub column: i16,
    /// Each value counts once.
    pub is_semi: bool,
}

/// Bytes that a value takes at execution, beside its own.
const VALUE_BYTES: f64 = 64.0;

impl Input {
    /// The inputs by which a grouping's one may be computed: itself, or one side of a join and what names its rows.
    ///
    /// # Safety
    /// Called by the planner's hook with its arguments.
    pub unsafe fn of(root: *mut pg_sys::PlannerInfo, input: *mut pg_sys::RelOptInfo) -> Vec<Input> {
        // SAFETY: by contract.
        unsafe {
            let planner = Planner::from_ptr(root);
            // Of partitions, each one alone is no grouping of the query's columns.
            if (*input).reloptkind == pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL {
                return Vec::new();
            }
            if (*input).reloptkind != pg_sys::RelOptKind::RELOPT_JOINREL {
                let found = checks::table_of(planner, PlannedTable::from_ptr(input));
                return found
                    .map(|_| Input {
                        table: input,
                        join: None,
                    })
                    .into_iter()
                    .collect();
            }
            let Some(sides) = sides_of(root, input) else {
                return Vec::new();
            };
            let [one, two] = sides;
            [(one, two), (two, one)]
                .into_iter()
                .filter_map(|(table, other)| {
                    checks::table_of(planner, PlannedTable::from_ptr(table))?;
                    let join = join_of(root, input, table, other)?;
                    Some(Input {
                        table,
                        join: Some(join),
                    })
                })
                .collect()
        }
    }
}

/// The two base relations of a join, if there are no more and nothing stands between them and the grouping.
unsafe fn sides_of(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Option<[*mut pg_sys::RelOptInfo; 2]> {
    // SAFETY: the caller's contract.
    unsafe {
        if pg_sys::bms_num_members((*input).relids) != 2 || !(*root).placeholder_list.is_null() {
            return None;
        }
        let first = pg_sys::bms_next_member((*input).relids, -1);
        let second = pg_sys::bms_next_member((*input).relids, first);
        let sides = [first, second].map(|at| *(*root).simple_rel_array.add(at as usize));
        let is_plain = |rel: &*mut pg_sys::RelOptInfo| {
            let rel = *rel;
            !rel.is_null()
                && (*rel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
                && (*rel).lateral_relids.is_null()
                // Conditions on both sides that are no equalities of the planner's classes.
                && (*rel).joininfo.is_null()
        };
        sides.iter().all(is_plain).then_some(sides)
    }
}

unsafe fn join_of(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
    table: *mut pg_sys::RelOptInfo,
    other: *mut pg_sys::RelOptInfo,
) -> Option<Join> {
    // SAFETY: the caller's contract.
    unsafe {
        let mut is_semi = false;
        for special in items::<pg_sys::SpecialJoinInfo>((*root).join_info_list) {
            let sides = ((*special).syn_lefthand, (*special).syn_righthand);
            is_semi = (*special).jointype == pg_sys::JoinType::JOIN_SEMI
                && pg_sys::bms_equal(sides.0, (*table).relids)
                && pg_sys::bms_equal(sides.1, (*other).relids);
            if !is_semi {
                return None;
            }
        }
        let clauses: Vec<*mut pg_sys::RestrictInfo> = items(implied_equalities(
            root,
            (*input).relids,
            (*table).relids,
            other,
        ))
        .collect();
        let [clause] = clauses[..] else {
            return None;
        };
        let Kind::Operator(operator) = Expression::from_ptr((*clause).clause.cast()).kind() else {
            return None;
        };
        let (column, value) = joinable(operator, (*table).relid)?;
        let path = (*other).cheapest_total_path;
        if path.is_null() || !(*path).param_info.is_null() {
            return None;
        }
        let bytes = (*path).rows * (VALUE_BYTES + f64::from((*(*path).pathtarget).width));
        let fits = bytes <= pg_sys::get_hash_memory_limit() as f64;
        let found = Join {
            path,
            value: value.expression().as_ptr().cast(),
            column,
            is_semi,
        };
        fits.then_some(found)
    }
}

/// The equalities between two relations that follow from the planner's classes.
unsafe fn implied_equalities(
    root: *mut pg_sys::PlannerInfo,
    both: pg_sys::Relids,
    outer: pg_sys::Relids,
    inner: *mut pg_sys::RelOptInfo,
) -> *mut pg_sys::List {
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::generate_join_implied_equalities(root, both, outer, inner);
        #[cfg(feature = "pg17")]
        return pg_sys::generate_join_implied_equalities(
            root,
            both,
            outer,
            inner,
            core::ptr::null_mut(),
        );
    }
}
