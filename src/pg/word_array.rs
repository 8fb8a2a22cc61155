//! Arrays that are made anew for each row, in the same place.

use pgrx::pg_sys::{ArrayType, Datum, Oid};

/// Words in front of the elements of an array of one dimension: its length and dimensions, the type, its size and where it begins.
const HEADER_WORDS: usize = 3;

/// An array of so many 8-byte values as SQL knows it. It has no place by default.
#[derive(Default)]
pub struct WordArray(Box<[u64]>);

impl WordArray {
    /// `typ` is that of an element.
    pub fn of(elements: usize, typ: Oid) -> WordArray {
        let mut words = vec![0u64; HEADER_WORDS + elements].into_boxed_slice();
        let bytes = (words.len() * size_of::<u64>()) as u32;
        let header: *mut ArrayType = words.as_mut_ptr().cast();
        // SAFETY: the words have place for the header, its one size and one lower bound, and then the elements; they are aligned for it.
        unsafe {
            (*header).vl_len_ = (bytes << 2) as i32;
            (*header).ndim = 1;
            (*header).dataoffset = 0;
            (*header).elemtype = typ;
            let sizes: *mut i32 = header.add(1).cast();
            *sizes = elements as i32;
            *sizes.add(1) = 1;
        }
        WordArray(words)
    }

    /// The array with these elements, which it has until it is asked for others. There must be as many.
    #[inline]
    pub fn with(&mut self, elements: &[u64]) -> Datum {
        self.0[HEADER_WORDS..].copy_from_slice(elements);
        Datum::from(self.0.as_mut_ptr())
    }
}
