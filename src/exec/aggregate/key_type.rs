//! How the values of a group column are told apart: by their bytes.

use crate::pg::unbound::datum_copy;
use crate::pg::value_layout::Layout;
use crate::pg::varlena::{detoasted, with_body};
use crate::pg::{Datum, Oid};
use std::hash::Hasher;

/// The type of a column that tells groups apart.
#[derive(Clone, Copy)]
pub struct KeyType {
    pub length: i16,
    pub by_value: bool,
}

impl KeyType {
    pub fn of(typ: Oid) -> KeyType {
        let Layout { len, by_value } = Layout::of(typ);
        KeyType {
            length: len,
            by_value,
        }
    }

    /// What tells a value apart that is passed by value: nobody says what the other bits of its datum are.
    fn word(self, value: Datum) -> u64 {
        let unused = u64::BITS - 8 * self.length as u32;
        (value.value() as u64) << unused >> unused
    }

    /// Calls `body` with the bytes of a value that is passed by reference.
    ///
    /// # Safety
    /// The value must be of the type, and not null.
    unsafe fn with_bytes<R>(self, value: Datum, body: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: by contract.
        unsafe {
            match self.length {
                1.. => {
                    let start: *const u8 = value.cast_mut_ptr();
                    body(core::slice::from_raw_parts(start, self.length as usize))
                }
                _ => with_body(value, self.length, body),
            }
        }
    }

    /// Hashes what tells a value or null apart.
    ///
    /// # Safety
    /// The value must be of the type.
    pub unsafe fn hash(self, (value, isnull): (Datum, bool), hasher: &mut impl Hasher) {
        match (isnull, self.by_value) {
            (true, _) => hasher.write_u64(1),
            (false, true) => hasher.write_u64(self.word(value)),
            // SAFETY: by contract.
            (false, false) => unsafe { self.with_bytes(value, |bytes| hasher.write(bytes)) },
        }
    }

    /// Are two values the same bytes?
    ///
    /// # Safety
    /// They must be of the type.
    unsafe fn same(self, a: Datum, b: Datum) -> bool {
        if self.by_value {
            return self.word(a) == self.word(b);
        }
        // SAFETY: by contract.
        unsafe { self.with_bytes(a, |a| self.with_bytes(b, |b| a == b)) }
    }

    /// The same, of values or nulls.
    ///
    /// # Safety
    /// As `same`.
    pub unsafe fn same_or_null(
        self,
        (a, a_null): (Datum, bool),
        (b, b_null): (Datum, bool),
    ) -> bool {
        if a_null || b_null {
            return a_null == b_null;
        }
        // SAFETY: by contract.
        unsafe { self.same(a, b) }
    }

    /// A copy in the current memory context, detoasted.
    ///
    /// # Safety
    /// The value must be of the type, and not null; inside a guarded entry point.
    pub unsafe fn copy(self, value: Datum) -> Datum {
        // SAFETY: the caller's contract.
        unsafe {
            if self.length == -1 {
                let plain = detoasted(value);
                if plain != value {
                    return plain;
                }
            }
            datum_copy(value, self.by_value, i32::from(self.length))
        }
    }
}
