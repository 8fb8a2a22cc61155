//! Errors that name a constraint. pgrx's reports have no place for it, so it is added when core builds the error's context.

use super::error::{self, Code};
use super::relation::{Index, Relation, Table};
use core::ffi::{c_char, c_int, c_void, CStr};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ffi::CString;

unsafe extern "C-unwind" {
    fn BuildIndexValueDescription(
        index: pg_sys::Relation,
        values: *const pg_sys::Datum,
        nulls: *const bool,
    ) -> *mut c_char;
    fn err_generic_string(field: c_int, text: *const c_char) -> c_int;
}

/// What an error says of where it belongs: field codes of the protocol, and texts.
type Fields = Vec<(c_int, CString)>;

const SCHEMA: c_int = b's' as c_int;
const TABLE: c_int = b't' as c_int;
const CONSTRAINT: c_int = b'n' as c_int;

thread_local! {
    static FIELDS: RefCell<Fields> = const { RefCell::new(Vec::new()) };
}

static mut CALLBACK: pg_sys::ErrorContextCallback = pg_sys::ErrorContextCallback {
    previous: core::ptr::null_mut(),
    callback: Some(add_fields),
    arg: core::ptr::null_mut(),
};

#[pg_guard]
unsafe extern "C-unwind" fn add_fields(_arg: *mut c_void) {
    for (field, text) in FIELDS.take() {
        // SAFETY: called while an error is built; the text is copied.
        unsafe { err_generic_string(field, text.as_ptr()) };
    }
}

/// A key as errors show it, `(columns)=(values)`; None where the user may not see its values.
///
/// # Safety
/// `index` must be open; `values` and `nulls` have an entry for each of its key columns.
pub unsafe fn describe_key(
    index: Index<'_>,
    values: &[pg_sys::Datum],
    nulls: &[bool],
) -> Option<String> {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        let text = pg_sys::ffi::pg_guard_ffi_boundary(|| {
            BuildIndexValueDescription(index.as_ptr(), values.as_ptr(), nulls.as_ptr())
        });
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// Raises the error of btree for a key that a row of the table has.
///
/// # Safety
/// Both must be open; `values` and `nulls` have an entry for each key column of the index.
pub unsafe fn raise_duplicate(
    table: Table<'_>,
    index: Index<'_>,
    values: &[pg_sys::Datum],
    nulls: &[bool],
) -> ! {
    // SAFETY: by contract; whoever catches the error puts the context stack back.
    unsafe {
        let detail = describe_key(index, values, nulls)
            .map(|key| format!("Key {key} already exists."))
            .unwrap_or_default();
        let schema = pg_sys::get_namespace_name(table.class().relnamespace);
        let name =
            |relation: Relation| CStr::from_ptr(relation.class().relname.data.as_ptr()).to_owned();
        let mut fields = vec![(TABLE, name(*table)), (CONSTRAINT, name(*index))];
        if !schema.is_null() {
            fields.push((SCHEMA, CStr::from_ptr(schema).to_owned()));
        }
        FIELDS.set(fields);
        let callback = &raw mut CALLBACK;
        if pg_sys::error_context_stack != callback {
            (*callback).previous = pg_sys::error_context_stack;
            pg_sys::error_context_stack = callback;
        }
        error::raise(
            Code::ERRCODE_UNIQUE_VIOLATION,
            format!(
                "duplicate key value violates unique constraint \"{}\"",
                index.name()
            ),
            &detail,
            "",
        )
    }
}
