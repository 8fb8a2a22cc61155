//! The plan of a node of ours.

use crate::pg::expression::{Expression, Expressions};
use crate::pg::expression_kinds::Kind;
use crate::pg::node::{cast, integers, items};
use core::ptr::NonNull;
use pgrx::pg_sys::{self, CustomScan, List, Node, NodeTag};
use std::ffi::CStr;

/// A plan of ours. It outlives its node.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CustomPlan(NonNull<CustomScan>);

impl CustomPlan {
    /// # Safety
    /// `plan` must be a plan of ours, and valid as long as the handle is used.
    #[inline]
    pub(super) unsafe fn from_ptr(plan: *mut CustomScan) -> CustomPlan {
        debug_assert!(!plan.is_null());
        // SAFETY: by contract: what is valid is not null.
        CustomPlan(unsafe { NonNull::new_unchecked(plan) })
    }

    #[inline]
    fn data<'a>(self) -> &'a CustomScan {
        // SAFETY: valid as long as the handle is used, as `from_ptr` asks; nobody writes to a plan that is executed.
        unsafe { self.0.as_ref() }
    }

    /// How many rows the planner expects of it.
    pub fn expected_rows(self) -> f64 {
        self.data().scan.plan.plan_rows
    }

    /// The place of its table in the range table, from 1; 0 for none.
    pub fn table_number(self) -> u32 {
        self.data().scan.scanrelid
    }

    /// Its expressions, none of which is missing. Core sees to them as it does to those of its own plans.
    pub fn expressions(self) -> Expressions<'static> {
        // SAFETY: a list of expressions; the plan outlives its node.
        unsafe { Expressions::of_plan(self.data().custom_exprs) }
    }

    /// The same, some of which may be missing.
    pub(super) fn existing_expressions(self) -> impl Iterator<Item = Option<Expression<'static>>> {
        // SAFETY: as above.
        unsafe { items::<Node>(self.data().custom_exprs).map(|node| Expression::existing(node)) }
    }

    fn target_list(self) -> *mut List {
        self.data().scan.plan.targetlist
    }

    /// Those that make the rows that it hands up.
    pub fn targets(self) -> impl Iterator<Item = Expression<'static>> {
        // SAFETY: a list of target entries; the plan outlives its node.
        unsafe { expressions_of(self.target_list()) }
    }

    /// The expressions that the columns of its own rows stand for.
    pub fn columns(self) -> Vec<Expression<'static>> {
        self.own_entries(false).collect()
    }

    /// Those that are kept for the node alone.
    pub fn kept(self) -> Vec<Expression<'static>> {
        let inner = |entry: Expression<'static>| match entry.kind() {
            Kind::Relabel(wrapped) => wrapped.argument(),
            _ => panic!("BUG: an expression that is kept without a wrapper"),
        };
        self.own_entries(true).map(inner).collect()
    }

    /// The expressions of its own row: columns, or what is kept.
    fn own_entries(self, is_kept: bool) -> impl Iterator<Item = Expression<'static>> {
        // SAFETY: a list of target entries, each of which has an expression; the plan outlives its node.
        unsafe {
            items::<pg_sys::TargetEntry>(self.data().custom_scan_tlist)
                .filter(move |entry| (**entry).resjunk == is_kept)
                .map(|entry| Expression::from_ptr((*entry).expr.cast()))
        }
    }

    /// The types of these.
    pub fn column_types(self) -> Vec<pg_sys::Oid> {
        self.columns().into_iter().map(Expression::typ).collect()
    }

    /// The columns of the table, from 1, that it hands up, if it hands up nothing else. Numbers from 0 downwards are those of system columns
    /// and of whole rows.
    pub fn plain_columns(self) -> Option<Vec<i16>> {
        // SAFETY: a list of target entries, whose references are to the node's table.
        unsafe {
            let entries = items::<pg_sys::TargetEntry>(self.target_list());
            let column = |entry: *mut pg_sys::TargetEntry| {
                cast::<pg_sys::Var>((*entry).expr.cast(), NodeTag::T_Var).map(|var| (*var).varattno)
            };
            entries.map(column).collect()
        }
    }

    /// Is what it hands up the first so many of its own columns, in their order?
    pub fn takes_the_first(self, columns: usize) -> bool {
        // SAFETY: a list of target entries; the planner has made references to the node's own row of them.
        unsafe {
            let entries = crate::pg::node::of_list::<pg_sys::TargetEntry>(self.target_list());
            let is_nth = |(entry, number): (*mut pg_sys::TargetEntry, i16)| {
                let var = cast::<pg_sys::Var>((*entry).expr.cast(), NodeTag::T_Var);
                var.is_some_and(|var| {
                    (*var).varno == pg_sys::INDEX_VAR && (*var).varattno == number
                })
            };
            entries.len() == columns && entries.into_iter().zip(1..).all(is_nth)
        }
    }

    /// What the planner has left for the node at a place of its private list.
    fn private(self, at: usize) -> *mut Node {
        // SAFETY: a list of nodes.
        let node = unsafe { items(self.data().custom_private) }.nth(at);
        node.expect("BUG: a plan without one of its lists")
    }

    /// A list of integers that the planner has left for it, by its place.
    pub fn private_integers(self, at: usize) -> Vec<i32> {
        let list = self.private(at);
        // SAFETY: a node's tag says what it is; an empty list is null.
        unsafe {
            let is_list = list.is_null() || (*list).type_ == NodeTag::T_IntList;
            assert!(is_list, "BUG: a plan's list is not of integers");
            integers(list.cast())
        }
    }

    /// A list of expressions that the planner has left for it, by its place.
    pub fn private_expressions(self, at: usize) -> Expressions<'static> {
        let list = self.private(at);
        // SAFETY: as above; the plan outlives its node.
        unsafe {
            let is_list = list.is_null() || (*list).type_ == NodeTag::T_List;
            assert!(is_list, "BUG: a plan's list is not of expressions");
            Expressions::of_plan(list.cast())
        }
    }

    /// The text that the planner has left for it, if it has left one.
    pub fn private_text<'a>(self) -> Option<&'a CStr> {
        // SAFETY: a list of nodes; a node's tag says what it is; a string has a text, which lives as long as the plan.
        unsafe {
            let first = items::<Node>(self.data().custom_private).next()?;
            let text = cast::<pg_sys::String>(first, NodeTag::T_String)?;
            Some(CStr::from_ptr((*text).sval))
        }
    }

    /// The plan below it.
    pub(super) fn child(self) -> *mut pg_sys::Plan {
        // SAFETY: a list of plans.
        let child = unsafe { items(self.data().custom_plans) }.next();
        child.expect("BUG: a node without a source")
    }
}

/// The expressions of target entries.
///
/// # Safety
/// `list` must be NIL or a list of such, and valid as long as a handle is used.
pub(super) unsafe fn expressions_of<'a>(list: *mut List) -> impl Iterator<Item = Expression<'a>> {
    // SAFETY: a list of target entries, each of which has an expression.
    unsafe {
        items::<pg_sys::TargetEntry>(list).map(|entry| Expression::from_ptr((*entry).expr.cast()))
    }
}
