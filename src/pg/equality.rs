//! Functions that tell whether two values are equal.

use pgrx::pg_sys::{self, Datum, Oid};

/// The function of an operator `=`, under a collation.
pub struct Equality {
    function: pg_sys::FmgrInfo,
    collation: Oid,
}

impl Equality {
    /// What the function keeps goes with the current memory context. Within a guarded entry point; raises an error where there is no
    /// function of that OID.
    pub fn of(function: Oid, collation: Oid) -> Equality {
        let mut found = pg_sys::FmgrInfo::default();
        // SAFETY: the look-up fills the record, or raises.
        unsafe { pg_sys::fmgr_info(function, &mut found) };
        Equality {
            function: found,
            collation,
        }
    }

    /// Within a guarded entry point.
    ///
    /// # Safety
    /// Both must be values of the type that the function takes, and not null; it must be one of equality.
    pub unsafe fn holds(&mut self, one: Datum, other: Datum) -> bool {
        // SAFETY: by contract.
        let holds =
            unsafe { pg_sys::FunctionCall2Coll(&mut self.function, self.collation, one, other) };
        holds.value() as u8 != 0
    }
}
