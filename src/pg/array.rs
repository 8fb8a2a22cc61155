//! Arrays of SQL, as values.

use pgrx::pg_sys::{self, Datum, Oid};

/// An array of values that are not null, in the current memory context.
///
/// # Safety
/// They must be of that type.
pub unsafe fn of(typ: Oid, mut values: Vec<Datum>) -> Datum {
    let (mut length, mut by_value, mut align) = (0i16, false, 0);
    // SAFETY: by contract; the result is palloc'd.
    unsafe {
        pg_sys::get_typlenbyvalalign(typ, &mut length, &mut by_value, &mut align);
        let (first, count) = (values.as_mut_ptr(), values.len() as i32);
        let length = i32::from(length);
        let array = pg_sys::construct_array(first, count, typ, length, by_value, align);
        Datum::from(array)
    }
}
