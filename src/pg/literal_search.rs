//! Which constants of a statement are literals: those in the values that an INSERT of a row has, and those that conditions of a SELECT, or of the WITH
//! query that it reads, compare a column with, to be equal to them or within a range.

use super::literals::{Literal, Literals, Role};
use super::node::{self, items};
use super::text_statement::read_with;
use pgrx::pg_sys::{self, NodeTag, Oid};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Statements with more of them have nothing to gain.
const MOST: usize = 64;
/// Constants that are deeper than this in an expression stay what they are.
const DEEPEST: usize = 32;

thread_local! {
    /// Whether operators are equalities.
    static EQUALITIES: RefCell<FxHashMap<Oid, bool>> = RefCell::default();
}

/// Forgets what is known of operators: they may have changed.
pub fn forget_operators() {
    EQUALITIES.with_borrow_mut(FxHashMap::clear);
}

impl Literals {
    /// None where there are many.
    ///
    /// # Safety
    /// `query` must be one that was analyzed, and outlive what is made of it.
    pub(super) unsafe fn of(query: *mut pg_sys::Query) -> Option<Literals> {
        let mut found = Literals(SmallVec::new());
        // SAFETY: by contract.
        unsafe {
            if (*query).commandType == pg_sys::CmdType::CMD_INSERT {
                for entry in items::<pg_sys::TargetEntry>((*query).targetList) {
                    found.add_values((*entry).expr.cast(), 0);
                }
            } else {
                let read = read_with(&*query).unwrap_or(query);
                found.add_conditions((*(*read).jointree).quals, 0);
                found.leave_single_bounds();
            }
        }
        (found.0.len() <= MOST).then_some(found)
    }

    /// One more than the most stands for all others.
    fn add(&mut self, node: *mut pg_sys::Node, role: Role) {
        if self.0.len() <= MOST {
            let node = node.cast();
            self.0.push(Literal { node, role });
        }
    }

    /// # Safety
    /// `value` must be null or an expression.
    unsafe fn add_values(&mut self, value: *mut pg_sys::Node, depth: usize) {
        if value.is_null() || depth > DEEPEST {
            return;
        }
        // SAFETY: by contract; the node's tag says what it is.
        unsafe {
            let arguments = match (*value).type_ {
                NodeTag::T_Const => return self.add(value, Role::Value),
                NodeTag::T_FuncExpr => (*value.cast::<pg_sys::FuncExpr>()).args,
                NodeTag::T_OpExpr => (*value.cast::<pg_sys::OpExpr>()).args,
                NodeTag::T_RelabelType => {
                    let inner = (*value.cast::<pg_sys::RelabelType>()).arg;
                    return self.add_values(inner.cast(), depth + 1);
                }
                NodeTag::T_CoerceViaIO => {
                    let inner = (*value.cast::<pg_sys::CoerceViaIO>()).arg;
                    return self.add_values(inner.cast(), depth + 1);
                }
                _ => return,
            };
            items(arguments).for_each(|argument| self.add_values(argument, depth + 1));
        }
    }

    /// # Safety
    /// `condition` must be null or an expression.
    unsafe fn add_conditions(&mut self, condition: *mut pg_sys::Node, depth: usize) {
        if condition.is_null() || depth > DEEPEST {
            return;
        }
        // SAFETY: by contract; the node's tag says what it is.
        unsafe {
            match (*condition).type_ {
                NodeTag::T_BoolExpr => {
                    let all = condition.cast::<pg_sys::BoolExpr>();
                    if (*all).boolop == pg_sys::BoolExprType::AND_EXPR {
                        items((*all).args).for_each(|one| self.add_conditions(one, depth + 1));
                    }
                }
                NodeTag::T_OpExpr => self.add_comparison(condition.cast()),
                NodeTag::T_ScalarArrayOpExpr => self.add_list(condition.cast()),
                NodeTag::T_SubLink => self.add_subquery(condition.cast(), depth),
                _ => {}
            }
        }
    }

    /// A column that is compared with a constant.
    ///
    /// # Safety
    /// `operation` must be an expression.
    unsafe fn add_comparison(&mut self, operation: *mut pg_sys::OpExpr) {
        // SAFETY: by contract; the nodes' tags say what they are.
        unsafe {
            let mut arguments = items::<pg_sys::Node>((*operation).args);
            let (Some(left), Some(right)) = (arguments.next(), arguments.next()) else {
                return;
            };
            for (compared, constant) in [(left, right), (right, left)] {
                if !node::is(constant, NodeTag::T_Const) {
                    continue;
                }
                let Some(column) = column_of(compared) else {
                    continue;
                };
                if is_equality((*operation).opno, constant.cast()) {
                    self.add(constant, Role::Equal);
                } else if is_bound((*operation).opfuncid) {
                    self.add(constant, Role::Bound { column });
                }
            }
        }
    }

