//! Nodes of queries and plans, and their lists.

use pgrx::pg_sys;
use smallvec::SmallVec;
use std::ffi::{CStr, CString};

unsafe extern "C-unwind" {
    // nodes/pg_list.h, as they are: pgrx guards each call.
    fn lappend(list: *mut pg_sys::List, node: *mut core::ffi::c_void) -> *mut pg_sys::List;
    fn lappend_int(list: *mut pg_sys::List, integer: i32) -> *mut pg_sys::List;
}

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

/// The node as a `T`, if it has that tag.
///
/// # Safety
/// As `is`; `T` must be the node type that `tag` names.
pub unsafe fn cast<T>(node: *mut pg_sys::Node, tag: pg_sys::NodeTag) -> Option<*mut T> {
    // SAFETY: by contract.
    unsafe { is(node, tag) }.then_some(node.cast())
}

/// The nodes of a list.
///
/// # Safety
/// `list` must be NIL or a valid list of pointers to `T`.
pub unsafe fn of_list<T>(list: *mut pg_sys::List) -> Vec<*mut T> {
    // SAFETY: by contract.
    unsafe { items(list) }.collect()
}

/// The nodes of a list, one by one.
///
/// # Safety
/// As `of_list`; the list must outlive the iterator.
pub unsafe fn items<T>(list: *mut pg_sys::List) -> impl Iterator<Item = *mut T> {
    let node = move |at| {
        // SAFETY: by contract; `at` is within the list.
        unsafe { (*(*list).elements.add(at)).ptr_value.cast() }
    };
    // SAFETY: by contract.
    (0..unsafe { length(list) }).map(node)
}

/// The integers of an integer list.
///
/// # Safety
/// `list` must be NIL or an integer list.
pub unsafe fn integers(list: *mut pg_sys::List) -> Vec<i32> {
    let integer = |at| {
        // SAFETY: by contract; `at` is within the list.
        unsafe { (*(*list).elements.add(at)).int_value }
    };
    // SAFETY: by contract.
    (0..unsafe { length(list) }).map(integer).collect()
}

/// # Safety
/// `list` must be NIL or a valid list.
unsafe fn length(list: *mut pg_sys::List) -> usize {
    // SAFETY: by contract.
    unsafe { list.as_ref() }.map_or(0, |list| list.length as usize)
}

/// A list of the nodes.
pub fn list<T>(nodes: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::List {
    // SAFETY: lappend makes a list of NIL.
    unsafe { list_by(lappend, nodes.into_iter().map(|node| node.cast())) }
}

/// An integer list.
pub fn integer_list(integers: impl IntoIterator<Item = i32>) -> *mut pg_sys::List {
    // SAFETY: as above.
    unsafe { list_by(lappend_int, integers) }
}

/// Appends all to a list, under one guard: lists are short, and many.
///
/// # Safety
/// `append` must take such items.
unsafe fn list_by<T: Copy>(
    append: unsafe extern "C-unwind" fn(*mut pg_sys::List, T) -> *mut pg_sys::List,
    items: impl IntoIterator<Item = T>,
) -> *mut pg_sys::List {
    let items: SmallVec<[T; 8]> = items.into_iter().collect();
    let none = core::ptr::null_mut();
    if items.is_empty() {
        return none;
    }
    // SAFETY: by contract; the closure owns nothing.
    unsafe {
        let append = |list, &item: &T| append(list, item);
        pg_sys::ffi::pg_guard_ffi_boundary(|| items.iter().fold(none, append))
    }
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
