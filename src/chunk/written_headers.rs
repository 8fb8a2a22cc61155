//! Headers by who wrote them: which chunks a transaction has written or moved, and which header took the place of one that is gone. Most
//! are found by what the old header says (`next_header`), the others by a walk over all pages of the table.

use super::next_header;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple;
use crate::pg::{Oid, TransactionId};
use std::rc::Rc;
use varve_columns::tuple::header::{self, StorageTuple};

const KEPT_WRITERS: usize = 16;

/// Table, file and transaction, and the headers that this has written.
type Writer = ((Oid, Oid, TransactionId), Rc<[Written]>);

thread_local! {
    static WRITERS: PerTransaction<Vec<Writer>> = PerTransaction::default();
}

/// A header as a transaction wrote it.
#[derive(Clone, Copy)]
pub struct Written {
    pub tid: Tid,
    pub chunk: u64,
    pub deleted: u32,
    pub min_time: i64,
    pub max_time: i64,
    /// The same transaction has put another version of the chunk in its place.
    is_replaced: bool,
}

/// The headers of a table that a transaction has written, in the order of their places. Walks over the
/// table's pages; what a transaction wrote that is over is remembered until this one ends.
///
/// That is as long as it is asked for: by a snapshot that does not see the writer's commit, which keeps its
/// headers in their places.
pub fn headers_by(table: Table<'_>, writer: TransactionId) -> Rc<[Written]> {
    let (oid, file, own) = (
        table.oid(),
        table.file_number(),
        transaction::is_current(writer),
    );
    let key = (oid, file, writer);
    let known = WRITERS.with_borrow(|writers| {
        let known = writers.iter().find(|known| known.0 == key);
        known.map(|known| Rc::clone(&known.1))
    });
    if let (Some(known), false) = (known, own) {
        return known;
    }
    // SAFETY: the walk pins and locks the page of each tuple. Who is still at work may write more.
    let (is_over, found) = unsafe {
        let is_over = !own && !transaction::is_in_progress(writer);
        let by_writer = |item: PageTuple<'_>| tuple::xmin(item.header()) == writer;
        (is_over, walk_for_headers(table, by_writer))
    };
    let found: Rc<[Written]> = found.into();
    if is_over {
        WRITERS.with_borrow_mut(|writers| {
            if writers.len() == KEPT_WRITERS {
                writers.remove(0);
            }
            writers.push((key, Rc::clone(&found)));
        });
    }
    found
}

/// The headers of a table that `mover` deleted because their rows moved, in the order of their places.
///
/// # Safety
/// As `headers_by`.
pub unsafe fn headers_moved_by(table: Table<'_>, mover: TransactionId) -> Vec<Written> {
    // SAFETY: by contract; the walk pins and locks the page of each tuple.
    unsafe {
        walk_for_headers(table, |item| {
            tuple::ctid(item.header()).is_moved_marker()
                && tuple::update_xid(item.header()) == mover
        })
    }
}

/// The headers that are `wanted`, in the order of their places.
///
/// # Safety
/// As `headers_by`; `wanted` must not lock buffers: each page is locked.
unsafe fn walk_for_headers(
    table: Table<'_>,
    wanted: impl Fn(PageTuple<'_>) -> bool,
) -> Vec<Written> {
    let mut found = Vec::new();
    let mut cursor = PageCursor::new(table);
    // SAFETY: the caller's contract; pages are pinned and locked while they are looked at.
    unsafe {
        for block in 0..table.blocks() {
            error::check_interrupts();
            cursor.go(block);
            cursor.locked(|page| {
                let wanted = page.tuples().filter(|&item| wanted(item));
                found.extend(wanted.filter_map(|item| as_written(item)));
            });
        }
    }
    found
}

/// What a header says, if the tuple is one.
///
/// # Safety
/// The tuple's page must be locked.
unsafe fn as_written(item: PageTuple<'_>) -> Option<Written> {
    // SAFETY: the caller's contract.
    unsafe {
        if classify(&item) != TupleKind::Header {
            return None;
        }
        match header::decode(item.body()) {
            Ok(StorageTuple::Header(header)) => Some(Written {
                tid: item.tid,
                chunk: header.chunk,
                deleted: header.deleted,
                min_time: header.min_time,
                max_time: header.max_time,
                is_replaced: tuple::ctid(item.header()).is_moved_marker()
                    && tuple::deleter(item.header()) == Some(tuple::xmin(item.header())),
            }),
            _ => None,
        }
    }
}

/// The header that took the place of the one at `at`, which `replacer` deleted: the last version of the
/// chunk that `replacer` has inserted since. None when it moved the chunk's rows into others instead.
///
/// A transaction can have inserted earlier versions too, each of which it has replaced by the next one, unless that went with its
/// subtransaction. Where it has replaced all of them, since it moved the rows of the last one, that is the one with the most rows deleted.
///
/// # Safety
/// As `headers_by`.
pub unsafe fn replacement(table: Table<'_>, at: Tid, replacer: TransactionId) -> Option<Tid> {
    // SAFETY: by contract.
    let (replaced, headers) = unsafe {
        let mut cursor = PageCursor::new(table);
        let (cursor, item) = cursor.pinned_at(at)?;
        let replaced = cursor.locked(|_| as_written(item))?;
        if let Some(next) = next_header::of(table, replaced.chunk, at) {
            if is_last_of(table, next, replacer) {
                return Some(next);
            }
        }
        (replaced, headers_by(table, replacer))
    };
    let later = headers.iter().filter(|header| {
        header.tid != at && header.chunk == replaced.chunk && header.deleted >= replaced.deleted
    });
    // Versions that were written for notes alone have as many rows deleted as the ones before them.
    let newest = later.max_by_key(|header| (!header.is_replaced, header.deleted));
    newest.map(|header| header.tid)
}

/// Has `writer` written the header at `at`, and not replaced it itself?
///
/// # Safety
/// As `headers_by`.
unsafe fn is_last_of(table: Table<'_>, at: Tid, writer: TransactionId) -> bool {
    // SAFETY: the caller's contract; the page is pinned and locked while it is looked at.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let found = cursor.pinned_at(at);
        found.is_some_and(|(cursor, item)| {
            cursor.locked(|_| {
                tuple::xmin(item.header()) == writer
                    && as_written(item).is_some_and(|header| !header.is_replaced)
            })
        })
    }
}
