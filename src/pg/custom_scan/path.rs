//! Paths of our nodes, and the plans that the planner makes of those that it chooses. All of it is in the planner's memory.

use super::methods::CustomScan;
use super::plan::expressions_of;
use super::SUPPORTS_PROJECTION;
use crate::pg::expression::Expression;
use crate::pg::node::{integer_list, integers, items, list, make, name};
use crate::pg::path::Path;
use crate::pg::path_target::PathTarget;
use crate::pg::planned_table::{PlannedTable, Restriction};
use crate::pg::planner::Planner;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, CustomPathMethods, List, Node, NodeTag, PlannerInfo, RelOptInfo};
use std::ffi::{CStr, CString};

/// A kind of paths of ours.
pub trait CustomPlanner: Sized + 'static {
    /// What runs the plan.
    type Node: CustomScan;
    /// Not to be changed.
    const METHODS: &'static PathMethods = &PathMethods::of::<Self>();

    /// The plan of a path that was chosen. Within a guarded entry point.
    fn plan<'a>(chosen: Chosen<'a>) -> NewPlan<'a>;
}

/// The table by which the planner finds the functions of a kind of paths.
pub struct PathMethods(pub(super) CustomPathMethods);

impl PathMethods {
    const fn of<K: CustomPlanner>() -> PathMethods {
        PathMethods(CustomPathMethods {
            CustomName: K::Node::NAME.as_ptr(),
            PlanCustomPath: Some(plan::<K>),
            ReparameterizeCustomPathByChild: None,
        })
    }
}

/// What a path leaves for its plan, or a plan for its node: a member of the private list of one.
#[derive(Clone)]
pub enum Private<'a> {
    /// Nothing, or an empty list of any kind.
    Nothing,
    Integers(Vec<i32>),
    /// Some may be missing.
    Expressions(Vec<Option<Expression<'a>>>),
    Text(CString),
}

impl<'a> Private<'a> {
    /// A list of expressions.
    pub fn expressions(all: impl IntoIterator<Item = Expression<'a>>) -> Private<'a> {
        Private::Expressions(all.into_iter().map(Some).collect())
    }

    /// The integers that it is a list of.
    pub fn into_integers(self) -> Vec<i32> {
        match self {
            Private::Nothing => Vec::new(),
            Private::Integers(integers) => integers,
            _ => panic!("BUG: a path's list is not of integers"),
        }
    }

    /// The expressions that it is a list of, none of which is missing.
    pub fn into_expressions(self) -> Vec<Expression<'a>> {
        match self {
            Private::Nothing => Vec::new(),
            Private::Expressions(all) => {
                let all: Option<Vec<_>> = all.into_iter().collect();
                all.expect("BUG: a path without one of its expressions")
            }
            _ => panic!("BUG: a path's list is not of expressions"),
        }
    }

    /// In the current memory context.
    fn node(&self) -> *mut Node {
        match self {
            Private::Nothing => core::ptr::null_mut(),
            Private::Integers(all) => integer_list(all.iter().copied()).cast(),
            Private::Expressions(all) => list_of(all.iter().copied()).cast(),
            // SAFETY: a copy of a name.
            Private::Text(text) => unsafe { pg_sys::makeString(name(text)).cast() },
        }
    }

    /// # Safety
    /// `node` must be of the private list of a path of ours.
    unsafe fn of(node: *mut Node) -> Private<'a> {
        if node.is_null() {
            return Private::Nothing;
        }
        // SAFETY: a node of a private list; its tag says what it is.
        unsafe {
            match (*node).type_ {
                NodeTag::T_IntList => Private::Integers(integers(node.cast())),
                NodeTag::T_List => {
                    let all = items(node.cast()).map(|node| Expression::existing(node));
                    Private::Expressions(all.collect())
                }
                NodeTag::T_String => {
                    let text = CStr::from_ptr((*node.cast::<pg_sys::String>()).sval);
                    Private::Text(text.to_owned())
                }
                _ => panic!("BUG: something else in a path's list"),
            }
        }
    }
}

/// A list of expressions, in the current memory context; null for one that is missing.
fn list_of<'a>(all: impl IntoIterator<Item = Option<Expression<'a>>>) -> *mut List {
    let none = core::ptr::null_mut();
    list(
        all.into_iter()
            .map(|one| one.map_or(none, Expression::as_ptr)),
    )
}

