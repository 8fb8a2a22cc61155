//! Does an update leave a row's keys as they are? Then others may lock these meanwhile (`handover`).

use super::visible;
use crate::chunk::reader::Reader;
use crate::chunk::slot;
use crate::pg::relation::{self, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use pgrx::pg_sys;

/// Columns of keys that other rows may refer to, from 0.
fn key_columns(table: Table<'_>) -> Vec<usize> {
    let mut columns = Vec::new();
    // SAFETY: the table is open; the set is a copy of ours.
    unsafe {
        let set = pg_sys::RelationGetIndexAttrBitmap(
            table.as_ptr(),
            pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_KEY,
        );
        let mut member = -1;
        loop {
            member = pg_sys::bms_next_member(set, member);
            if member < 0 {
                break;
            }
            let number = member + pg_sys::FirstLowInvalidHeapAttributeNumber;
            columns.extend(usize::try_from(number - 1));
        }
        pg_sys::bms_free(set);
    }
    columns
}

/// Does an update to what is in `slot` change the key of the compressed row at `at`?
///
/// # Safety
/// `table` must be open, the slot filled.
pub unsafe fn changes_key(table: Table<'_>, at: Tid, slot: *mut pg_sys::TupleTableSlot) -> bool {
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
pub unsafe fn differs_in_key(
    table: Table<'_>,
    old: &Reader,
    row: u32,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let columns = key_columns(table);
        if columns.is_empty() {
            return false;
        }
        slot::deform_all(slot);
        let descriptor = table.descriptor();
        let attributes = descriptor.attributes();
        columns.into_iter().any(|column| {
            let (value, isnull) = old.value(descriptor, row, column);
            let new = *(*slot).tts_values.add(column);
            isnull != *(*slot).tts_isnull.add(column)
                || !isnull && !relation::same_image(value, new, &attributes[column])
        })
    }
}
