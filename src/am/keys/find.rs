//! Is a key in a chunk, now? A snapshot of this moment shows every compressed row exactly once, whatever is
//! sealed and merged meanwhile. Each row of the key that it shows is then judged as it is: whether it has been
//! changed since, or is being changed. New keys come to chunks only by way of the tail, where btree has met them.

use super::catalog::{self, Unique};
use crate::am::scan::{classify, Found};
use crate::am::series_index::probe::{self, Place};
use crate::pg::error;
use crate::pg::page::PageCursor;
use crate::pg::relation::{self, Open};
use crate::pg::tid::{self, Tid};
use crate::storage::read::Reader;
use crate::storage::registry;
use crate::table::changes::{self, Newest};
use crate::table::locks::{self, Activity};
use pgrx::pg_sys;
use std::rc::Rc;

/// A key that is looked for: values of the key columns of a unique index.
pub struct Key<'a> {
    pub values: &'a [pg_sys::Datum],
    pub nulls: &'a [bool],
    /// The columns, from 0, that must be equal.
    pub columns: Vec<usize>,
}

/// What came of a search.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub enum Answer {
    /// No row has the key.
    Free,
    /// A row in a chunk has it, that nobody is changing.
    Taken,
    /// A row has it, or may get it back: somebody is changing it, and the caller did not want to wait.
    Uncertain,
}

/// How rows are to be looked for.
#[derive(Clone, Copy)]
pub struct Search {
    pub table: pg_sys::Relation,
    pub index: pg_sys::Relation,
    pub waits: bool,
}

/// Looks for a key in the chunks; `stamp` is set to what tells whether transactions have ended since.
///
/// # Safety
/// Table and index must be open, `key` of that index.
pub unsafe fn find(search: Search, key: &Key, stamp: &mut u64) -> (Answer, Option<Tid>) {
    // SAFETY: by contract.
    unsafe {
        let keys = catalog::of(search.table);
        let Some(unique) = keys.of_index(relation::oid(search.index)) else {
            return (Answer::Free, None);
        };
        loop {
            error::check_interrupts();
            let latest = pg_sys::GetLatestSnapshot();
            *stamp = completions(latest);
            let snapshot = pg_sys::RegisterSnapshot(latest);
            let mut answer = Some((Answer::Free, None));
            if keys.has_chunks(search.table) {
                for (reader, row) in rows_of_key(search, unique, key, snapshot) {
                    match judge(search, &reader, row) {
                        Verdict::Gone => continue,
                        Verdict::Lives(at) => answer = Some((Answer::Taken, Some(at))),
                        Verdict::Changes(_) if !search.waits => {
                            answer = Some((Answer::Uncertain, None));
                        }
                        Verdict::Changes(by) => {
                            answer = None;
                            pg_sys::UnregisterSnapshot(snapshot);
                            wait(search, &reader, row, by);
                        }
                        Verdict::Again => {
                            answer = None;
                            pg_sys::UnregisterSnapshot(snapshot);
                        }
                    }
                    break;
                }
            }
            if let Some(answer) = answer {
                pg_sys::UnregisterSnapshot(snapshot);
                return answer;
            }
        }
    }
}

/// Has any transaction ended since `stamp`?
///
/// # Safety
/// Inside a transaction.
pub unsafe fn is_stale(stamp: u64) -> bool {
    // SAFETY: by contract.
    unsafe { stamp == 0 || completions(pg_sys::GetLatestSnapshot()) != stamp }
}

/// Counts the ends of transactions, as a new snapshot knows them; 0 where it does not.
unsafe fn completions(snapshot: pg_sys::Snapshot) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { (*snapshot).snapXactCompletionCount }
}

/// Rows of chunks with a key that a snapshot shows.
unsafe fn rows_of_key(
    search: Search,
    unique: &Unique,
    key: &Key,
    snapshot: pg_sys::Snapshot,
) -> Vec<Place> {
    // SAFETY: the caller's contract.
    unsafe {
        let mut places = match series_values(unique, key) {
            Some((series, values)) => {
                let series = Open::index(series, pg_sys::AccessShareLock);
                probe::rows_at(search.table, series.rel(), &values, snapshot)
            }
            None => all_rows(search.table, snapshot),
        };
        places.retain(|(reader, row)| has_key(search, unique, key, reader, *row));
        places
    }
}

