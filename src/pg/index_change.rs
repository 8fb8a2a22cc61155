//! Changes of indexes that are no statements of the user's: nobody is asked whether he may, and event triggers do not hear of them.

use super::node;
use pgrx::pg_sys::{self, NodeTag, Oid};
use std::ffi::CStr;

/// Gives an index a name that is free in its schema.
pub fn rename(index: Oid, name: &CStr) {
    let (is_internal, is_index) = (false, true);
    // SAFETY: raises an error where there is no such index, or the name is taken.
    unsafe { pg_sys::RenameRelationInternal(index, name.as_ptr(), is_internal, is_index) }
}

/// Sets a storage parameter of an index back to its default.
pub fn reset(index: Oid, parameter: &CStr) {
    let (nothing, recurse) = (core::ptr::null_mut(), false);
    // SAFETY: nodes of these types; raises an error where there is no such index, which ends the statement that events are collected
    // for.
    unsafe {
        let command: *mut pg_sys::AlterTableCmd = node::make(NodeTag::T_AlterTableCmd);
        (*command).subtype = pg_sys::AlterTableType::AT_ResetRelOptions;
        let named = pg_sys::makeDefElem(node::name(parameter), nothing, -1);
        (*command).def = node::list([named]).cast();
        pg_sys::EventTriggerInhibitCommandCollection();
        pg_sys::AlterTableInternal(index, node::list([command]), recurse);
        pg_sys::EventTriggerUndoInhibitCommandCollection();
    }
}
