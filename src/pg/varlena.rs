//! Datums of variable length.

use super::error::{raise, Code};
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// palloc's limit.
const MAX_ALLOC_BYTES: usize = 0x3fff_ffff;

/// A bytea of these bytes, in the current memory context: the state of an aggregate.
///
/// # Safety
/// Must run inside a guarded entry point.
pub unsafe fn bytea(bytes: &[u8]) -> pg_sys::Datum {
    let len = bytes.len() + pg_sys::VARHDRSZ;
    if len > MAX_ALLOC_BYTES {
        raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            "the state of an aggregate is too large to be sent to another process",
            "",
            "Use smaller groups, or SET max_parallel_workers_per_gather = 0.",
        );
    }
    // SAFETY: a fresh allocation of header and bytes.
    unsafe {
        let varlena = pg_sys::palloc(len).cast::<pg_sys::varlena>();
        pgrx::set_varsize_4b(varlena, len as i32);
        core::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            varlena.cast::<u8>().add(pg_sys::VARHDRSZ),
            bytes.len(),
        );
        pg_sys::Datum::from(varlena)
    }
}

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

/// The same value, neither compressed nor elsewhere: itself, or a copy in the current memory context.
///
/// # Safety
/// `datum` must be a non-null datum of a type of length -1; within a guarded entry point.
pub unsafe fn detoasted(datum: pg_sys::Datum) -> pg_sys::Datum {
    // SAFETY: by contract.
    pg_sys::Datum::from(unsafe { pg_sys::pg_detoast_datum(datum.cast_mut_ptr()) })
}

/// Body bytes of a varlena that is stored as it is; None of one that is compressed or elsewhere.
///
/// # Safety
/// `datum` must be a non-null datum of a type of length -1, which lives as long as the bytes are looked at.
#[inline]
pub unsafe fn body_in_place<'a>(datum: pg_sys::Datum) -> Option<&'a [u8]> {
    // SAFETY: by contract.
    unsafe {
        let value: *const pg_sys::varlena = datum.cast_mut_ptr();
        let is_short = pgrx::varatt_is_1b(value) && !pgrx::varatt_is_1b_e(value);
        (is_short || pgrx::varatt_is_4b_u(value)).then(|| {
            let start = pgrx::vardata_any(value).cast::<u8>();
            core::slice::from_raw_parts(start, pgrx::varsize_any_exhdr(value))
        })
    }
}

/// Body bytes of a varlena that begins at a byte of a tuple, if it is short and stored as it is.
///
/// # Safety
/// A varlena must begin there, or the bytes that align one, and be there as long as the bytes are looked at.
#[inline]
pub unsafe fn short_body<'a>(start: *const u8) -> Option<&'a [u8]> {
    // SAFETY: by contract: the first byte is of the value, or 0.
    unsafe {
        let is_short = pgrx::varatt_is_1b(start.cast()) && !pgrx::varatt_is_1b_e(start.cast());
        is_short.then(|| {
            let bytes = pgrx::varsize_1b(start.cast()) - pg_sys::VARHDRSZ_SHORT;
            core::slice::from_raw_parts(pgrx::vardata_1b(start.cast()).cast(), bytes)
        })
    }
}

/// A value of type bpchar with as many blanks at its end as a column of type char(n) keeps it with, so that it has the bytes of the values
/// there that are equal to it. One that is longer stays as it is: no value is equal. `typmod` is the column's.
///
/// # Safety
/// `datum` must be a non-null datum of type bpchar. What comes out is in the current memory context, or the same.
pub unsafe fn as_char(datum: pg_sys::Datum, typmod: i32) -> pg_sys::Datum {
    let wanted = typmod - pg_sys::VARHDRSZ as i32;
    // SAFETY: by contract; the body is in the database's encoding.
    unsafe {
        let longer = with_body(datum, -1, |body| {
            let text = body.as_ptr().cast_mut().cast();
            let length = pg_sys::bpchartruelen(text, body.len() as i32);
            pg_sys::pg_mbstrlen_with_len(text, length) > wanted
        });
        if longer {
            return datum;
        }
        pg_sys::OidFunctionCall3Coll(
            pg_sys::Oid::from(pg_sys::F_BPCHAR_BPCHAR_INT4_BOOL),
            pg_sys::InvalidOid,
            datum,
            pg_sys::Datum::from(typmod),
            pg_sys::Datum::from(true),
        )
    }
}

/// A text without zero bytes as a datum, in the current memory context.
pub fn text_datum(text: &str) -> pg_sys::Datum {
    let text = CString::new(text).expect("BUG: a text with a zero byte");
    // SAFETY: the result is palloc'd.
    unsafe { pg_sys::Datum::from(pg_sys::cstring_to_text(text.as_ptr())) }
}

/// A text of these bytes, which must be in the database's encoding, in the current memory context.
pub fn text_of(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: so many bytes are copied; the result is palloc'd.
    unsafe {
        let start = bytes.as_ptr().cast();
        let text = pg_sys::cstring_to_text_with_len(start, bytes.len() as i32);
        pg_sys::Datum::from(text)
    }
}

/// What a text says.
///
/// # Safety
/// `datum` must be a non-null text.
pub unsafe fn text(datum: pg_sys::Datum) -> String {
    // SAFETY: by contract; the result is palloc'd.
    unsafe { CStr::from_ptr(pg_sys::text_to_cstring(datum.cast_mut_ptr())) }
        .to_string_lossy()
        .into_owned()
}
