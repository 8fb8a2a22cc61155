//! Where the chunks and the tail of a table are, without a walk over its pages.
//!
//! A series index has an entry for each header version that has rows, and for each row of the tail. The
//! transaction that writes a header enters it, so what a snapshot sees was entered before the snapshot was
//! taken, and stays entered while somebody holds it: VACUUM removes entries of what nobody can see. So a
//! reading of the index that begins after its snapshot was taken comes upon every header that this sees,
//! whatever compact publishes meanwhile. It also comes upon others (dead, aborted, replaced, too new ones),
//! and upon a header once for each of its entries. Here each place is named once, and the snapshot decides
//! when the place is looked at. A place that was emptied and filled again by another header cannot be
//! shown twice either: it is one place.
//!
//! No series index has headers whose rows are all gone (`FLAG_TOMBSTONE`); nobody but compact wants them.

use crate::catalog::layout;
use crate::chunk::chunk_cache;
use crate::chunk::notes::{self, View};
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::{index_entries, inspect};
use crate::ingest::batch;
use crate::pg::error::{self, Code};
use crate::pg::leaves;
use crate::pg::open::OpenIndex;
use crate::pg::page::PageCursor;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::table::changes;
use std::rc::Rc;
use varve_columns::tuple::header::{self, Header, StorageTuple, FLAG_SORTED, FLAG_TOMBSTONE};

/// Where things are that a snapshot may see.
#[derive(Default)]
pub struct Places {
    /// Of headers: each once, in the order of the file.
    pub headers: Vec<Tid>,
    /// Pages that may have rows of the tail: each once, ascending.
    pub tail: Vec<u32>,
}

/// All places of a table that an MVCC snapshot may see something at. Reads a series index from end to end, and none of the
/// table's pages. `None` where there is no index that tells: the table has none, or none that this snapshot may use;
/// `inspect::visible_tuples` walks over the pages then. `each_header` and `each_chunk` choose between both by themselves.
///
/// What this transaction holds back in memory comes first: rows of a batch are written, and where the transaction
/// has followed rows that moved after the snapshot, that is a serialization failure, as in every scan. Under SERIALIZABLE the table
/// counts as read. Changes of few rows stay in memory: who shows rows lays `changes::hidden` over each chunk.
pub fn places(table: Table<'_>, snapshot: Snapshot<'_>) -> Option<Places> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        begin_reading(table, snapshot);
        let index = usable_index(table, snapshot)?;
        let mut places = Places::default();
        let is_whole = leaves::each_item(index.rel(), snapshot, |item| {
            for entry in item.tids() {
                match index_entries::header_of_entry(entry) {
                    Some(header) => add(&mut places.headers, header),
                    None => add(&mut places.tail, entry.block),
                }
            }
        });
        check_whole(index.rel(), is_whole);
        settle(&mut places.headers);
        settle(&mut places.tail);
        Some(places)
    }
}

/// How many pages `places` reads.
pub fn index_pages(table: Table<'_>, snapshot: Snapshot<'_>) -> Option<u32> {
    usable_index(table, snapshot).map(|index| index.rel().blocks())
}

/// Numbers that are kept before those that come more than once are taken out.
const MANY: usize = 1 << 16;

fn add<T: Ord + Copy>(all: &mut Vec<T>, next: T) {
    if all.last() == Some(&next) {
        return;
    }
    if all.len() >= MANY && all.len() == all.capacity() {
        settle(all);
        all.reserve(all.len());
    }
    all.push(next);
}

fn settle<T: Ord>(all: &mut Vec<T>) {
    all.sort_unstable();
    all.dedup();
}

/// Shows the header of each chunk with rows that an MVCC snapshot sees to `visit`, in the order of the file, and reads nothing but
/// the page that it is on. A header says how many rows the chunk has, how many of them its transaction had deleted, and from
/// when to when they are (`times`); a damaged one is shown as what is wrong with it.
///
/// Reads a series index and the pages of headers; all pages where there is no series index. Other things are as for `places`.
pub fn each_header(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    mut visit: impl FnMut(Tid, Result<Header, Damage>),
) {
    let headers = all_headers(table, snapshot);
    visit_headers(table, snapshot, &headers, |at, header| match header {
        Ok(header) if header.has(FLAG_TOMBSTONE) => {}
        header => visit(at, header),
    });
}

/// Shows each chunk with rows that an MVCC snapshot sees to `visit`, opened, in the order of the file; a damaged one as what is wrong with it.
/// No payload is read. It visits what `each_header` does, and the pages of delete maps and column headers that a header has no room for.
///
/// # Safety
/// As `places`. `visit` may read the table, and change it.
pub unsafe fn each_chunk(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    mut visit: impl FnMut(Tid, Result<Rc<Reader>, Damage>),
) {
    // SAFETY: by contract.
    unsafe {
        for at in all_headers(table, snapshot) {
            error::check_interrupts();
            match chunk_cache::try_reader_at(table, at, snapshot) {
                None => {}
                Some(Ok(reader)) if reader.chunk.header.has(FLAG_TOMBSTONE) => {}
                Some(found) => visit(at, found),
            }
        }
    }
}

