//! Values in expanded form: objects with memory of their own, which functions change in place and hand on.

use super::bare;
use super::memory::Context;
use pgrx::pg_sys::{self, vartag_external, Datum};

/// Is a value of a type of this length such an object, in the hands of whoever may change it?
///
/// # Safety
/// The value must be of a type of that length that is passed by reference, and not null.
pub unsafe fn is_writable(value: Datum, length: i16) -> bool {
    let start: *mut pg_sys::varlena = value.cast_mut_ptr();
    // SAFETY: by contract; a value that is somewhere else says in its second byte what it points to.
    unsafe {
        length == -1
            && pgrx::varatt_is_1b_e(start)
            && u32::from(start.cast::<u8>().add(1).read()) == vartag_external::VARTAG_EXPANDED_RW
    }
}

/// Goes the object with a memory context?
///
/// # Safety
/// The value must be such an object. Within a guarded entry point.
pub unsafe fn is_of(value: Datum, context: Context) -> bool {
    // SAFETY: by contract: an object has a live memory context.
    unsafe {
        context == bare::MemoryContextGetParent((*pg_sys::DatumGetEOHP(value)).eoh_context).into()
    }
}

/// Frees the object.
///
/// # Safety
/// As `is_of`; nobody may use it any more.
pub unsafe fn delete(value: Datum) {
    // SAFETY: by contract.
    unsafe { pg_sys::DeleteExpandedObject(value) }
}

/// The same object for those who may not change it.
///
/// # Safety
/// As `is_of`.
pub unsafe fn read_only(value: Datum) -> Datum {
    // SAFETY: by contract.
    unsafe { pg_sys::MakeExpandedObjectReadOnlyInternal(value) }
}
