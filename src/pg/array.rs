//! Arrays of SQL, as values.

use super::memory::{self, Context};
use pgrx::pg_sys::{self, Datum, Oid};

/// Elements of an array that are not null, in a memory context.
///
/// # Safety
/// `array` must be an array's, and not null.
pub unsafe fn elements_in(array: Datum, context: impl Into<Context>) -> Vec<Datum> {
    // SAFETY: by contract.
    unsafe { memory::within(context, || elements(array)) }
}

/// The same, in the current memory context.
///
/// # Safety
/// As `elements_in`.
pub unsafe fn elements(array: Datum) -> Vec<Datum> {
    // SAFETY: by contract; the elements are read before anything is released.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let (mut length, mut by_value, mut align) = (0i16, false, 0);
        let element = (*array).elemtype;
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (core::ptr::null_mut(), core::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            element,
            i32::from(length),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        (0..count as usize)
            .filter(|&at| !*nulls.add(at))
            .map(|at| *values.add(at))
            .collect()
    }
}

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
