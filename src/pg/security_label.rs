//! Security labels of relations: what a dump takes along of what we know of them.

use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

fn address(relation: Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::RelationRelationId,
        objectId: relation,
        objectSubId: 0,
    }
}

/// The label that a relation has of a provider.
pub fn read(relation: Oid, provider: &CStr) -> Option<String> {
    let object = address(relation);
    // SAFETY: inside a transaction; a label is null or NUL-terminated.
    unsafe {
        let label = pg_sys::GetSecurityLabel(&object, provider.as_ptr());
        (!label.is_null()).then(|| CStr::from_ptr(label).to_string_lossy().into_owned())
    }
}

/// Labels a relation, in the current transaction, which must exclude others who write the label; None takes the label away.
pub fn write(relation: Oid, provider: &CStr, label: Option<&CStr>) {
    let object = address(relation);
    let label = label.map_or(core::ptr::null(), CStr::as_ptr);
    // SAFETY: the text is copied.
    unsafe { pg_sys::SetSecurityLabel(&object, provider.as_ptr(), label) };
}
