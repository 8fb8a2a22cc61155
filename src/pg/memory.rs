//! Rust values whose life ends with a memory context, so that errors and aborted transactions free
//! them as they free palloc'd memory. Such values must hold no buffer pins and no locks: their Drop
//! runs while the transaction is being torn down.

use pgrx::pg_sys;

#[repr(C)]
struct Owned<T> {
    callback: pg_sys::MemoryContextCallback,
    value: *mut T,
}

unsafe extern "C-unwind" fn drop_value<T>(arg: *mut core::ffi::c_void) {
    // SAFETY: `arg` is the `Owned<T>` that `own` registered; the context calls back exactly once.
    unsafe {
        let owned = arg.cast::<Owned<T>>();
        if !(*owned).value.is_null() {
            drop(Box::from_raw((*owned).value));
            (*owned).value = core::ptr::null_mut();
        }
    }
}

/// The context that PostgreSQL's functions take memory from.
#[inline]
pub fn current() -> pg_sys::MemoryContext {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::CurrentMemoryContext }
}

/// Moves `value` to the heap and ties it to `context`: it is dropped when the context is reset or deleted.
///
/// # Safety
/// `context` must be a live memory context; the returned pointer dies with it.
pub unsafe fn own<T>(context: pg_sys::MemoryContext, value: T) -> *mut T {
    // SAFETY: the callback record lives in the context itself, as core requires.
    unsafe {
        let owned: *mut Owned<T> =
            pg_sys::MemoryContextAllocZero(context, core::mem::size_of::<Owned<T>>()).cast();
        let value = Box::into_raw(Box::new(value));
        (*owned).value = value;
        (*owned).callback.func = Some(drop_value::<T>);
        (*owned).callback.arg = owned.cast();
        pg_sys::MemoryContextRegisterResetCallback(context, &mut (*owned).callback);
        value
    }
}

/// A context for little, below `parent`. Core keeps some of this size for whoever asks next.
///
/// # Safety
/// `parent` must be a live memory context; whoever makes it deletes it, or leaves that to the parent's end.
pub unsafe fn small(
    parent: pg_sys::MemoryContext,
    name: &'static core::ffi::CStr,
) -> pg_sys::MemoryContext {
    // SAFETY: by contract.
    unsafe {
        pg_sys::AllocSetContextCreateInternal(
            parent,
            name.as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        )
    }
}

/// Runs `body` with `context` as the current memory context.
///
/// # Safety
/// `context` must be live throughout.
pub unsafe fn within<R>(context: pg_sys::MemoryContext, body: impl FnOnce() -> R) -> R {
    // SAFETY: by contract; an error abandons the context that was current.
    unsafe {
        let old = pg_sys::MemoryContextSwitchTo(context);
        let result = body();
        pg_sys::MemoryContextSwitchTo(old);
        result
    }
}
