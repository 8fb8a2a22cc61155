//! Names of relations, as statements have them.

use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Oid};

/// A relation's name, with its schema or without.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct RelationName<'a> {
    name: NonNull<pg_sys::RangeVar>,
    kept: PhantomData<&'a pg_sys::RangeVar>,
}

impl<'a> RelationName<'a> {
    /// A name that may be missing.
    ///
    /// # Safety
    /// `name` must be null, or valid as long as the handle is used.
    pub(super) unsafe fn existing(name: *mut pg_sys::RangeVar) -> Option<RelationName<'a>> {
        let kept = PhantomData;
        NonNull::new(name).map(|name| RelationName { name, kept })
    }

    /// The relation, which is not locked; None where there is none of that name.
    pub fn find(self) -> Option<Oid> {
        // SAFETY: the handle's name is valid.
        let found = unsafe {
            pg_sys::RangeVarGetRelidExtended(
                self.name.as_ptr(),
                pg_sys::NoLock as i32,
                pg_sys::RVROption::RVR_MISSING_OK,
                None,
                core::ptr::null_mut(),
            )
        };
        (found != pg_sys::InvalidOid).then_some(found)
    }

    /// Does it mean the tables that inherit from the relation too, as it does without ONLY?
    pub fn has_inheritors(self) -> bool {
        // SAFETY: the handle's name is valid.
        unsafe { self.name.as_ref() }.inh
    }
}
