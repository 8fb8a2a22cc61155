//! The planner's hook for what stands above scans and joins: groupings, and the sources of INSERT and DELETE.

use super::{aggregate, chunk_delete, conflict_filter};
use crate::pg::node::{cast, items};
use pgrx::pg_sys::{self, Node, NodeTag};
use pgrx::prelude::*;

static mut NEXT: pg_sys::create_upper_paths_hook_type = None;

pub fn init() {
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::create_upper_paths_hook;
        pg_sys::create_upper_paths_hook = Some(create_upper_paths);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn create_upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut core::ffi::c_void,
) {
    // SAFETY: called by the planner with valid arguments.
    unsafe {
        if let Some(next) = NEXT {
            pg_sys::ffi::pg_guard_ffi_boundary(|| next(root, stage, input, output, extra));
        }
        match stage {
            pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG => {
                aggregate::offer(root, input, output, extra.cast());
            }
            pg_sys::UpperRelationKind::UPPERREL_FINAL => {
                let paths = items::<Node>((*output).pathlist);
                for modify in paths.filter_map(|path| cast(path, NodeTag::T_ModifyTablePath)) {
                    conflict_filter::offer(root, modify);
                    chunk_delete::offer(root, modify);
                }
            }
            _ => {}
        }
    }
}
