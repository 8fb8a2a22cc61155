//! Values as text.

use crate::chunk::reader::Reader;
use crate::pg::descriptor::Descriptor;
use crate::pg::types;

/// The key columns of a row: `a, b`; NULL for nulls. `None` without key columns.
///
/// # Safety
/// The reader's table must be open with `descriptor`.
pub unsafe fn key(reader: &Reader, descriptor: Descriptor<'_>, row: u32) -> Option<String> {
    let keys = &reader.chunk.statics.keys;
    if keys.is_empty() {
        return None;
    }
    let attributes = descriptor.attributes();
    let parts: Vec<String> = keys
        .iter()
        .filter_map(|&number| {
            let at = usize::from(number) - 1;
            let attribute = attributes
                .get(at)
                .filter(|attribute| !attribute.attisdropped)?;
            // SAFETY: by contract.
            let text = unsafe {
                match reader.value(descriptor, row, at) {
                    (_, true) => "NULL".to_string(),
                    (value, false) => types::text_of(value, attribute.atttypid),
                }
            };
            Some(text)
        })
        .collect();
    Some(parts.join(", "))
}
