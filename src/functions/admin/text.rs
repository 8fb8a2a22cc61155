//! Values as text.

use crate::chunk::reader::Reader;
use crate::pg::descriptor::Descriptor;
use pgrx::pg_sys;
use std::ffi::CStr;

/// A non-null datum as its type prints it.
///
/// # Safety
/// `datum` must be a value of `type_id`.
pub unsafe fn of_datum(datum: pg_sys::Datum, type_id: pg_sys::Oid) -> String {
    // SAFETY: by contract; output functions return C strings.
    unsafe {
        let (mut output, mut is_varlena) = (pg_sys::InvalidOid, false);
        pg_sys::getTypeOutputInfo(type_id, &mut output, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(output, datum);
        let out = CStr::from_ptr(text).to_string_lossy().into_owned();
        pg_sys::pfree(text.cast());
        out
    }
}

/// The key columns of a row: `a, b`; NULL for nulls. `None` without key columns.
///
/// # Safety
/// The reader's table must be open with `descriptor`.
pub unsafe fn key(reader: &Reader, descriptor: Descriptor<'_>, row: u32) -> Option<String> {
    let keys = &reader.chunk.statics.keys;
    if keys.is_empty() {
        return None;
    }
    let attributes = descriptor.attributes();
    let parts: Vec<String> = keys
        .iter()
        .filter_map(|&number| {
            let at = usize::from(number) - 1;
            let attribute = attributes
                .get(at)
                .filter(|attribute| !attribute.attisdropped)?;
            // SAFETY: by contract.
            let text = unsafe {
                match reader.value(descriptor, row, at) {
                    (_, true) => "NULL".to_string(),
                    (value, false) => of_datum(value, attribute.atttypid),
                }
            };
            Some(text)
        })
        .collect();
    Some(parts.join(", "))
}