/// A list that `Private::of` reads, in the current memory context.
pub(super) fn private_list(all: &[Private<'_>]) -> *mut List {
    list(all.iter().map(Private::node))
}

/// # Safety
/// `path` must be one of ours.
unsafe fn private_of<'a>(path: *mut pg_sys::CustomPath) -> Vec<Private<'a>> {
    // SAFETY: a path of ours has a private list that we have made.
    unsafe {
        items((*path).custom_private)
            .map(|node| Private::of(node))
            .collect()
    }
}

/// A path of ours.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CustomPath<'a> {
    path: NonNull<pg_sys::CustomPath>,
    kept: PhantomData<&'a pg_sys::CustomPath>,
}

impl<'a> Planner<'a> {
    /// A path that makes rows of a relation, with nothing below it, in any order. It has no costs yet.
    pub fn custom_path<K: CustomPlanner>(
        self,
        table: PlannedTable<'a>,
        target: PathTarget<'a>,
        private: &[Private<'a>],
    ) -> CustomPath<'a> {
        // SAFETY: a new node, which begins with a path, and is nobody else's.
        unsafe { CustomPath::with_methods(table, target, private, &K::METHODS.0) }
    }
}

impl<'a> CustomPath<'a> {
    /// # Safety
    /// The methods must be those of a kind of paths which leaves this for its plans.
    pub(super) unsafe fn with_methods(
        table: PlannedTable<'a>,
        target: PathTarget<'a>,
        private: &[Private<'a>],
        methods: &'static CustomPathMethods,
    ) -> CustomPath<'a> {
        // SAFETY: a new node, which is nobody else's.
        unsafe {
            let path = make::<pg_sys::CustomPath>(NodeTag::T_CustomPath);
            (*path).path.pathtype = NodeTag::T_CustomScan;
            (*path).path.parent = table.as_ptr();
            (*path).path.pathtarget = target.as_ptr();
            (*path).flags = SUPPORTS_PROJECTION;
            (*path).custom_private = private_list(private);
            (*path).methods = methods;
            CustomPath {
                path: NonNull::new_unchecked(path),
                kept: PhantomData,
            }
        }
    }

    /// What the planner sees of it.
    pub fn path(self) -> Path<'a> {
        // SAFETY: the handle's path is valid, and begins with that.
        unsafe { Path::from_ptr(self.path.as_ptr().cast()) }
    }

    /// Another one like it.
    pub fn copy(self) -> CustomPath<'a> {
        let size = size_of::<pg_sys::CustomPath>();
        // SAFETY: the handle's path is valid; what both point to stays as it is.
        unsafe {
            let copy = pg_sys::palloc(size).cast::<pg_sys::CustomPath>();
            *copy = *self.path.as_ptr();
            CustomPath {
                path: NonNull::new_unchecked(copy),
                kept: PhantomData,
            }
        }
    }

    /// Has it read the rows of another path.
    pub fn set_source(self, source: Path<'a>) {
        // SAFETY: the handle's path is valid.
        unsafe { (*self.path.as_ptr()).custom_paths = list([source.as_ptr()]) };
    }

    /// Leaves something else for its plan at a place, from 0.
    pub fn set_private(self, at: usize, private: Private<'a>) {
        // SAFETY: the handle's path is valid.
        unsafe {
            let path = self.path.as_ptr();
            let mut all = private_of(path);
            all[at] = private;
            (*path).custom_private = private_list(&all);
        }
    }
}

/// A path that was chosen, with what its plan is made of.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    path: *mut pg_sys::CustomPath,
    targets: *mut List,
    clauses: *mut List,
    plans: *mut List,
    /// That whose rows it makes.
    pub table: PlannedTable<'a>,
}

/// A plan below one of ours.
#[derive(Clone, Copy)]
pub struct SourcePlan<'a> {
    plan: *mut pg_sys::Plan,
    kept: PhantomData<&'a pg_sys::Plan>,
}

