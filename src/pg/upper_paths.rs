//! The planner's hook for what stands above scans and joins: groupings, and statements that change a table.

use super::callbacks::Callbacks;
use super::core_paths::{GroupStep, Strategy};
use super::expression::{conjuncts, Expression};
use super::node::{cast, items, list};
use super::path::Path;
use super::path_target::PathTarget;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, NodeTag, UpperRelationKind};

/// What is offered above scans and joins, when core has made its own paths. All functions run within a guarded entry point.
pub trait UpperPaths: 'static {
    /// For a grouping of a query, or of a partition.
    fn grouping(_grouping: Grouping<'_>) {}

    /// For a path of a statement that changes a table.
    fn change<'a>(_planner: Planner<'a>, _path: ChangePath<'a>) {}
}

/// The functions of an `UpperPaths`.
#[derive(Clone, Copy)]
struct Calls {
    grouping: for<'a> fn(Grouping<'a>),
    change: for<'a> fn(Planner<'a>, ChangePath<'a>),
}

static mut NEXT: pg_sys::create_upper_paths_hook_type = None;

thread_local! {
    static CALLS: Callbacks<Calls> = const { Callbacks::none() };
}

/// To be called when a backend loads the library.
pub fn install<U: UpperPaths>() {
    let calls = Calls {
        grouping: U::grouping,
        change: U::change,
    };
    if !CALLS.with(|all| all.add(calls)) {
        return;
    }
    // SAFETY: called when a backend loads the library, once.
    unsafe {
        NEXT = pg_sys::create_upper_paths_hook;
        pg_sys::create_upper_paths_hook = Some(create_upper_paths);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn create_upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut core::ffi::c_void,
) {
    // SAFETY: called by the planner with valid arguments; hooks are C functions and may raise.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, stage, input, output, extra));
        }
        let planner = Planner::from_ptr(root);
        for calls in CALLS.with(Callbacks::all) {
            match stage {
                UpperRelationKind::UPPERREL_GROUP_AGG => (calls.grouping)(Grouping {
                    planner,
                    input: PlannedTable::from_ptr(input),
                    output: PlannedTable::from_ptr(output),
                    extra: extra.cast(),
                }),
                UpperRelationKind::UPPERREL_FINAL => {
                    for path in items::<pg_sys::Node>((*output).pathlist) {
                        if let Some(path) = cast(path, NodeTag::T_ModifyTablePath) {
                            (calls.change)(planner, ChangePath::from_ptr(path));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// A grouping that is being planned.
#[derive(Clone, Copy)]
pub struct Grouping<'a> {
    pub planner: Planner<'a>,
    /// What is grouped.
    pub input: PlannedTable<'a>,
    /// What stands for the groups.
    pub output: PlannedTable<'a>,
    /// Null, or what core knows of it.
    extra: *mut pg_sys::GroupPathExtraData,
}

impl<'a> Grouping<'a> {
    fn has(self, flag: u32) -> bool {
        // SAFETY: null, or valid while the hook is called.
        unsafe { self.extra.as_ref() }.is_some_and(|extra| extra.flags & flag as i32 != 0)
    }

    /// May it be done in two steps, as parallel ones are?
    pub fn can_be_split(self) -> bool {
        self.has(pg_sys::GROUPING_CAN_PARTIAL_AGG)
    }

    /// May groups be told apart by their order?
    pub fn can_be_sorted(self) -> bool {
        self.has(pg_sys::GROUPING_CAN_USE_SORT)
    }

    /// May groups be told apart by a table of hashes?
    pub fn can_be_hashed(self) -> bool {
        self.has(pg_sys::GROUPING_CAN_USE_HASH)
    }

    /// Null, or a list of what HAVING says.
    fn conditions(self) -> *mut pg_sys::Node {
        // SAFETY: null, or valid while the hook is called.
        unsafe { self.extra.as_ref() }.map_or(core::ptr::null_mut(), |extra| extra.havingQual)
    }

    /// Is there a HAVING?
    pub fn has_conditions(self) -> bool {
        !self.conditions().is_null()
    }

    /// What HAVING says, taken apart at its AND.
    pub fn having(self) -> Vec<Expression<'a>> {
        // SAFETY: null, a list, or an expression.
        unsafe { conjuncts(self.conditions()) }
    }

    /// Core's final step above a path that makes states of so many groups.
    pub fn final_step(self, path: Path<'a>, strategy: Strategy, groups: f64) -> Path<'a> {
        let (planner, table) = (self.planner, self.output);
        let step = (GroupStep::Final(self.conditions()), strategy);
        // SAFETY: the conditions are the query's.
        unsafe { planner.group(table, path, table.target(), step, groups) }
    }

    /// The relation that stands for so many groups of an input before the final step, and hands up that target.
    pub fn partial(
        self,
        input: PlannedTable<'a>,
        target: PathTarget<'a>,
        groups: f64,
    ) -> PlannedTable<'a> {
        // SAFETY: valid handles; what comes out lives as long as the query.
        unsafe {
            let (root, relids) = (self.planner.as_ptr(), (*input.as_ptr()).relids);
            let kind = UpperRelationKind::UPPERREL_PARTIAL_GROUP_AGG;
            let partial = pg_sys::fetch_upper_rel(root, kind, relids);
            (*partial).reltarget = target.as_ptr();
            (*partial).rows = groups;
            PlannedTable::from_ptr(partial)
        }
    }

    /// Has these paths make the groups, and no others.
    ///
    /// # Safety
    /// They must make the rows of the output. Nobody may walk its paths meanwhile.
    pub unsafe fn replace_paths(self, paths: impl IntoIterator<Item = Path<'a>>) {
        let paths = list(paths.into_iter().map(|path| path.as_ptr()));
        // SAFETY: a valid handle; the paths make its rows.
        unsafe { (*self.output.as_ptr()).pathlist = paths };
    }
}

/// A path of a statement that changes a table.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ChangePath<'a> {
    path: NonNull<pg_sys::ModifyTablePath>,
    kept: PhantomData<&'a pg_sys::ModifyTablePath>,
}

impl<'a> ChangePath<'a> {
    /// # Safety
    /// `path` must be valid as long as the handle is used.
    unsafe fn from_ptr(path: *mut pg_sys::ModifyTablePath) -> ChangePath<'a> {
        ChangePath {
            // SAFETY: what the caller says is valid is not null.
            path: unsafe { NonNull::new_unchecked(path) },
            kept: PhantomData,
        }
    }

    fn fields(&self) -> &pg_sys::ModifyTablePath {
        // SAFETY: the handle's path is valid.
        unsafe { self.path.as_ref() }
    }

    /// What makes the rows that are changed.
    pub fn source(self) -> Path<'a> {
        // SAFETY: the handle's path is valid, and has one below.
        unsafe { Path::from_ptr(self.fields().subpath) }
    }

    /// Has another path make them, with the same target.
    ///
    /// # Safety
    /// It must hand on rows of the one before.
    pub unsafe fn set_source(self, source: Path<'a>) {
        // SAFETY: the handle's path is valid; the source hands on the same rows.
        unsafe { (*self.path.as_ptr()).subpath = source.as_ptr() };
    }

    /// Does the statement say how many rows it has changed?
    pub fn counts_rows(self) -> bool {
        self.fields().canSetTag
    }

    /// Do policies or a view check what is stored?
    pub fn has_checks(self) -> bool {
        !self.fields().withCheckOptionLists.is_null()
    }
}