/// The series index that finds a key, and the values that it is to look for.
unsafe fn series_values(unique: &Unique, key: &Key) -> Option<(pg_sys::Oid, Vec<pg_sys::Datum>)> {
    let (series, places) = unique.series.as_ref()?;
    let value = |&at: &usize| {
        let is_given = key.columns.contains(&at) && !key.nulls[at];
        is_given.then(|| key.values[at])
    };
    let values = places.iter().map(value).collect::<Option<Vec<_>>>()?;
    Some((*series, values))
}

/// All rows of all chunks: the table has no series index for the key, or the key is not given in full.
unsafe fn all_rows(table: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> Vec<Place> {
    let mut places = Vec::new();
    // SAFETY: the caller's contract.
    unsafe {
        let mut cursor = PageCursor::new(table);
        for block in 0..relation::blocks(table) {
            error::check_interrupts();
            cursor.go(block);
            let headers: Vec<Tid> = cursor.locked(|page| {
                page.tuples()
                    .filter(|item| {
                        classify(item.header, item.len, item.tid.offset) == Found::Header
                    })
                    .map(|item| item.tid)
                    .collect()
            });
            for header in headers {
                if let Some(reader) = registry::reader_for_check(table, header, snapshot) {
                    let live = (0..reader.rows()).filter(|&row| !reader.chunk.map.contains(row));
                    places.extend(live.map(|row| (Rc::clone(&reader), row)));
                }
            }
        }
    }
    places
}

/// Has a row the key, in the sense of the unique index?
unsafe fn has_key(search: Search, unique: &Unique, key: &Key, reader: &Reader, row: u32) -> bool {
    // SAFETY: the caller's contract; the index has an order for each of its columns.
    unsafe {
        let descriptor = (*search.table).rd_att;
        key.columns.iter().all(|&at| {
            let (value, isnull) = reader.value(descriptor, row, unique.columns[at]);
            if isnull || key.nulls[at] {
                return isnull && key.nulls[at];
            }
            let order = pg_sys::index_getprocinfo(search.index, at as i16 + 1, 1);
            let collation = *(*search.index).rd_indcollation.add(at);
            let compared = pg_sys::FunctionCall2Coll(order, collation, value, key.values[at]);
            compared.value() as i32 == 0
        })
    }
}

/// What a compressed row is at this moment.
enum Verdict {
    Lives(Tid),
    /// Deleted, or updated: by ourselves, so that nobody else can have seen to it meanwhile.
    Gone,
    /// By a transaction that is known, or one that holds the row's lock.
    Changes(Option<pg_sys::TransactionId>),
    /// It has been changed or moved since the snapshot.
    Again,
}

unsafe fn judge(search: Search, reader: &Reader, row: u32) -> Verdict {
    let chunk = &reader.chunk;
    if changes::entry(chunk, row).is_some() {
        return Verdict::Gone;
    }
    // SAFETY: the caller's contract.
    unsafe {
        match changes::newest(chunk) {
            Some(Newest::Gone) => return Verdict::Gone,
            Some(Newest::At(own)) => return judge_own(search.table, own, row),
            None => {}
        }
        // First the lock, then the header: who has written the header meanwhile is noticed by it.
        if locks::await_change(search.table, chunk.header.chunk, row, false) {
            return Verdict::Changes(None);
        }
        match locks::activity(search.table, chunk.tid) {
            Activity::None => Verdict::Lives(Tid::of_row(chunk.tid, row)),
            Activity::By(other) => Verdict::Changes(Some(other)),
            Activity::Over => Verdict::Again,
        }
    }
}

/// A row of a chunk that this transaction has to itself.
unsafe fn judge_own(table: pg_sys::Relation, newest: Tid, row: u32) -> Verdict {
    // SAFETY: the caller's contract.
    unsafe {
        let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
        match registry::reader_for_check(table, newest, any) {
            Some(reader) if !reader.chunk.map.contains(row) => {
                Verdict::Lives(Tid::of_row(newest, row))
            }
            _ => Verdict::Gone,
        }
    }
}

/// Waits for the end of whoever changes a row.
unsafe fn wait(search: Search, reader: &Reader, row: u32, by: Option<pg_sys::TransactionId>) {
    let chunk = &reader.chunk;
    // SAFETY: the caller's contract; no page is locked or pinned.
    unsafe {
        match by {
            None => {
                locks::await_change(search.table, chunk.header.chunk, row, true);
            }
            Some(other) => {
                let mut item = tid::to_pg(chunk.tid);
                let why = pg_sys::XLTW_Oper::XLTW_InsertIndex;
                pg_sys::XactLockTableWait(other, search.table, &mut item, why);
            }
        }
    }
}