    /// A column that is to be one of several constants.
    ///
    /// # Safety
    /// `operation` must be an expression.
    unsafe fn add_list(&mut self, operation: *mut pg_sys::ScalarArrayOpExpr) {
        // SAFETY: by contract; the nodes' tags say what they are.
        unsafe {
            let mut arguments = items::<pg_sys::Node>((*operation).args);
            let (Some(compared), Some(list)) = (arguments.next(), arguments.next()) else {
                return;
            };
            let Some(list) = node::cast::<pg_sys::ArrayExpr>(list, NodeTag::T_ArrayExpr) else {
                return;
            };
            let is_one_of = |constant: *mut pg_sys::Node| {
                node::is(constant, NodeTag::T_Const)
                    && is_equality((*operation).opno, constant.cast())
            };
            let fits = (*operation).useOr
                && !(*list).multidims
                && column_of(compared).is_some()
                && items((*list).elements).all(is_one_of);
            if fits {
                items((*list).elements).for_each(|constant| self.add(constant, Role::Equal));
            }
        }
    }

    /// `IN (SELECT …)`, with conditions of its own. Bounds in there stay what they are.
    ///
    /// # Safety
    /// `link` must be an expression of an analyzed query.
    unsafe fn add_subquery(&mut self, link: *mut pg_sys::SubLink, depth: usize) {
        // SAFETY: by contract; what an analyzed query refers to is valid.
        unsafe {
            let inner = node::cast::<pg_sys::Query>((*link).subselect, NodeTag::T_Query);
            let Some(inner) = inner.filter(|&inner| !(*inner).jointree.is_null()) else {
                return;
            };
            if (*link).subLinkType == pg_sys::SubLinkType::ANY_SUBLINK {
                let before = self.0.len();
                self.add_conditions((*(*inner).jointree).quals, depth + 1);
                let mut at = before;
                while at < self.0.len() {
                    match self.0[at].role {
                        Role::Bound { .. } => drop(self.0.remove(at)),
                        _ => at += 1,
                    }
                }
            }
        }
    }

    /// A range that is open has no width: its bound stays what it is. So do bounds of different types.
    fn leave_single_bounds(&mut self) {
        let all = self.0.clone();
        // SAFETY: the nodes are the query's.
        let type_of = |literal: &Literal| unsafe { (*literal.node).consttype };
        self.0.retain(|literal| match literal.role {
            Role::Bound { .. } => {
                let mut of_column = all.iter().filter(|other| other.role == literal.role);
                let is_range = of_column.clone().count() > 1;
                is_range && of_column.all(|other| type_of(other) == type_of(literal))
            }
            _ => true,
        });
    }
}

/// The number of a column, where an expression is one, or is one that is taken for another type of the same values.
///
/// # Safety
/// It must be an expression.
unsafe fn column_of(expression: *mut pg_sys::Node) -> Option<i16> {
    // SAFETY: by contract; the nodes' tags say what they are.
    unsafe {
        let bare = match node::cast::<pg_sys::RelabelType>(expression, NodeTag::T_RelabelType) {
            Some(relabeled) => (*relabeled).arg.cast(),
            None => expression,
        };
        Some((*node::cast::<pg_sys::Var>(bare, NodeTag::T_Var)?).varattno)
    }
}

/// Is an operator that compares with a constant an equality?
///
/// # Safety
/// `constant` must be a node.
unsafe fn is_equality(operator: Oid, constant: *mut pg_sys::Const) -> bool {
    let known = EQUALITIES.with_borrow(|known| known.get(&operator).copied());
    known.unwrap_or_else(|| {
        // SAFETY: a syscache look-up; the node is valid by contract.
        let is_it = unsafe { pg_sys::op_mergejoinable(operator, (*constant).consttype) };
        EQUALITIES.with_borrow_mut(|known| known.insert(operator, is_it));
        is_it
    })
}

/// Does a function say whether a time, or an integer, is before or behind another one of its type?
fn is_bound(function: Oid) -> bool {
    use pg_sys::*;
    matches!(
        function.to_u32(),
        F_TIMESTAMPTZ_LT
            | F_TIMESTAMPTZ_LE
            | F_TIMESTAMPTZ_GT
            | F_TIMESTAMPTZ_GE
            | F_TIMESTAMP_LT
            | F_TIMESTAMP_LE
            | F_TIMESTAMP_GT
            | F_TIMESTAMP_GE
            | F_DATE_LT
            | F_DATE_LE
            | F_DATE_GT
            | F_DATE_GE
            | F_INT8LT
            | F_INT8LE
            | F_INT8GT
            | F_INT8GE
            | F_INT4LT
            | F_INT4LE
            | F_INT4GT
            | F_INT4GE
            | F_INT2LT
            | F_INT2LE
            | F_INT2GT
            | F_INT2GE
    )
}
