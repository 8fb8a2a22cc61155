//! Expressions of queries and plans, looked at where they are. `expression_kinds` says what one is.

use super::bare;
use super::expression_kinds::Kind;
use super::memory;
use super::node::{list, make};
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary, Datum, Interval, List, Node, NodeTag, Oid};
use pgrx::prelude::*;

/// The place in the text of a query of what is not of the query. That of what core makes is -1.
const MADE: i32 = -2;

/// An expression, or a part of one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Expression<'a> {
    node: NonNull<Node>,
    kept: PhantomData<&'a Node>,
}

/// What a walk does after it has seen a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It sees the parts of this part.
    Into,
    /// It passes them by.
    Past,
    /// It ends.
    Stop,
}

impl Expression<'_> {
    /// An expression that PostgreSQL hands out.
    ///
    /// # Safety
    /// `node` must be of an expression, and valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr<'a>(node: *mut Node) -> Expression<'a> {
        debug_assert!(!node.is_null());
        Expression {
            // SAFETY: by contract: what is valid is not null.
            node: unsafe { NonNull::new_unchecked(node) },
            kept: PhantomData,
        }
    }

    /// The same of one that may be missing.
    ///
    /// # Safety
    /// As `from_ptr`, unless `node` is null.
    #[inline]
    pub unsafe fn existing<'a>(node: *mut Node) -> Option<Expression<'a>> {
        let kept = PhantomData;
        NonNull::new(node).map(|node| Expression { node, kept })
    }

    /// A constant of a type without collation, in the current memory context.
    ///
    /// # Safety
    /// `value` must be of that type and fixed length; the memory context must live as long as the handle is used.
    pub unsafe fn constant<'a>(typ: Oid, value: Datum) -> Expression<'a> {
        let (mut length, mut by_value) = (0, false);
        // SAFETY: by contract; a syscache look-up, and a node of its own.
        unsafe {
            pg_sys::get_typlenbyval(typ, &mut length, &mut by_value);
            let none = pg_sys::InvalidOid;
            let length = length.into();
            let made = pg_sys::makeConst(typ, -1, none, length, value, false, by_value);
            Expression::from_ptr(made.cast())
        }
    }

    /// A constant interval, in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used.
    pub unsafe fn interval<'a>(interval: Interval) -> Expression<'a> {
        // SAFETY: by contract; the value has memory of its own.
        unsafe {
            let value = memory::current().place(interval);
            Expression::constant(pg_sys::INTERVALOID, Datum::from(value))
        }
    }

    /// A call of a function without collations, in the current memory context.
    ///
    /// # Safety
    /// The function must take these arguments and return that type; the memory context must live as long as the handle is used.
    pub unsafe fn call<'a>(function: Oid, typ: Oid, arguments: Expressions<'a>) -> Expression<'a> {
        let (form, none) = (
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
            pg_sys::InvalidOid,
        );
        // SAFETY: by contract.
        unsafe {
            let call = pg_sys::makeFuncExpr(function, typ, arguments.as_ptr(), none, none, form);
            Expression::from_ptr(call.cast())
        }
    }

    /// `left operator right`, of truth values and without collations, in the current memory context.
    ///
    /// # Safety
    /// The operator must take these sides, and say whether something holds; the memory context must live as long as the handle is used.
    pub unsafe fn comparison<'a>(
        operator: Oid,
        left: Expression<'a>,
        right: Expression<'a>,
    ) -> Expression<'a> {
        let (left, right) = (left.as_ptr().cast(), right.as_ptr().cast());
        let (typ, none) = (pg_sys::BOOLOID, pg_sys::InvalidOid);
        // SAFETY: by contract; what is made is an operator's node.
        unsafe {
            let made = pg_sys::make_opclause(operator, typ, false, left, right, none, none);
            let operation: *mut pg_sys::OpExpr = made.cast();
            (*operation).opfuncid = pg_sys::get_opcode(operator);
            Expression::from_ptr(made.cast())
        }
    }

    /// `CASE WHEN condition THEN value ELSE other END`, of a type without collation, in the current memory context.
    ///
    /// # Safety
    /// The condition must be a truth value, and the others be of one type; the memory context must live as long as the handle is used.
    pub unsafe fn choice<'a>(
        condition: Expression<'a>,
        value: Expression<'a>,
        other: Expression<'a>,
    ) -> Expression<'a> {
        // SAFETY: by contract; new nodes, which are nobody else's.
        unsafe {
            let when = make::<pg_sys::CaseWhen>(NodeTag::T_CaseWhen);
            (*when).expr = condition.as_ptr().cast();
            (*when).result = value.as_ptr().cast();
            (*when).location = -1;
            let choice = make::<pg_sys::CaseExpr>(NodeTag::T_CaseExpr);
            (*choice).casetype = value.typ();
            (*choice).args = list([when]);
            (*choice).defresult = other.as_ptr().cast();
            (*choice).location = -1;
            Expression::from_ptr(choice.cast())
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut Node {
        self.node.as_ptr()
    }

    #[inline]
    pub fn typ(self) -> Oid {
        // SAFETY: the handle's node is valid.
        unsafe { pg_sys::exprType(self.as_ptr()) }
    }

    /// By which its value is compared; InvalidOid for a type without collations.
    #[inline]
    pub fn collation(self) -> Oid {
        // SAFETY: as above.
        unsafe { pg_sys::exprCollation(self.as_ptr()) }
    }

    /// Does its value depend on a row of the query that it stands in?
    #[inline]
    pub fn has_columns(self) -> bool {
        // SAFETY: as above.
        unsafe { pg_sys::contain_var_clause(self.as_ptr()) }
    }

    /// May its value change from one evaluation to the next? Within a guarded entry point.
    #[inline]
    pub fn is_volatile(self) -> bool {
        // SAFETY: as above; look-ups in the catalog.
        unsafe { pg_sys::contain_volatile_functions(self.as_ptr()) }
    }

    /// Does it give several values for one row?
    #[inline]
    pub fn returns_set(self) -> bool {
        // SAFETY: as above.
        unsafe { pg_sys::expression_returns_set(self.as_ptr()) }
    }

    /// Is it written as another one is, but for where?
    #[inline]
    pub fn equals(self, other: Expression<'_>) -> bool {
        // SAFETY: valid nodes.
        unsafe { pg_sys::equal(self.as_ptr().cast(), other.as_ptr().cast()) }
    }

    /// Is it the constant NULL?
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self.kind(), Kind::Constant(constant) if constant.is_null())
    }
}

