//! Does an update leave a row's keys as they are? Then others may lock these meanwhile (`handover`).

use super::visible;
use crate::chunk::reader::Reader;
use crate::pg::image;
use crate::pg::relation::Table;
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;

/// Does an update to what is in `slot` change the key of the compressed row at `at`?
///
/// # Safety
/// `table` must be open, and the slot of it.
pub unsafe fn changes_key(table: Table<'_>, at: Tid, slot: Slot<'_>) -> bool {
    // SAFETY: by contract.
    unsafe {
        let any = Snapshot::any();
        match visible::visible_row(table, at, any) {
            Some((old, row)) => differs_in_key(table, &old, row, slot),
            None => true,
        }
    }
}

/// Is what is in `slot` a row of another key than a row of a chunk?
///
/// # Safety
/// See `changes_key`.
pub unsafe fn differs_in_key(table: Table<'_>, old: &Reader, row: u32, slot: Slot<'_>) -> bool {
    // SAFETY: by contract.
    unsafe {
        // Columns of keys that other rows may refer to, from 0.
        let columns = table.key_columns();
        if columns.is_empty() {
            return false;
        }
        let (values, nulls) = slot.attributes();
        let descriptor = table.descriptor();
        let attributes = descriptor.attributes();
        columns.into_iter().any(|column| {
            let (value, isnull) = old.value(descriptor, row, column);
            isnull != nulls[column]
                || !isnull && !image::same_image(value, values[column], &attributes[column])
        })
    }
}
