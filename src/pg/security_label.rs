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

/// Who gives labels.
pub trait Provider {
    const NAME: &'static CStr;

    /// Raises an error unless an object may have a label, None for none: a relation, or any other object. Core has locked it, and checked
    /// that its owner asks.
    fn check(relation: Option<Oid>, label: Option<String>);
}

unsafe extern "C-unwind" fn check<P: Provider>(
    object: *const pg_sys::ObjectAddress,
    label: *const core::ffi::c_char,
) {
    // SAFETY: called by core with an object, and a text or null.
    unsafe {
        pg_sys::panic::pgrx_extern_c_guard(|| {
            let object = *object;
            let is_relation =
                object.classId == pg_sys::RelationRelationId && object.objectSubId == 0;
            let text = || CStr::from_ptr(label).to_string_lossy().into_owned();
            let label = (!label.is_null()).then(text);
            P::check(is_relation.then_some(object.objectId), label);
        })
    }
}

/// To be called once, when a backend loads the library.
pub fn register<P: Provider>() {
    // SAFETY: the provider's name and function live as long as the process.
    unsafe { pg_sys::register_label_provider(P::NAME.as_ptr(), Some(check::<P>)) }
}