impl<'a> Expression<'a> {
    /// What it is.
    #[inline]
    pub fn kind(self) -> Kind<'a> {
        // SAFETY: the handle's node is valid.
        unsafe { Kind::of(self.node) }
    }

    /// Shows the expression and its parts, each before its own, as `see` wants. Within a guarded entry point.
    pub fn visit(self, mut see: impl FnMut(Expression<'a>) -> Step) {
        let mut walk = Walk { see: &mut see };
        // SAFETY: the handle's node is valid; what `see` refers to outlives the walk.
        unsafe { visit(self.as_ptr(), (&raw mut walk).cast()) };
    }

    /// Marks it as a condition that the query itself does not have, by a place in the query's text: core goes by none that is less than 0.
    ///
    /// # Safety
    /// It must be a comparison that this process has made, and no more than that.
    pub unsafe fn mark_as_made(self) {
        // SAFETY: by contract; what has been made is an operator's node.
        unsafe { (*self.as_ptr().cast::<pg_sys::OpExpr>()).location = MADE };
    }

    /// Is it an operator that `mark_as_made` was told of, or a copy of one?
    pub fn is_made(self) -> bool {
        let node: *mut pg_sys::OpExpr = self.as_ptr().cast();
        // SAFETY: a valid expression, of that type where its tag says so.
        unsafe { (*node).xpr.type_ == pg_sys::NodeTag::T_OpExpr && (*node).location == MADE }
    }

    /// A cast of the expression to its own type, in the current memory context: no query has that, so nothing of a query is taken for it.
    ///
    /// # Safety
    /// As `copy`.
    pub unsafe fn cast_to_its_own(self) -> Expression<'a> {
        let (node, typ, collation) = (self.as_ptr(), self.typ(), self.collation());
        let form = pg_sys::CoercionForm::COERCE_IMPLICIT_CAST;
        // SAFETY: by contract.
        unsafe {
            let modifier = pg_sys::exprTypmod(node);
            let cast = pg_sys::makeRelabelType(node.cast(), typ, modifier, collation, form);
            Expression::from_ptr(cast.cast())
        }
    }

    /// Another one like it, in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used.
    pub unsafe fn copy(self) -> Expression<'a> {
        // SAFETY: by contract; what comes out is of the same kind.
        unsafe { Expression::from_ptr(pg_sys::copyObjectImpl(self.as_ptr().cast()).cast()) }
    }

    /// The expression in another type, by a cast that the catalog has; None where it has none. The memory context is the current one.
    ///
    /// # Safety
    /// As `copy`.
    pub unsafe fn cast(self, to: Oid) -> Option<Expression<'a>> {
        // SAFETY: by contract; no parse state is needed for a conversion by function.
        unsafe {
            Expression::existing(pg_sys::coerce_to_target_type(
                core::ptr::null_mut(),
                self.as_ptr(),
                self.typ(),
                to,
                -1,
                pg_sys::CoercionContext::COERCION_EXPLICIT,
                pg_sys::CoercionForm::COERCE_IMPLICIT_CAST,
                -1,
            ))
        }
    }
}

/// The columns of a relation, by its number in the query, that expressions have, in rising order: from 1; 0 for the whole row, less for a system
/// column.
pub fn columns_of<'a>(
    table: u32,
    expressions: impl IntoIterator<Item = Expression<'a>>,
) -> Vec<i16> {
    let nodes = expressions
        .into_iter()
        .map(|expression| expression.as_ptr());
    // SAFETY: valid nodes.
    unsafe { columns_of_nodes(table, nodes) }
}

