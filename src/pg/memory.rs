//! Rust values whose life ends with a memory context, so that errors and aborted transactions free
//! them as they free palloc'd memory. Such values must hold no buffer pins and no locks: their Drop
//! runs while the transaction is being torn down.

use pgrx::pg_sys;

/// Bytes that core aligns memory to.
const MOST_ALIGNED: usize = pg_sys::MAXIMUM_ALIGNOF as usize;

#[repr(C)]
struct Owned<T> {
    callback: pg_sys::MemoryContextCallback,
    value: T,
}

unsafe extern "C-unwind" fn drop_value<T>(value: *mut core::ffi::c_void) {
    // SAFETY: the value of the `Owned<T>` that `own` registered; the context calls back exactly once, before its memory goes.
    unsafe { value.cast::<T>().drop_in_place() }
}

/// A memory context. What takes memory from it is unsafe: the context must be there still.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context(pg_sys::MemoryContext);

impl From<pg_sys::MemoryContext> for Context {
    #[inline]
    fn from(context: pg_sys::MemoryContext) -> Context {
        Context(context)
    }
}

impl Context {
    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> pg_sys::MemoryContext {
        self.0
    }

    /// # Safety
    /// The context must be live; within a guarded entry point.
    pub unsafe fn alloc(self, bytes: usize) -> *mut u8 {
        // SAFETY: by contract; palloc aligns for every type.
        unsafe { pg_sys::MemoryContextAlloc(self.0, bytes).cast() }
    }

    /// Zeroes.
    ///
    /// # Safety
    /// As `alloc`.
    pub unsafe fn alloc_zeroed(self, bytes: usize) -> *mut u8 {
        // SAFETY: by contract.
        unsafe { pg_sys::MemoryContextAllocZero(self.0, bytes).cast() }
    }

    /// May be more than a gigabyte.
    ///
    /// # Safety
    /// As `alloc`.
    pub unsafe fn alloc_huge(self, bytes: usize) -> *mut u8 {
        // SAFETY: by contract.
        unsafe { pg_sys::MemoryContextAllocHuge(self.0, bytes).cast() }
    }

    /// Frees all that was made in it.
    ///
    /// # Safety
    /// As `alloc`; nobody may need it any more.
    pub unsafe fn reset(self) {
        // SAFETY: by contract.
        unsafe { pg_sys::MemoryContextReset(self.0) }
    }

    /// Frees all that was made in it, and the context.
    ///
    /// # Safety
    /// As `reset`.
    pub unsafe fn delete(self) {
        // SAFETY: by contract.
        unsafe { pg_sys::MemoryContextDelete(self.0) }
    }

    /// The bytes that it has, with those of the contexts below it.
    ///
    /// # Safety
    /// As `alloc`.
    pub unsafe fn size(self) -> usize {
        // SAFETY: by contract.
        unsafe { pg_sys::MemoryContextMemAllocated(self.0, true) }
    }

    /// A value that needs no drop.
    ///
    /// # Safety
    /// As `alloc`.
    pub unsafe fn place<T>(self, value: T) -> *mut T {
        const { assert!(!core::mem::needs_drop::<T>()) }
        // SAFETY: by contract: a fresh allocation of the right size.
        unsafe {
            let place = self.alloc(core::mem::size_of::<T>()).cast::<T>();
            place.write(value);
            place
        }
    }
}

/// More memory, or less, for what was allocated; it may move, and be more than a gigabyte.
///
/// # Safety
/// `memory` must be allocated, in a live context; within a guarded entry point.
pub unsafe fn resize_huge<T>(memory: *mut T, bytes: usize) -> *mut T {
    // SAFETY: by contract.
    unsafe { pg_sys::repalloc_huge(memory.cast(), bytes).cast() }
}

/// # Safety
/// As `resize_huge`; nobody refers to it any more.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: by contract.
    unsafe { pg_sys::pfree(memory.cast()) }
}

/// The context that PostgreSQL's functions take memory from.
#[inline]
pub fn current() -> Context {
    // SAFETY: reads a variable of this process.
    Context(unsafe { pg_sys::CurrentMemoryContext })
}

/// Calls `tell` with `argument` when the context is reset or deleted.
///
/// # Safety
/// The context must be live; `tell` may not raise.
pub unsafe fn at_end(
    context: Context,
    tell: unsafe extern "C-unwind" fn(*mut core::ffi::c_void),
    argument: *mut core::ffi::c_void,
) {
    // SAFETY: by contract; the callback record lives in the context itself, as core requires.
    unsafe {
        let size = core::mem::size_of::<pg_sys::MemoryContextCallback>();
        let callback: *mut pg_sys::MemoryContextCallback = context.alloc_zeroed(size).cast();
        (*callback).func = Some(tell);
        (*callback).arg = argument;
        pg_sys::MemoryContextRegisterResetCallback(context.0, callback);
    }
}

/// Moves `value` into `context`: it is dropped when the context is reset or deleted.
///
/// # Safety
/// `context` must be a live memory context; the returned pointer dies with it. Within a guarded entry point.
pub unsafe fn own<T>(context: impl Into<Context>, value: T) -> *mut T {
    const { assert!(core::mem::align_of::<T>() <= MOST_ALIGNED) }
    let context = context.into();
    let callback = pg_sys::MemoryContextCallback {
        func: Some(drop_value::<T>),
        ..pg_sys::MemoryContextCallback::default()
    };
    // SAFETY: a fresh allocation of the right size. The callback record lives in the context itself, as core requires.
    unsafe {
        let owned: *mut Owned<T> = context.alloc(core::mem::size_of::<Owned<T>>()).cast();
        owned.write(Owned { callback, value });
        let value = &raw mut (*owned).value;
        (*owned).callback.arg = value.cast();
        pg_sys::MemoryContextRegisterResetCallback(context.0, &raw mut (*owned).callback);
        value
    }
}

/// A context for little, below `parent`. Core keeps some of this size for whoever asks next.
///
/// # Safety
/// `parent` must be a live memory context; whoever makes it deletes it, or leaves that to the parent's end.
pub unsafe fn small(parent: impl Into<Context>, name: &'static core::ffi::CStr) -> Context {
    // SAFETY: by contract.
    Context(unsafe {
        pg_sys::AllocSetContextCreateInternal(
            parent.into().0,
            name.as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        )
    })
}

/// What a node that keeps groups may take, in bytes: work_mem, as hash_mem_multiplier multiplies it.
pub fn hash_limit() -> usize {
    // SAFETY: reads settings.
    unsafe { pg_sys::get_hash_memory_limit() }
}

/// Runs `body` with `context` as the current memory context.
///
/// # Safety
/// `context` must be live throughout.
pub unsafe fn within<R>(context: impl Into<Context>, body: impl FnOnce() -> R) -> R {
    // SAFETY: by contract; an error abandons the context that was current.
    unsafe {
        let old = pg_sys::MemoryContextSwitchTo(context.into().0);
        let result = body();
        pg_sys::MemoryContextSwitchTo(old);
        result
    }
}
