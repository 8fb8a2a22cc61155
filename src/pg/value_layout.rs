//! Copying and freeing values of any type.
use super::memory::{self, Context};
use pgrx::pg_sys::{self, Datum, Oid};

/// How values of a type are copied.
#[derive(Clone, Copy)]
pub struct Layout {
    pub len: i16,
    pub by_value: bool,
}

impl Layout {
    pub fn of(typ: Oid) -> Layout {
        let mut layout = Layout {
            len: 0,
            by_value: false,
        };
        // SAFETY: pointers to locals.
        unsafe { pg_sys::get_typlenbyval(typ, &mut layout.len, &mut layout.by_value) };
        layout
    }

    /// The bytes of a value that is passed by reference, detoasted.
    ///
    /// # Safety
    /// `value` is a non-null value of this layout, not passed by value.
    pub unsafe fn bytes<'a>(self, value: Datum) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe {
            match self.len {
                -1 => {
                    let flat = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr());
                    std::slice::from_raw_parts(flat.cast::<u8>(), pgrx::varsize_any(flat))
                }
                -2 => std::ffi::CStr::from_ptr(value.cast_mut_ptr()).to_bytes_with_nul(),
                len => std::slice::from_raw_parts(value.cast_mut_ptr::<u8>(), len as usize),
            }
        }
    }

    /// # Safety
    /// `value` is a non-null value of this layout; must run inside a guarded entry point.
    pub unsafe fn copy(self, value: Datum, context: impl Into<Context>) -> Datum {
        if self.by_value {
            return value;
        }
        // SAFETY: the caller's promise.
        unsafe { copy_bytes(self.bytes(value), context) }
    }

    /// # Safety
    /// `value` was made by `copy`; must run inside a guarded entry point.
    pub unsafe fn free(self, value: Datum) {
        if !self.by_value {
            // SAFETY: the caller's promise.
            unsafe { memory::free(value.cast_mut_ptr::<u8>()) };
        }
    }
}

/// # Safety
/// `context` is valid; must run inside a guarded entry point.
pub unsafe fn copy_bytes(bytes: &[u8], context: impl Into<Context>) -> Datum {
    // SAFETY: a fresh allocation of that many bytes.
    unsafe {
        let copy = context.into().alloc(bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        Datum::from(copy)
    }
}
