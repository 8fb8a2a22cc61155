//! Functions of the server's own, by their OIDs, and what is known of any.

use pgrx::pg_sys::{self, Oid};

pub use pgrx::pg_sys::{F_FLOAT8_AVG, F_INT8_AVG_ACCUM, F_INT8_AVG_COMBINE, F_INT8_AVG_SERIALIZE};

/// Has a function other results at other times, or effects? Raises an error where there is none of that OID.
pub fn is_volatile(function: Oid) -> bool {
    // SAFETY: a syscache look-up.
    let volatility = unsafe { pg_sys::func_volatile(function) };
    volatility as u8 == pg_sys::PROVOLATILE_VOLATILE
}

/// Is it one of the server's own?
pub fn is_of_server(function: Oid) -> bool {
    function.to_u32() < pg_sys::FirstNormalObjectId
}
