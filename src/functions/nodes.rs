//! Reading and building PostgreSQL's lists and nodes.
use pgrx::pg_sys;

/// The elements of a pointer list; none of NIL.
///
/// # Safety
/// `list` is NIL or a list of `*mut T` that outlives the iterator.
pub unsafe fn items<T>(list: *mut pg_sys::List) -> impl Iterator<Item = *mut T> {
    let len = if list.is_null() {
        0
    } else {
        // SAFETY: the caller's promise.
        unsafe { (*list).length as usize }
    };
    // SAFETY: the caller's promise; `n` is within the list.
    (0..len).map(move |n| unsafe { (*(*list).elements.add(n)).ptr_value.cast::<T>() })
}

/// The integers of an integer list.
///
/// # Safety
/// `list` is NIL or an integer list.
pub unsafe fn integers(list: *mut pg_sys::List) -> Vec<i32> {
    let len = if list.is_null() {
        0
    } else {
        // SAFETY: the caller's promise.
        unsafe { (*list).length as usize }
    };
    // SAFETY: the caller's promise; `n` is within the list.
    (0..len)
        .map(|n| unsafe { (*(*list).elements.add(n)).int_value })
        .collect()
}

/// # Safety
/// Must run inside a guarded entry point; the pointers are nodes (or null).
pub unsafe fn node_list<T>(nodes: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    nodes
        .into_iter()
        .fold(std::ptr::null_mut(), |list, node| unsafe {
            pg_sys::lappend(list, node.cast())
        })
}

/// # Safety
/// Must run inside a guarded entry point.
pub unsafe fn integer_list(integers: impl IntoIterator<Item = i32>) -> *mut pg_sys::List {
    // SAFETY: the caller's promise.
    integers
        .into_iter()
        .fold(std::ptr::null_mut(), |list, n| unsafe {
            pg_sys::lappend_int(list, n)
        })
}

/// A zeroed node.
///
/// # Safety
/// T is the struct of the node `tag`; must run inside a guarded entry point.
pub unsafe fn make_node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: the caller's promise; every node begins with its tag.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>()).cast::<T>();
        node.cast::<pg_sys::NodeTag>().write(tag);
        node
    }
}

/// The node as a `T`, if it has that tag.
///
/// # Safety
/// `node` is null or a node, T the struct of the node `tag`.
pub unsafe fn cast<T>(node: *mut pg_sys::Node, tag: pg_sys::NodeTag) -> Option<*mut T> {
    // SAFETY: the caller's promise.
    (!node.is_null() && unsafe { (*node).type_ } == tag).then_some(node.cast())
}
