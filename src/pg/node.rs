//! Parse nodes and their lists.

use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// A new node of zeroes.
///
/// # Safety
/// `T` must be the node type that `tag` names.
pub unsafe fn make<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: by contract; every node begins with its tag.
    unsafe {
        let node: *mut pg_sys::Node = pg_sys::palloc0(core::mem::size_of::<T>()).cast();
        (*node).type_ = tag;
        node.cast()
    }
}

/// Is this a node, and of that type?
///
/// # Safety
/// `node` must be null or point to a node.
pub unsafe fn is(node: *mut pg_sys::Node, tag: pg_sys::NodeTag) -> bool {
    // SAFETY: by contract.
    unsafe { !node.is_null() && (*node).type_ == tag }
}

/// The nodes of a list.
///
/// # Safety
/// `list` must be NIL or a valid list of pointers to `T`.
pub unsafe fn of_list<T>(list: *mut pg_sys::List) -> Vec<*mut T> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract.
    unsafe {
        (0..(*list).length as usize)
            .map(|at| (*(*list).elements.add(at)).ptr_value.cast())
            .collect()
    }
}

/// A list of the nodes.
pub fn list<T>(nodes: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::List {
    let none = core::ptr::null_mut();
    // SAFETY: lappend makes a list of NIL.
    let append = |list, node: *mut T| unsafe { pg_sys::lappend(list, node.cast()) };
    nodes.into_iter().fold(none, append)
}

/// A palloc'd copy of a name.
pub fn name(text: &CStr) -> *mut core::ffi::c_char {
    // SAFETY: copies a NUL-terminated text.
    unsafe { pg_sys::pstrdup(text.as_ptr()) }
}

/// A palloc'd C string, kept as Rust keeps strings; empty for a null pointer.
///
/// # Safety
/// `text` must be null or NUL-terminated.
pub unsafe fn owned(text: *const core::ffi::c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(text).to_owned() }
}
