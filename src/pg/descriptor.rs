//! Row types: the columns of a relation, a slot or a result.

use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys;

/// The columns of rows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Descriptor<'a> {
    descriptor: NonNull<pg_sys::TupleDescData>,
    kept: PhantomData<&'a pg_sys::TupleDescData>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor that PostgreSQL hands out.
    ///
    /// # Safety
    /// `descriptor` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(descriptor: pg_sys::TupleDesc) -> Descriptor<'a> {
        debug_assert!(!descriptor.is_null());
        Descriptor {
            // SAFETY: by contract: what is valid is not null.
            descriptor: unsafe { NonNull::new_unchecked(descriptor) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> pg_sys::TupleDesc {
        self.descriptor.as_ptr()
    }

    /// How many columns there are, dropped ones included.
    #[inline]
    pub fn len(self) -> usize {
        // SAFETY: valid as long as the handle is used, as `from_ptr` asks.
        unsafe { self.descriptor.as_ref() }.natts as usize
    }

    /// What rows have in a column, from 1, that were stored before it was added: a value, or null.
    #[inline]
    pub fn missing(self, number: usize) -> (pg_sys::Datum, bool) {
        assert!(
            (1..=self.len()).contains(&number),
            "BUG: a row type has no such column"
        );
        let mut isnull = true;
        // SAFETY: the column is one of the descriptor's, which is only read.
        let value = unsafe { pg_sys::getmissingattr(self.as_ptr(), number as i32, &mut isnull) };
        (value, isnull)
    }

    /// Some of the columns, from 1, and a TID behind them: the columns of other rows, in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used.
    pub unsafe fn with_place<'b>(self, columns: &[u16]) -> Descriptor<'b> {
        let all = 1..=self.len();
        assert!(
            columns.iter().all(|&column| all.contains(&column.into())),
            "BUG: a row type has no such column"
        );
        // SAFETY: the columns are the descriptor's; what is made has a place for each and one more.
        unsafe {
            let made = pg_sys::CreateTemplateTupleDesc(columns.len() as i32 + 1);
            for (number, &column) in (1..).zip(columns) {
                pg_sys::TupleDescCopyEntry(made, number, self.as_ptr(), column as i16);
            }
            let last = columns.len() as i16 + 1;
            pg_sys::TupleDescInitEntry(made, last, c"ctid".as_ptr(), pg_sys::TIDOID, -1, 0);
            Descriptor::from_ptr(made)
        }
    }

    /// Are there CHECK conditions?
    pub fn has_checks(self) -> bool {
        // SAFETY: null, or valid as long as the descriptor is.
        let constraints = unsafe { self.descriptor.as_ref().constr.as_ref() };
        constraints.is_some_and(|constraints| constraints.num_check > 0)
    }

    /// Are there columns that are computed and stored?
    pub fn has_generated(self) -> bool {
        // SAFETY: as above.
        let constraints = unsafe { self.descriptor.as_ref().constr.as_ref() };
        constraints.is_some_and(|constraints| constraints.has_generated_stored)
    }

    /// The columns, dropped ones included.
    #[inline]
    pub fn attributes(self) -> &'a [pg_sys::FormData_pg_attribute] {
        // SAFETY: a descriptor holds natts attributes, and is valid as long as the handle is used, as `from_ptr` asks.
        unsafe { core::slice::from_raw_parts(self.descriptor.as_ref().attrs.as_ptr(), self.len()) }
    }
}
