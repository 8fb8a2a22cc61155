//! Finding chunks: by the TID of a header, with a few readers kept per transaction, and by chunk id.

use super::read::{Chunk, Damage, Reader};
use crate::am::scan::{classify, raise, Found};
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use crate::pg::tuple;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::header::{self, StorageTuple};

const KEPT_READERS: usize = 8;

struct Kept {
    table: pg_sys::Oid,
    file: pg_sys::Oid,
    /// The header tuple's bytes: a header version never changes.
    body: Vec<u8>,
    reader: Rc<Reader>,
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Forgets all readers; at the end of each transaction.
pub fn forget_readers() {
    KEPT.with_borrow_mut(Vec::clear);
}

/// The reader of the header at `at`, if its tuple is visible to `snapshot`; raises XX001 when the chunk
/// is damaged.
///
/// # Safety
/// `table` must be open, `snapshot` valid.
pub unsafe fn reader_at(
    table: pg_sys::Relation,
    at: Tid,
    snapshot: pg_sys::Snapshot,
) -> Option<Rc<Reader>> {
    // SAFETY: by contract; the tuple stays pinned for the error's sake.
    unsafe {
        with_header(table, at, snapshot, |found| {
            kept_reader(table, at, found)
                .unwrap_or_else(|damage| raise(table, at, found.t_data, found.t_len, &damage))
        })
    }
}

/// The same, but returns what is wrong with a damaged chunk.
///
/// # Safety
/// As `reader_at`.
pub unsafe fn try_reader_at(
    table: pg_sys::Relation,
    at: Tid,
    snapshot: pg_sys::Snapshot,
) -> Option<Result<Rc<Reader>, Damage>> {
    // SAFETY: by contract.
    unsafe { with_header(table, at, snapshot, |found| kept_reader(table, at, found)) }
}

/// Shows the header tuple at `at` to `body` while it is pinned, if it is one and visible.
unsafe fn with_header<R>(
    table: pg_sys::Relation,
    at: Tid,
    snapshot: pg_sys::Snapshot,
    body: impl FnOnce(&pg_sys::HeapTupleData) -> R,
) -> Option<R> {
    // SAFETY: the callers' contract; the page exists, and heap_fetch pins it when it returns true.
    unsafe {
        if at.block >= relation::blocks(table) {
            return None;
        }
        let mut found = pg_sys::HeapTupleData {
            t_self: tid::to_pg(at),
            ..Default::default()
        };
        let mut buffer: pg_sys::Buffer = 0;
        if !heap_fetch(table, snapshot, &mut found, &mut buffer) {
            return None;
        }
        let is_header = classify(found.t_data, found.t_len, at.offset) == Found::Header;
        let result = is_header.then(|| body(&found));
        pg_sys::ReleaseBuffer(buffer);
        result
    }
}

unsafe fn heap_fetch(
    table: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    found: &mut pg_sys::HeapTupleData,
    buffer: &mut pg_sys::Buffer,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(feature = "pg14")]
        return pg_sys::heap_fetch(table, snapshot, found, buffer);
        #[cfg(not(feature = "pg14"))]
        return pg_sys::heap_fetch(table, snapshot, found, buffer, false);
    }
}

unsafe fn kept_reader(
    table: pg_sys::Relation,
    at: Tid,
    found: &pg_sys::HeapTupleData,
) -> Result<Rc<Reader>, Damage> {
    // SAFETY: the tuple is pinned.
    unsafe {
        let (oid, file) = (relation::oid(table), relation::file_number(table));
        let body = tuple::body(found.t_data, found.t_len);
        let known = KEPT.with_borrow_mut(|kept| {
            let at = kept.iter().position(|entry| {
                entry.table == oid
                    && entry.file == file
                    && entry.reader.chunk.tid == at
                    && entry.body == body
            })?;
            let entry = kept.remove(at);
            let reader = Rc::clone(&entry.reader);
            kept.push(entry);
            Some(reader)
        });
        if let Some(reader) = known {
            reader.chunk.table.set(table);
            return Ok(reader);
        }
        let reader = Reader::new(Chunk::open(table, at, found.t_data, found.t_len)?);
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == KEPT_READERS {
                kept.remove(0);
            }
            kept.push(Kept {
                table: oid,
                file,
                body: body.to_vec(),
                reader: Rc::clone(&reader),
            });
        });
        Ok(reader)
    }
}

/// The header that took the place of the one at `at`, which `replacer` deleted: the last version of the
/// chunk that `replacer` has inserted since. None when it moved the chunk's rows into others instead. Walks
/// over the table's pages.
///
/// A transaction can have inserted earlier versions too, between those of its subtransactions. Each version
/// has more rows deleted than the one before it, or as many, when the chunk was only moved; then by a
/// transaction that did nothing else to it.
///
/// The caller's snapshot is older than `replacer`'s commit, so the header is still there, even if it was
/// replaced in its turn.
///
/// # Safety
/// `table` must be open.
pub unsafe fn replacement(
    table: pg_sys::Relation,
    at: Tid,
    replacer: pg_sys::TransactionId,
) -> Option<Tid> {
    let mut newest = None;
    // SAFETY: by contract.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let blocks = relation::blocks(table);
        let replaced = cursor.tuple(at, blocks)?;
        let (chunk, mut deleted) = cursor.locked(|_| version(replaced))?;
        for block in 0..blocks {
            error::check_interrupts();
            cursor.go(block);
            cursor.locked(|page| {
                for item in page.tuples().filter(|item| item.tid != at) {
                    let later = version(item).filter(|&(other, count)| {
                        other == chunk && count >= deleted && tuple::xmin(item.header) == replacer
                    });
                    if let Some((_, count)) = later {
                        (newest, deleted) = (Some(item.tid), count);
                    }
                }
            });
        }
    }
    newest
}

/// Chunk id and number of deleted rows, where the tuple is a header.
unsafe fn version(item: PageTuple) -> Option<(u64, u32)> {
    // SAFETY: the caller has pinned and locked the tuple's page.
    unsafe {
        if classify(item.header, item.len, item.tid.offset) != Found::Header {
            return None;
        }
        match header::decode(tuple::body(item.header, item.len)) {
            Ok(StorageTuple::Header(header)) => Some((header.chunk, header.deleted)),
            _ => None,
        }
    }
}

/// A dirty snapshot, as InitDirtySnapshot makes it.
pub fn dirty_snapshot() -> pg_sys::SnapshotData {
    pg_sys::SnapshotData {
        snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
        ..Default::default()
    }
}
