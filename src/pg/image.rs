//! Values of a column as the bytes that stand for them.

use super::varlena::body_in_place;
use pgrx::pg_sys;

unsafe extern "C-unwind" {
    fn datum_image_eq(a: pg_sys::Datum, b: pg_sys::Datum, by_value: bool, length: i32) -> bool;
    fn datum_image_hash(value: pg_sys::Datum, by_value: bool, length: i32) -> u32;
}

/// Are two non-null datums the same bytes, toasted or not?
///
/// # Safety
/// Both must be values of the attribute's type.
pub unsafe fn same_image(
    a: pg_sys::Datum,
    b: pg_sys::Datum,
    attribute: &pg_sys::FormData_pg_attribute,
) -> bool {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        if attribute.attbyval {
            return a == b;
        }
        // Values of other lengths have no header that says how long they are.
        if attribute.attlen == -1 {
            if let (Some(a), Some(b)) = (body_in_place(a), body_in_place(b)) {
                return a == b;
            }
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            datum_image_eq(a, b, attribute.attbyval, i32::from(attribute.attlen))
        })
    }
}

/// A hash of the bytes that `same_image` compares, but for the state in which they are stored.
///
/// # Safety
/// `value` must be of the attribute's type, and not null.
pub unsafe fn image_hash(value: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> u32 {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            datum_image_hash(value, attribute.attbyval, i32::from(attribute.attlen))
        })
    }
}

/// A datum as core makes it of a stored value: short ones that are passed by value with their sign, whoever has made them.
pub fn as_stored(value: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> pg_sys::Datum {
    let bits = value.value();
    let signed = match (attribute.attbyval, attribute.attlen) {
        (true, 1) => i64::from(bits as i8),
        (true, 2) => i64::from(bits as i16),
        (true, 4) => i64::from(bits as i32),
        _ => return value,
    };
    pg_sys::Datum::from(signed as usize)
}
