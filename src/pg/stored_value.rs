//! Values as tuples of tables and of indexes have them.

use super::page::PageTuple;
use super::relation::Table;
use pgrx::pg_sys::{self, Datum};

/// Bytes that a type's values are aligned to, by its letter in `pg_type`.
pub(super) fn alignment(letter: core::ffi::c_char) -> usize {
    match letter as u8 {
        pg_sys::TYPALIGN_CHAR => 1,
        pg_sys::TYPALIGN_SHORT => 2,
        pg_sys::TYPALIGN_INT => 4,
        _ => 8,
    }
}

/// The value that begins at a byte; one that is not passed by value points to it.
///
/// # Safety
/// It must be of a type with so many bytes, or with as many as it says itself (-1).
#[inline]
pub(super) unsafe fn value_at(start: *const u8, length: i16, by_value: bool) -> Datum {
    let signed = |value: i64| Datum::from(value as usize);
    // SAFETY: by contract.
    unsafe {
        match (by_value, length) {
            (true, 1) => signed(i64::from(start.cast::<i8>().read())),
            (true, 2) => signed(i64::from(start.cast::<i16>().read_unaligned())),
            (true, 4) => signed(i64::from(start.cast::<i32>().read_unaligned())),
            (true, _) => signed(start.cast::<i64>().read_unaligned()),
            (false, _) => Datum::from(start.cast_mut()),
        }
    }
}

/// A column of a table, and where rows without nulls have it, if that is one place.
#[derive(Clone, Copy)]
pub struct StoredColumn {
    /// From 1.
    number: u16,
    length: i16,
    by_value: bool,
    /// Bytes from the first value.
    offset: Option<usize>,
}

impl StoredColumn {
    /// A column of a table, from 0.
    pub fn of(table: Table<'_>, at: usize) -> StoredColumn {
        let attributes = table.attributes();
        let column = &attributes[at];
        let mut offset = Some(0usize);
        for before in &attributes[..at] {
            let bytes = usize::try_from(before.attlen).ok();
            let start = offset.map(|offset| offset.next_multiple_of(alignment(before.attalign)));
            offset = start.zip(bytes).map(|(start, bytes)| start + bytes);
        }
        // A short value of any length begins where the one before it ends, a long one where it is aligned: so long as these are not the same
        // place, only a row says which.
        let aligned = |offset: usize| offset.next_multiple_of(alignment(column.attalign));
        let is_one = |offset: &usize| column.attlen > 0 || *offset == aligned(*offset);
        StoredColumn {
            number: at as u16 + 1,
            length: column.attlen,
            by_value: column.attbyval,
            offset: offset.filter(is_one).map(aligned),
        }
    }

    /// Bytes of its values; -1 where they say so themselves.
    #[inline]
    pub fn length(self) -> i16 {
        self.length
    }

    /// Where its value begins, if a row has it where rows without nulls do.
    ///
    /// # Safety
    /// The row must be of the table.
    #[inline]
    pub unsafe fn place(self, row: PageTuple<'_>) -> Option<*const u8> {
        let offset = self.offset?;
        let is_there = !row.has_nulls() && self.number <= row.attribute_count();
        // SAFETY: by contract; all columns before it have their bytes.
        is_there.then(|| unsafe { row.values().add(offset) })
    }

    /// Its value in a row, and whether it is null. What it points to is there as long as the tuple.
    ///
    /// # Safety
    /// The row must be of the table, and `descriptor` the table's.
    #[inline]
    pub unsafe fn value(self, row: PageTuple<'_>, descriptor: pg_sys::TupleDesc) -> (Datum, bool) {
        // SAFETY: by contract.
        if let Some(start) = unsafe { self.place(row) } {
            // SAFETY: the value begins there.
            return (
                unsafe { value_at(start, self.length, self.by_value) },
                false,
            );
        }
        let (mut isnull, mut tuple) = (false, row.to_heap_tuple(pg_sys::InvalidOid));
        let number = self.number.into();
        // SAFETY: by contract.
        let value = unsafe { pg_sys::heap_getattr(&mut tuple, number, descriptor, &mut isnull) };
        (value, isnull)
    }
}