fn all_headers(table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<Tid> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        if let Some(places) = places(table, snapshot) {
            return places.headers;
        }
        let mut headers = Vec::new();
        inspect::visible_tuples(table, snapshot, |found, item| {
            if found == TupleKind::Header {
                headers.push(item.tid);
            }
        });
        headers
    }
}

/// Shows those of the headers at `places`, in their order, that a snapshot sees to `visit`, tombstones too. Each is looked at under a lock on
/// its page, which is held for no longer.
pub fn visit_headers(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    places: &[Tid],
    mut visit: impl FnMut(Tid, Result<Header, Damage>),
) {
    let mut cursor = PageCursor::new(table);
    let blocks = table.blocks();
    for &at in places {
        error::check_interrupts();
        if at.block >= blocks {
            continue;
        }
        cursor.go(at.block);
        let buffer = cursor.buffer();
        let found = cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            // SAFETY: the page is pinned and locked.
            unsafe {
                let mut heap_tuple = item.to_heap_tuple(table.oid());
                let seen =
                    classify(&item) == TupleKind::Header && snapshot.sees(&mut heap_tuple, buffer);
                let body = item.body();
                seen.then(|| (decode(body), body.to_vec()))
            }
        });
        if let Some((header, body)) = found {
            let header = header.and_then(|header| {
                let view = View::Snapshot(snapshot);
                let notes = notes::of_header(table, at, &body, header.rows, view, &[])?;
                Ok(Header {
                    deleted: header.deleted + notes.count(),
                    ..header
                })
            });
            visit(at, header);
        }
    }
}

fn decode(body: &[u8]) -> Result<Header, Damage> {
    match header::decode(body) {
        Ok(StorageTuple::Header(header)) => Ok(header),
        Ok(_) => Err(Damage::new("a piece where a header should be")),
        Err(header::NEWER_VERSION) => Err(Damage::newer(body[4])),
        Err(error) => Err(Damage::new(error)),
    }
}

/// What a snapshot sees of a table, in numbers. Rows that this transaction has changed and still holds back count as they were.
#[derive(Default)]
pub struct Count {
    pub tail_rows: i64,
    pub chunks: i64,
    /// Rows of chunks that are not deleted.
    pub chunk_rows: i64,
}

/// Counts rows by headers and the tail's pages. Other things are as for `places`; damaged chunks are left out.
pub fn count(table: Table<'_>, snapshot: Snapshot<'_>) -> Count {
    let mut count = Count::default();
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let mut headers = Vec::new();
        match places(table, snapshot) {
            Some(places) => {
                headers = places.headers;
                inspect::visible_on(table, snapshot, places.tail.into_iter(), |found, _| {
                    count.tail_rows += i64::from(found == TupleKind::Row);
                });
            }
            None => inspect::visible_tuples(table, snapshot, |found, item| match found {
                TupleKind::Row => count.tail_rows += 1,
                TupleKind::Header => headers.push(item.tid),
                TupleKind::Skip => {}
            }),
        }
        visit_headers(table, snapshot, &headers, |_, header| match header {
            Ok(header) if !header.has(FLAG_TOMBSTONE) => {
                count.chunks += 1;
                count.chunk_rows += i64::from(header.rows - header.deleted);
            }
            _ => {}
        });
    }
    count
}

/// Least and greatest time of a chunk, in units of the time column; `None` where it is not known: all its rows have none, or some
/// do, or it was written when the table had another layout.
pub fn times(header: &Header) -> Option<(i64, i64)> {
    header
        .has(FLAG_SORTED)
        .then_some((header.min_time, header.max_time))
}

/// Raises that the pages of an index do not hang together, if that is so.
pub fn check_whole(index: Index<'_>, is_whole: bool) {
    if !is_whole {
        error::raise(
            Code::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{}\" is damaged", index.name()),
            "Its pages do not hang together.",
            "REINDEX it.",
        );
    }
}

/// What every reading of a table begins with.
pub fn begin_reading(table: Table<'_>, snapshot: Snapshot<'_>) {
    // SAFETY: the table is open, the snapshot valid; errors become panics at the boundary.
    unsafe {
        batch::flush_before_scan(table, snapshot);
        changes::check_readable(table, snapshot);
        table.note_reader(snapshot);
    }
}

/// The series index by which `places` finds everything that a snapshot sees: that of the table's layout, if there is a choice. An index that
/// was built while older row versions could be seen must not be used by those who can see them.
pub fn usable_index(table: Table<'_>, snapshot: Snapshot<'_>) -> Option<OpenIndex> {
    // SAFETY: the table is open, the snapshot valid; rd_indextuple is the index's row of pg_index.
    unsafe {
        if !snapshot.is_mvcc() {
            return None;
        }
        let mut usable: Vec<OpenIndex> = layout::series_indexes(table)
            .into_iter()
            .filter(|index| {
                let index = index.rel();
                let made_by = tuple::xmin((*(*index.as_ptr()).rd_indextuple).t_data);
                !index.form().indcheckxmin || transaction::precedes(made_by, snapshot.xmin())
            })
            .collect();
        if usable.len() > 1 {
            let stated = layout::of(table);
            usable.sort_by_key(|index| layout::of_index(index.rel()) != stated);
        }
        usable.into_iter().next()
    }
}
