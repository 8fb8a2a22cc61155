//! Types of values: their OIDs, and what a domain is over.

use pgrx::pg_sys;

pub use pgrx::pg_sys::{DATEOID, INT2OID, INT4OID, INT8OID, TIMESTAMPOID, TIMESTAMPTZOID};

/// The type that a domain is over, in the end; any other type itself.
#[inline]
pub fn base(of: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a syscache look-up, which raises an error for what is no type.
    unsafe { pg_sys::getBaseType(of) }
}
