//! The series of a late row, as far as rollups tell series apart: the value of one column that they group by, as text. A refresh
//! computes the buckets of that series alone.

use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// Can series be told apart by a column of this type and collation? Equal values must have one text, which no setting changes.
pub fn can_tell(kind: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    let is_plain = [
        pg_sys::INT2OID,
        pg_sys::INT4OID,
        pg_sys::INT8OID,
        pg_sys::OIDOID,
        pg_sys::TEXTOID,
        pg_sys::VARCHAROID,
        pg_sys::UUIDOID,
    ]
    .contains(&kind);
    // SAFETY: a look-up of a collation that exists.
    is_plain
        && (collation == pg_sys::InvalidOid
            || unsafe { pg_sys::get_collation_isdeterministic(collation) })
}

/// The text of a value.
///
/// # Safety
/// `value` must be of the type, and not null.
pub unsafe fn text(value: pg_sys::Datum, kind: pg_sys::Oid) -> String {
    // SAFETY: by contract; the text is copied.
    unsafe {
        let (mut output, mut varlena) = (pg_sys::InvalidOid, false);
        pg_sys::getTypeOutputInfo(kind, &mut output, &mut varlena);
        let text = pg_sys::OidOutputFunctionCall(output, value);
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        pg_sys::pfree(text.cast());
        copy
    }
}

/// The value of a text that `text` has given.
///
/// # Safety
/// Inside a transaction; the type must be that of the value.
pub unsafe fn value(text: &str, kind: pg_sys::Oid) -> pg_sys::Datum {
    let text = CString::new(text).expect("BUG: a value with a zero byte");
    // SAFETY: by contract.
    unsafe {
        let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        pg_sys::getTypeInputInfo(kind, &mut input, &mut parameter);
        pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), parameter, -1)
    }
}
