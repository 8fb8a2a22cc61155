//! Conditions on columns of an index, as a scan of its entries gets them.

use super::memory::Context;
use super::relation::Index;
use pgrx::pg_sys;

/// A condition on a column of an index: that its value compares so with an argument, or that it is null or not.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ScanKey(pg_sys::ScanKeyData);

impl ScanKey {
    /// `column <strategy> value`, for a column from 0. The index must have nbtree's operator classes.
    ///
    /// # Safety
    /// `value` must be of the type of the column's operator class.
    pub unsafe fn new(index: Index<'_>, at: usize, strategy: u32, value: pg_sys::Datum) -> ScanKey {
        let class = index.input_type(at);
        let family = index.operator_family(at);
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: by contract; the operator is one of the column's class.
        unsafe {
            let operator = pg_sys::get_opfamily_member(family, class, class, strategy as i16);
            pg_sys::ScanKeyEntryInitialize(
                &mut key,
                0,
                at as i16 + 1,
                strategy as u16,
                class,
                index.collation(at),
                pg_sys::get_opcode(operator),
                value,
            );
        }
        ScanKey(key)
    }

    /// `column IS NULL`, for a column from 1.
    pub fn is_null(column: usize) -> ScanKey {
        Self::null_test(column, pg_sys::SK_SEARCHNULL)
    }

    /// `column IS NOT NULL`, for a column from 1.
    pub fn is_not_null(column: usize) -> ScanKey {
        Self::null_test(column, pg_sys::SK_SEARCHNOTNULL)
    }

    fn null_test(column: usize, search: u32) -> ScanKey {
        // All else of a key without a function is zero.
        ScanKey(pg_sys::ScanKeyData {
            sk_flags: (pg_sys::SK_ISNULL | search) as i32,
            sk_attno: column as i16,
            ..pg_sys::ScanKeyData::default()
        })
    }

    /// Keys that the executor hands over.
    ///
    /// # Safety
    /// There must be so many of them, as long as the slice is used.
    pub unsafe fn slice<'a>(keys: *const pg_sys::ScanKeyData, count: usize) -> &'a [ScanKey] {
        // SAFETY: by contract; a key is nothing but core's.
        unsafe { core::slice::from_raw_parts(keys.cast(), count) }
    }

    /// For PostgreSQL's functions, and for who takes the key apart.
    #[inline]
    pub fn data(&self) -> &pg_sys::ScanKeyData {
        &self.0
    }

    /// The column, from 0.
    #[inline]
    pub fn column(&self) -> usize {
        self.0.sk_attno as usize - 1
    }

    /// The same with another argument, and no array.
    pub fn with_argument(self, argument: pg_sys::Datum) -> ScanKey {
        ScanKey(pg_sys::ScanKeyData {
            sk_argument: argument,
            sk_flags: self.0.sk_flags & !(pg_sys::SK_SEARCHARRAY as i32),
            ..self.0
        })
    }

    /// The same with an array of arguments: the condition holds for any of them.
    ///
    /// # Safety
    /// The argument must be an array of the type that the key was made for.
    pub unsafe fn of_array(self) -> ScanKey {
        ScanKey(pg_sys::ScanKeyData {
            sk_flags: self.0.sk_flags | pg_sys::SK_SEARCHARRAY as i32,
            ..self.0
        })
    }

    /// The same with another operator, of the same types.
    ///
    /// # Safety
    /// `operator` must be that of the strategy; `context`, which what is called is kept in, must outlive the key.
    pub unsafe fn with_operator(
        self,
        strategy: u16,
        operator: pg_sys::Oid,
        context: Context,
    ) -> ScanKey {
        let mut key = self.0;
        // SAFETY: by contract.
        unsafe {
            let function = pg_sys::get_opcode(operator);
            pg_sys::fmgr_info_cxt(function, &mut key.sk_func, context.as_ptr());
        }
        key.sk_strategy = strategy;
        ScanKey(key)
    }
}
