//! Datums of variable length.

use pgrx::pg_sys;

/// Body bytes of a variable-length datum: detoasted, without its length word; a C string with its NUL.
///
/// # Safety
/// `datum` must be a non-null datum of a type of length `typlen` (-1 or -2).
pub unsafe fn with_body<R>(
    datum: pg_sys::Datum,
    typlen: i16,
    use_body: impl FnOnce(&[u8]) -> R,
) -> R {
    // SAFETY: by contract; a detoasted copy is freed after use.
    unsafe {
        if typlen == -2 {
            let text = core::ffi::CStr::from_ptr(datum.cast_mut_ptr());
            return use_body(text.to_bytes_with_nul());
        }
        let original: *mut pg_sys::varlena = datum.cast_mut_ptr();
        let plain = pg_sys::pg_detoast_datum_packed(original);
        let len = pgrx::varsize_any_exhdr(plain);
        let start = pgrx::vardata_any(plain).cast::<u8>();
        let result = use_body(core::slice::from_raw_parts(start, len));
        if plain != original {
            pg_sys::pfree(plain.cast());
        }
        result
    }
}
