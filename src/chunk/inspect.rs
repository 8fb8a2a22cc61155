//! Looking at every chunk of a table, in the order of their headers.

use crate::chunk::chunk_cache;
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use std::rc::Rc;

/// Shows every tuple that `snapshot` sees to `visit`, page by page under a share lock.
///
/// # Safety
/// `table` must be open, `snapshot` valid; `visit` must not lock buffers.
pub unsafe fn visible_tuples(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    visit: impl FnMut(TupleKind, PageTuple<'_>),
) {
    // SAFETY: by contract.
    unsafe { visible_on(table, snapshot, 0..table.blocks(), visit) }
}

/// The same of some pages; those that the table does not have are passed over.
///
/// # Safety
/// As `visible_tuples`.
pub unsafe fn visible_on(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    pages: impl Iterator<Item = u32>,
    mut visit: impl FnMut(TupleKind, PageTuple<'_>),
) {
    // SAFETY: by contract.
    unsafe {
        let oid = table.oid();
        let blocks = table.blocks();
        let mut cursor = PageCursor::new(table);
        for block in pages.filter(|&block| block < blocks) {
            error::check_interrupts();
            cursor.go(block);
            let buffer = cursor.buffer();
            cursor.locked(|page| {
                for item in page.tuples() {
                    let mut heap_tuple = item.to_heap_tuple(oid);
                    if snapshot.sees(&mut heap_tuple, buffer) {
                        visit(classify(&item), item);
                    }
                }
            });
        }
    }
}

/// Shows every chunk that `snapshot` sees to `visit`, as it is in the file, damaged ones as what is wrong with them.
///
/// # Safety
/// As `visible_tuples`, but `visit` may read the table.
pub unsafe fn chunks(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    mut visit: impl FnMut(Tid, Result<Rc<Reader>, Damage>),
) {
    let mut headers = Vec::new();
    // SAFETY: by contract.
    unsafe {
        visible_tuples(table, snapshot, |found, item| {
            if found == TupleKind::Header {
                headers.push(item.tid);
            }
        });
        for at in headers {
            error::check_interrupts();
            if let Some(result) = chunk_cache::try_reader_anew(table, at, snapshot) {
                visit(at, result);
            }
        }
    }
}
