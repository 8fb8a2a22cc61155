//! Values of type `name` as a btree keeps them: it leaves out the zeros behind them (`name_ops` stores cstring), and the columns of a table have all of
//! their bytes.

use crate::pg::relation::Index;
use crate::pg::Datum;
use core::ffi::CStr;

const NAME_BYTES: usize = 64;
/// Of types that end with the first zero.
const CSTRING: i16 = -2;

/// Room for the names among the columns of an index's entries.
pub struct Names(Vec<(usize, [u8; NAME_BYTES])>);

impl Names {
    /// Of the first `columns` columns of an index.
    pub fn of(index: Index<'_>, columns: usize) -> Names {
        let attributes = index.descriptor().attributes();
        let kept = attributes.iter().take(columns).enumerate();
        let shortened = kept.filter(|(_, attribute)| attribute.attlen == CSTRING);
        Names(shortened.map(|(at, _)| (at, [0; NAME_BYTES])).collect())
    }

    /// Makes the values of an entry values of the table's columns, until the next call.
    ///
    /// # Safety
    /// `values` must be those of an entry of the index, of which none of its columns is null.
    pub unsafe fn lengthen(&mut self, values: &mut [Datum]) {
        for (at, room) in &mut self.0 {
            // SAFETY: by contract.
            let text = unsafe { CStr::from_ptr(values[*at].cast_mut_ptr()) }.to_bytes();
            room.fill(0);
            room[..text.len()].copy_from_slice(text);
            values[*at] = Datum::from(room.as_ptr());
        }
    }
}