/// What a plan says besides what all plans say.
pub struct NewPlan<'a> {
    /// The number of the table that it scans in the query; 0 for none.
    pub table: u32,
    /// Expressions that core sees to; some may be missing.
    pub expressions: Vec<Option<Expression<'a>>>,
    /// The columns of its own rows; none: those of the table.
    pub columns: Vec<Expression<'a>>,
    /// Expressions over the table's rows that only the node itself evaluates: nothing that it hands up is made of their values. Only where there are
    /// columns.
    pub kept: Vec<Expression<'a>>,
    pub private: Vec<Private<'a>>,
}

impl<'a> Chosen<'a> {
    /// What the path has left for its plan.
    pub fn private(self) -> Vec<Private<'a>> {
        // SAFETY: a path of ours that is planned.
        unsafe { private_of(self.path) }
    }

    /// Do parallel workers share what it makes?
    pub fn is_shared(self) -> bool {
        // SAFETY: a path that is planned.
        unsafe { (*self.path).path.parallel_aware }
    }

    /// What the plan is to hand up.
    pub fn targets(self) -> impl Iterator<Item = Expression<'a>> {
        // SAFETY: a list of target entries.
        unsafe { expressions_of(self.targets) }
    }

    /// The conditions that the plan has to see to, in the order in which they may be evaluated.
    pub fn conditions(self) -> impl Iterator<Item = Restriction<'a>> {
        // SAFETY: a list of conditions.
        unsafe { Restriction::of_list(self.clauses) }
    }

    /// The plan below it.
    pub fn source(self) -> Option<SourcePlan<'a>> {
        let kept = PhantomData;
        // SAFETY: a list of plans.
        let plan = unsafe { items(self.plans) }.next()?;
        Some(SourcePlan { plan, kept })
    }
}

impl SourcePlan<'_> {
    /// Which of its columns, from 1, an expression is.
    pub fn place_of(self, expression: Expression<'_>) -> Option<i16> {
        // SAFETY: a plan has a list of target entries.
        unsafe {
            items::<pg_sys::TargetEntry>((*self.plan).targetlist)
                .find(|entry| Expression::from_ptr((**entry).expr.cast()).equals(expression))
                .map(|entry| (*entry).resno)
        }
    }
}

unsafe extern "C-unwind" fn plan<K: CustomPlanner>(
    _root: *mut PlannerInfo,
    table: *mut RelOptInfo,
    path: *mut pg_sys::CustomPath,
    targets: *mut List,
    clauses: *mut List,
    plans: *mut List,
) -> *mut pg_sys::Plan {
    // SAFETY: called by the planner for a path of that kind, with valid arguments.
    unsafe {
        pgrx_extern_c_guard(|| {
            let new = K::plan(Chosen {
                path,
                targets,
                clauses,
                plans,
                table: PlannedTable::from_ptr(table),
            });
            let scan = make::<pg_sys::CustomScan>(NodeTag::T_CustomScan);
            (*scan).scan.plan.targetlist = targets;
            (*scan).scan.scanrelid = new.table;
            (*scan).flags = (*path).flags;
            (*scan).custom_plans = plans;
            (*scan).custom_exprs = list_of(new.expressions);
            (*scan).custom_scan_tlist = entries_of(&new.columns, &new.kept);
            (*scan).custom_private = private_list(&new.private);
            (*scan).methods = K::Node::METHODS.scan();
            scan.cast()
        })
    }
}

/// Target entries, without names: of the columns, and behind them, marked as junk, of what is kept. The planner takes a part of what is handed up for a column of the
/// node's own row where they are equal. So what is kept is wrapped.
fn entries_of(columns: &[Expression<'_>], kept: &[Expression<'_>]) -> *mut List {
    let columns = columns.iter().map(|column| (column.as_ptr(), false));
    // SAFETY: a plan is made here, in the planner's memory.
    let wrapped = |kept: &Expression<'_>| unsafe { kept.cast_to_its_own() }.as_ptr();
    let kept = kept.iter().map(|kept| (wrapped(kept), true));
    list(columns.chain(kept).zip(1..).map(|((node, junk), number)| {
        let no_name = core::ptr::null_mut();
        // SAFETY: valid expressions.
        unsafe { pg_sys::makeTargetEntry(node.cast(), number, no_name, junk) }
    }))
}
