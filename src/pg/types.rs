//! Types of values: their OIDs, and what a domain is over.

use pgrx::pg_sys;

pub use pgrx::pg_sys::{
    BOOLOID, DATEOID, FLOAT4OID, FLOAT8OID, INT2OID, INT4OID, INT8OID, NUMERICOID, TIMESTAMPOID,
    TIMESTAMPTZOID,
};

/// The type that a domain is over, in the end; any other type itself.
#[inline]
pub fn base(of: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a syscache look-up, which raises an error for what is no type.
    unsafe { pg_sys::getBaseType(of) }
}

/// The default operator class of a type for an access method; InvalidOid where it has none.
pub fn default_class(of: pg_sys::Oid, method: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a look-up in the catalog.
    unsafe { pg_sys::GetDefaultOpClass(of, method) }
}

/// Are texts that a collation takes for equal the same bytes?
pub fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up, which raises an error for what is no collation.
    unsafe { pg_sys::get_collation_isdeterministic(collation) }
}
