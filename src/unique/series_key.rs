//! The series that a key is in, and the bytes that tell it from others.

use crate::pg::relation::Table;
use crate::pg::varlena;
use crate::pg::Datum;
use crate::series_index::entries::IndexDesc;
use smallvec::SmallVec;

/// Bytes that tell a series from others.
pub type Bytes = SmallVec<[u8; 32]>;

/// A series that is looked for.
pub struct SeriesKey<'a> {
    pub desc: &'a IndexDesc<'a>,
    /// A value for each key column of the index.
    pub key: &'a [Datum],
    pub bytes: Bytes,
}

impl<'a> SeriesKey<'a> {
    /// # Safety
    /// `table` must be open, `desc` of an index of it, and `key` a value for each of the index's key columns.
    pub unsafe fn new(table: Table<'_>, desc: &'a IndexDesc, key: &'a [Datum]) -> Self {
        // SAFETY: by contract.
        let bytes = unsafe { bytes_of(table, &desc.columns, key) };
        SeriesKey { desc, key, bytes }
    }
}

/// Bytes that tell keys apart, of types whose equal values are the same bytes. `values` are of the first of `columns`.
///
/// # Safety
/// `table` must be open, each value of its column's type, and not null.
pub unsafe fn bytes_of(table: Table<'_>, columns: &[usize], values: &[Datum]) -> Bytes {
    let mut bytes = Bytes::new();
    let attributes = table.attributes();
    for (&value, &column) in values.iter().zip(columns) {
        let attribute = &attributes[column];
        let length = attribute.attlen;
        // SAFETY: by contract.
        unsafe {
            match length {
                1.. if attribute.attbyval => {
                    bytes.extend_from_slice(&value.value().to_le_bytes()[..length as usize]);
                }
                1.. => {
                    let start: *const u8 = value.cast_mut_ptr();
                    bytes.extend_from_slice(core::slice::from_raw_parts(start, length as usize));
                }
                _ => varlena::with_body(value, length, |body| {
                    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(body);
                }),
            }
        }
    }
    bytes
}
