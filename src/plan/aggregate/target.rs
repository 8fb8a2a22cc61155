//! What the node emits: the group columns, then a partial state of each aggregate that the query's expressions need.

use super::checks::{is_plain, is_plain_aggregate};
use crate::exec::aggregate::{class_of, is_finished, Class};
use crate::functions::gapfill_calls::marker_of;
use crate::pg::expression::{Expression, Step};
use crate::pg::expression_kinds::{Aggregate, Kind};
use crate::pg::node::{cast, items};
use crate::pg::types;
use pgrx::pg_sys::{self, Node, NodeTag};

/// A partial grouping's columns.
pub struct Target {
    pub groups: Vec<*mut Node>,
    pub aggregates: Vec<*mut pg_sys::Aggref>,
    /// The same aggregates as the query has them.
    pub whole: Vec<*mut pg_sys::Aggref>,
    pub target: *mut pg_sys::PathTarget,
}

struct Needed<'a> {
    table: u32,
    groups: Vec<Expression<'a>>,
    aggregates: Vec<Aggregate<'a>>,
    possible: bool,
}

impl<'a> Needed<'a> {
    /// Finds the aggregates that an expression needs, and what else it does.
    fn collect(&mut self, expression: Expression<'a>) {
        expression.visit(|part| {
            if self.groups.iter().any(|group| group.equals(part)) {
                return Step::Past;
            }
            match part.kind() {
                Kind::Aggregate(aggregate) => {
                    self.possible &= is_plain_aggregate(aggregate, self.table);
                    let mut known = self.aggregates.iter();
                    if !known.any(|known| known.expression().equals(part)) {
                        self.aggregates.push(aggregate);
                    }
                    Step::Past
                }
                // Columns that are the same throughout a group are core's.
                Kind::Column(_) | Kind::PlaceHolder | Kind::Grouping => {
                    self.possible = false;
                    Step::Stop
                }
                _ => Step::Into,
            }
        });
    }
}

impl Target {
    /// None where the query needs something else of a group, or what the node does not compute.
    ///
    /// # Safety
    /// Called by the planner's hook with its arguments; `table` is the number of the table that is read.
    pub unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        table: u32,
        grouped: *mut pg_sys::RelOptInfo,
        having: *mut Node,
    ) -> Option<Target> {
        // SAFETY: by contract; all nodes belong to the planner's memory context.
        unsafe {
            let mut needed = Needed {
                table,
                groups: Vec::new(),
                aggregates: Vec::new(),
                possible: true,
            };
            let target = pg_sys::create_empty_pathtarget();
            for clause in items::<pg_sys::SortGroupClause>((*(*root).parse).groupClause) {
                let group = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
                let expression = Expression::from_ptr(group);
                if !is_plain(expression, table) {
                    return None;
                }
                needed.groups.push(expression);
                pg_sys::add_column_to_pathtarget(target, group.cast(), (*clause).tleSortGroupRef);
            }
            let columns = items::<Node>((*(*grouped).reltarget).exprs);
            for expression in columns.chain(conjuncts(having)) {
                needed.collect(Expression::from_ptr(expression));
            }
            if !needed.possible {
                return None;
            }
            let whole = needed.aggregates.iter().map(|aggregate| aggregate.as_ptr());
            let whole: Vec<*mut pg_sys::Aggref> = whole.collect();
            let mut aggregates = Vec::new();
            for &aggregate in &whole {
                let partial = partial_of(aggregate);
                pg_sys::add_column_to_pathtarget(target, partial.cast(), 0);
                aggregates.push(partial);
            }
            Some(Target {
                groups: Expression::as_ptrs(&needed.groups).to_vec(),
                aggregates,
                whole,
                target: pg_sys::set_pathtarget_cost_width(root, target),
            })
        }
    }
}

impl Target {
    /// The target with these columns, of which so many are groups.
    ///
    /// # Safety
    /// The other columns must be aggregates.
    pub unsafe fn from_columns(target: *mut pg_sys::PathTarget, groups: usize) -> Target {
        // SAFETY: by contract.
        let columns: Vec<*mut Node> = unsafe { items((*target).exprs) }.collect();
        let (groups, aggregates) = columns.split_at(groups);
        Target {
            groups: groups.to_vec(),
            aggregates: aggregates.iter().map(|node| node.cast()).collect(),
            whole: Vec::new(),
            target,
        }
    }
}

impl Target {
    /// Can the node give the query what it wants of each group, without a step of core's above it? It has to know what core would make of the
    /// states, and when core takes groups for equal.
    ///
    /// # Safety
    /// Called by the planner's hook.
    pub unsafe fn can_be_finished(&self) -> bool {
        // SAFETY: by contract.
        unsafe {
            self.whole.len() == self.aggregates.len()
                && self.groups.len() + self.whole.len() > 0
                && self.groups.iter().all(|&group| is_told_by_bytes(group))
                && self
                    .whole
                    .iter()
                    .all(|&aggregate| is_finished(Aggregate::from_ptr(aggregate)))
        }
    }
}

/// Are values of a group column equal where their bytes are? Gaps are filled above core's own steps alone.
unsafe fn is_told_by_bytes(group: *mut Node) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(group, NodeTag::T_FuncExpr);
        if call.is_some_and(|call| marker_of((*call).funcid).is_some()) {
            return false;
        }
        let typ = pg_sys::exprType(group);
        if class_of(typ) == Class::Int {
            return true;
        }
        let collation = pg_sys::exprCollation(group);
        [pg_sys::TEXTOID, pg_sys::VARCHAROID].contains(&types::base(typ))
            && collation != pg_sys::InvalidOid
            && types::is_deterministic(collation)
    }
}

unsafe fn conjuncts(having: *mut Node) -> Vec<*mut Node> {
    // SAFETY: the caller's contract: null or an implicit-AND list.
    unsafe {
        match cast::<pg_sys::List>(having, NodeTag::T_List) {
            Some(list) => items(list).collect(),
            None if having.is_null() => Vec::new(),
            None => vec![having],
        }
    }
}

/// The aggregate as its first step computes it.
unsafe fn partial_of(aggregate: *mut pg_sys::Aggref) -> *mut pg_sys::Aggref {
    // SAFETY: the caller's contract: a node.
    unsafe {
        let partial: *mut pg_sys::Aggref =
            pg_sys::palloc(core::mem::size_of::<pg_sys::Aggref>()).cast();
        *partial = *aggregate;
        pg_sys::mark_partial_aggref(partial, pg_sys::AggSplit::AGGSPLIT_INITIAL_SERIAL);
        partial
    }
}
