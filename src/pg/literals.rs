//! Constants of a statement that parameters may stand for, so that one plan does for all statements that are alike but for these
//! (`literal_search` finds them). The planner estimates any two values of a column alike, and so it does two ranges of one width, but for what it
//! knows of the most common values.

use super::memory;
use pgrx::pg_sys::{self, NodeTag};
use smallvec::SmallVec;

/// Statements have so few of them, as a rule.
const FEW: usize = 8;

/// A constant of a statement.
#[derive(Clone, Copy)]
pub(super) struct Literal {
    pub node: *mut pg_sys::Const,
    pub role: Role,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// It is inserted.
    Value,
    /// A column is to be equal to it.
    Equal,
    /// A column is to be greater, or to be less.
    Bound { column: i16 },
}

/// How far the bounds of a column are apart.
#[derive(Clone, Copy, PartialEq)]
pub struct Span {
    column: i16,
    width: i64,
}

/// The literals of a statement, in its order.
pub struct Literals(pub(super) SmallVec<[Literal; FEW]>);

impl Literals {
    /// How far the bounds of each column are apart.
    pub(super) fn spans(&self) -> SmallVec<[Span; 1]> {
        let mut ends: SmallVec<[(i16, i64, i64); 1]> = SmallVec::new();
        for literal in &self.0 {
            let Role::Bound { column } = literal.role else {
                continue;
            };
            let value = literal.integer();
            match ends.iter_mut().find(|(of, ..)| *of == column) {
                Some((_, least, greatest)) => {
                    (*least, *greatest) = ((*least).min(value), (*greatest).max(value));
                }
                None => ends.push((column, value, value)),
            }
        }
        let span = |(column, least, greatest): (i16, i64, i64)| Span {
            column,
            width: greatest.saturating_sub(least),
        };
        ends.into_iter().map(span).collect()
    }

    /// Values for those that bound a range, as parameters that the planner estimates by, and does not plan for; none for the others. Null where
    /// nothing is bounded.
    ///
    /// # Safety
    /// The nodes must be those of a valid query.
    pub(super) unsafe fn bounds(&self) -> pg_sys::ParamListInfo {
        let is_bound = |literal: &Literal| matches!(literal.role, Role::Bound { .. });
        if !self.0.iter().any(is_bound) {
            return core::ptr::null_mut();
        }
        let bytes = size_of::<pg_sys::ParamListInfoData>()
            + self.0.len() * size_of::<pg_sys::ParamExternData>();
        // SAFETY: by contract; all that is written lies within what is allocated, where zeros are a type that is none.
        unsafe {
            let params: pg_sys::ParamListInfo = memory::current().alloc_zeroed(bytes).cast();
            (*params).numParams = self.0.len() as i32;
            let first: *mut pg_sys::ParamExternData = (&raw mut (*params).params).cast();
            let bounds = self.0.iter().enumerate();
            for (at, literal) in bounds.filter(|(_, literal)| is_bound(literal)) {
                let constant = &*literal.node;
                first.add(at).write(pg_sys::ParamExternData {
                    value: constant.constvalue,
                    isnull: constant.constisnull,
                    pflags: 0,
                    ptype: constant.consttype,
                });
            }
            params
        }
    }

    /// Runs `body` while all of them look like NULL, whatever they are, so that statements that are alike but for them are equal. An error leaves
    /// them so: the statement is over.
    pub(super) fn while_hidden<R>(&self, body: impl FnOnce() -> R) -> R {
        let hide = |literal: &Literal| {
            // SAFETY: a node of the query's, which is ours until it is planned.
            unsafe { core::mem::replace(&mut (*literal.node).constisnull, true) }
        };
        let were_null: SmallVec<[bool; FEW]> = self.0.iter().map(hide).collect();
        let result = body();
        // Backwards, in case that there is one twice.
        for (literal, was_null) in self.0.iter().zip(were_null).rev() {
            // SAFETY: as above.
            unsafe { (*literal.node).constisnull = was_null };
        }
        result
    }

    /// Puts a parameter into the place of each of them: the first one is number 1.
    ///
    /// # Safety
    /// The query must be palloc'd, node by node, and nobody else's.
    pub(super) unsafe fn become_parameters(self) {
        const { assert!(size_of::<pg_sys::Param>() <= size_of::<pg_sys::Const>()) }
        for (at, Literal { node, .. }) in self.0.into_iter().enumerate() {
            // SAFETY: by contract; a parameter fits into what a constant has.
            unsafe {
                let constant = *node;
                node.cast::<pg_sys::Param>().write(pg_sys::Param {
                    xpr: pg_sys::Expr {
                        type_: NodeTag::T_Param,
                    },
                    paramkind: pg_sys::ParamKind::PARAM_EXTERN,
                    paramid: at as i32 + 1,
                    paramtype: constant.consttype,
                    paramtypmod: constant.consttypmod,
                    paramcollid: constant.constcollid,
                    location: constant.location,
                });
            }
        }
    }

    /// Themselves, in their order.
    pub(super) fn constants(&self) -> impl ExactSizeIterator<Item = *mut pg_sys::Const> + '_ {
        self.0.iter().map(|literal| literal.node)
    }
}

impl Literal {
    /// The value of a bound; NULL as 0.
    fn integer(&self) -> i64 {
        // SAFETY: the node is the query's, of a type that is passed by value.
        let constant = unsafe { &*self.node };
        if constant.constisnull {
            return 0;
        }
        match constant.constlen {
            2 => i64::from(constant.constvalue.value() as i16),
            4 => i64::from(constant.constvalue.value() as i32),
            _ => constant.constvalue.value() as i64,
        }
    }
}

impl Span {
    /// Is this one of a column not much wider than one of the same columns? What is narrower needs no other plan.
    pub(super) fn is_within(&self, planned: &Span) -> bool {
        self.column == planned.column && self.width / 2 <= planned.width
    }
}