/// The same of nodes.
///
/// # Safety
/// Each must be null, an expression, or a list of expressions or of target entries.
pub(super) unsafe fn columns_of_nodes(
    table: u32,
    nodes: impl IntoIterator<Item = *mut Node>,
) -> Vec<i16> {
    let (mut columns, mut found) = (core::ptr::null_mut(), Vec::new());
    // SAFETY: what the caller says they are can be walked; the set is palloc'd.
    unsafe {
        for node in nodes.into_iter().filter(|node| !node.is_null()) {
            pg_sys::pull_varattnos(node, table, &mut columns);
        }
        let mut member = bare::bms_next_member(columns, -1);
        while member >= 0 {
            found.push((member + pg_sys::FirstLowInvalidHeapAttributeNumber) as i16);
            member = bare::bms_next_member(columns, member);
        }
    }
    found
}

/// What a condition says, taken apart at its AND: nothing where there is none, the members of a list, or the condition itself.
///
/// # Safety
/// `condition` must be null, an expression, or a list of such, and valid as long as a handle is used.
pub(super) unsafe fn conjuncts<'a>(condition: *mut Node) -> Vec<Expression<'a>> {
    // SAFETY: null or a node, whose tag says whether it is a list.
    unsafe {
        match super::node::cast::<List>(condition, NodeTag::T_List) {
            Some(list) => Expressions::from_ptr(list).iter().collect(),
            None => Vec::from_iter(Expression::existing(condition)),
        }
    }
}

/// A walk that is under way.
struct Walk<'w, 'a> {
    see: &'w mut dyn FnMut(Expression<'a>) -> Step,
}

/// True where the walk has ended.
#[pg_guard]
unsafe extern "C-unwind" fn visit(node: *mut Node, walk: *mut core::ffi::c_void) -> bool {
    // SAFETY: called by `Expression::visit`, and for the parts of an expression.
    unsafe {
        let Some(expression) = Expression::existing(node) else {
            return false;
        };
        match ((*walk.cast::<Walk<'_, '_>>()).see)(expression) {
            Step::Stop => true,
            Step::Past => false,
            Step::Into => {
                pg_guard_ffi_boundary(|| pg_sys::expression_tree_walker(node, Some(visit), walk))
            }
        }
    }
}

/// A list of expressions, such as a function's arguments.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Expressions<'a> {
    list: *mut List,
    kept: PhantomData<&'a List>,
}

impl Expressions<'_> {
    /// A list that PostgreSQL hands out.
    ///
    /// # Safety
    /// `list` must be NIL or a list of expressions, none of which is missing, and valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr<'a>(list: *mut List) -> Expressions<'a> {
        let kept = PhantomData;
        Expressions { list, kept }
    }

    /// What a condition says, taken apart at its AND, as the planner keeps it: a list; or nothing where it is none.
    ///
    /// # Safety
    /// `conditions` must be null, an expression, or a list as of `from_ptr`.
    #[inline]
    pub unsafe fn of_conjunction<'a>(conditions: *mut Node) -> Expressions<'a> {
        // SAFETY: by contract; the tag says that it is a list.
        unsafe {
            let list = super::node::cast(conditions, NodeTag::T_List);
            Expressions::from_ptr(list.unwrap_or(core::ptr::null_mut()))
        }
    }

    /// Those of a plan, or of what the planner has left for one.
    ///
    /// # Safety
    /// `list` must be NIL or a list of expressions, and valid as long as the handle is used.
    pub(super) unsafe fn of_plan<'a>(list: *mut List) -> Expressions<'a> {
        // SAFETY: a valid list, of which it is looked at whether one is missing.
        unsafe {
            let is_whole = super::node::items::<Node>(list).all(|node| !node.is_null());
            assert!(is_whole, "BUG: a plan without one of its expressions");
            Expressions::from_ptr(list)
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut List {
        self.list
    }

    #[inline]
    pub fn len(self) -> usize {
        // SAFETY: the handle's list is NIL or valid.
        unsafe { self.list.as_ref() }.map_or(0, |list| list.length as usize)
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<'a> Expressions<'a> {
    /// A list of these, in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used.
    pub unsafe fn of(all: impl IntoIterator<Item = Expression<'a>>) -> Expressions<'a> {
        let nodes = all.into_iter().map(|expression| expression.as_ptr());
        // SAFETY: by contract: a list of valid expressions.
        unsafe { Expressions::from_ptr(super::node::list(nodes)) }
    }

    /// One of them, from 0.
    #[inline]
    pub fn get(self, at: usize) -> Option<Expression<'a>> {
        // SAFETY: within a list of valid expressions.
        (at < self.len()).then(|| unsafe {
            Expression::from_ptr((*(*self.list).elements.add(at)).ptr_value.cast())
        })
    }

    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Expression<'a>> {
        (0..self.len()).filter_map(move |at| self.get(at))
    }

    /// All of them, where there are so many.
    #[inline]
    pub fn array<const N: usize>(self) -> Option<[Expression<'a>; N]> {
        if self.len() != N {
            return None;
        }
        let get = |at| self.get(at).expect("BUG: a list without its last entry");
        Some(core::array::from_fn(get))
    }
}
