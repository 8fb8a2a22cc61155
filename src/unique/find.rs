//! Is a key in a chunk, now? A snapshot of this moment shows every compressed row exactly once, whatever is
//! sealed and merged meanwhile. Each row of the key that it shows is then judged as it is: whether it has been
//! changed since, or is being changed. New keys come to chunks by way of the tail, where btree has met them, or in
//! batches, which are seen while their transactions are in progress.

use super::announced;
use super::frontier;
use super::key_cache::{self, Hit, KeyCache, Known, Moment, Since};
use super::series_key::SeriesKey;
use super::wait::Wait;
use crate::catalog::keys::{self, Unique};
use crate::chunk::chunk_cache::{self, Standing};
use crate::chunk::notes;
use crate::chunk::reader::Reader;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::{Datum, InvalidOid};
use crate::series_index::entries::IndexDesc;
use crate::table::activity::{activity, Activity};
use crate::table::changes::{self, Newest};
use crate::table::locks;
use smallvec::SmallVec;
use std::rc::Rc;

/// Keys of so many columns are looked for without asking for memory.
pub const FEW: usize = 8;

/// A key that is looked for: values of the key columns of a unique index.
pub struct Key<'a> {
    pub values: &'a [Datum],
    pub nulls: &'a [bool],
    /// The columns, from 0, that must be equal.
    pub columns: SmallVec<[usize; FEW]>,
}

/// A row of a chunk.
pub type Place = (Rc<Reader>, u32);

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
pub struct Search<'a> {
    pub table: Table<'a>,
    /// The unique index that the key is of.
    pub index: Index<'a>,
    /// Waits for who is changing a row of the key, or inserting one.
    pub waits: bool,
}

/// Looks for a key in the chunks; `since` is set to what tells whether new keys may have come since.
///
/// # Safety
/// Table and index must be open, `key` of that index. Where it waits, no page may be locked.
pub unsafe fn find(search: Search, key: &Key, since: &mut Since) -> (Answer, Option<Place>) {
    // SAFETY: by contract.
    unsafe {
        let keys = keys::of(search.table);
        let Some(unique) = keys.of_index(search.index.oid()) else {
            return (Answer::Free, None);
        };
        if let Some(heard) = frontier::behind_chunks(search.table, unique, key) {
            *since = Since::News(heard);
            return (Answer::Free, None);
        }
        loop {
            error::check_interrupts();
            let walks = series_values(unique, key).is_none();
            let announced = walks && announced::is_announced(search.table);
            let moment = Moment::now();
            // A table is marked as one with chunks when the first ones are committed. A walk passes by what has come since its snapshot.
            *since = moment.since_ends();
            if !keys.has_chunks(search.table) {
                return (Answer::Free, None);
            }
            let by_series = unique.series.as_ref().and_then(|&(series, _)| {
                let index = OpenIndex::open(series, LockMode::AccessShare);
                look_by(search, unique, &IndexDesc::new(index.rel()), key, moment)
            });
            if by_series.is_some() {
                *since = moment.since_news();
            }
            match by_series.unwrap_or_else(|| walk(search, unique, key, moment, announced)) {
                Look::Free => return (Answer::Free, None),
                Look::Taken(place) => return (Answer::Taken, Some(place)),
                Look::Again => {}
                Look::Changes(_) if !search.waits => return (Answer::Uncertain, None),
                Look::Changes(wait) => wait.wait(search.table),
            }
        }
    }
}

/// What one look at the chunks has come to.
pub enum Look {
    Free,
    Taken(Place),
    /// Somebody is changing a row of the key, or inserting one.
    Changes(Wait),
    /// Something has changed meanwhile that matters.
    Again,
}

/// Looks the key up by a series index. New keys may come into chunks without having been in the tail, so nothing is free where somebody has told of new
/// chunks meanwhile: a merger may have moved what was committed since. `None` where the key is not given in full.
///
/// # Safety
/// Table and index must be open, `unique` that index, `desc` of its series index, `key` of it, `moment` of now.
pub unsafe fn look_by(
    search: Search,
    unique: &Unique,
    desc: &IndexDesc,
    key: &Key,
    moment: Moment,
) -> Option<Look> {
    let values = series_values(unique, key)?;
    // SAFETY: by contract.
    unsafe {
        let series = desc.index.oid();
        let (time, series_key) = values.split_last().expect("BUG: an index without columns");
        let series_key = SeriesKey::new(search.table, desc, series_key);
        let look = key_cache::lend(search.table, series, moment, |cache| {
            let at = desc.time_of(*time, false).1;
            let hits_in = |cache: &mut KeyCache| {
                let mut hits = cache.rows_at(&series_key, *time);
                if !unique.is_series_and_time() {
                    hits.retain(|hit| {
                        let reader = &cache.chunks[hit.chunk].reader;
                        has_key(search, unique, key, reader, hit.row)
                    });
                }
                hits
            };
            // As a rule the row is in a chunk that is entered under its key, and where the snapshot shows it there is no need to look into others.
            cache.cover_keyed(&series_key, (at, at), moment.snapshot);
            let hits = hits_in(cache);
            let is_seen = |hit: &&Hit| cache.chunks[hit.chunk].standing == Standing::Seen;
            let seen: SmallVec<[Hit; 4]> = hits.iter().filter(is_seen).cloned().collect();
            let mut look = judge_hits(search.table, &cache.chunks, &seen);
            if matches!(look, Look::Free) {
                let has_more = cache.cover(&series_key, (at, at), moment.snapshot);
                if has_more || seen.len() < hits.len() {
                    let hits = hits_in(cache);
                    look = judge_hits(search.table, &cache.chunks, &hits);
                }
            }
            cache.outdated |= matches!(look, Look::Again);
            match look {
                Look::Free if cache.outdated || moment.since_news().is_stale() => Look::Again,
                look => look,
            }
        });
        Some(look)
    }
}

/// What rows of one key are now. Those that the snapshot shows come first: each is shown once, whatever moves meanwhile.
///
/// # Safety
/// `chunks` must be of the open `table`, as they are now; `hits` of `chunks`.
pub unsafe fn judge_hits(table: Table<'_>, chunks: &[Known], hits: &[Hit]) -> Look {
    let is_seen = |hit: &&Hit| chunks[hit.chunk].standing == Standing::Seen;
    let seen = hits.iter().filter(is_seen);
    let others = hits.iter().filter(|hit| !is_seen(hit));
    // SAFETY: by contract.
    unsafe {
        for hit in seen.chain(others) {
            let known = &chunks[hit.chunk];
            let verdict = match known.standing {
                Standing::Pending(writer) => {
                    Verdict::Changes(Wait::Transaction(writer, known.reader.chunk.tid))
                }
                Standing::Seen if known.idle.get() => judge_idle(table, &known.reader, hit.row),
                _ => judge(table, &known.reader, hit.row),
            };
            match verdict {
                Verdict::Gone => continue,
                Verdict::Lives(place) => {
                    let chunk = &known.reader.chunk;
                    if known.met.replace(true) && !known.idle.get() {
                        let is_idle = !locks::has_changers(table, chunk.header.chunk)
                            && !notes::has_others(chunk, None);
                        known.idle.set(is_idle);
                    }
                    return Look::Taken(place);
                }
                Verdict::Changes(wait) => return Look::Changes(wait),
                Verdict::Again => return Look::Again,
            }
        }
    }
    Look::Free
}

/// Looks at all rows of all chunks: the table has no series index for the key, or the key is not given in full. Keys come to such
/// chunks by way of the tail, but for those that a transaction brings which began when there was a series index: some had been
/// `announced` before that moment.
///
/// # Safety
/// Table and index must be open, `unique` that index, `key` of it, `moment` of now.
unsafe fn walk(
    search: Search,
    unique: &Unique,
    key: &Key,
    moment: Moment,
    announced: bool,
) -> Look {
    // SAFETY: the caller's contract.
    unsafe {
        key_cache::lend(search.table, InvalidOid, moment, |cache| {
            cache.cover_table(moment.snapshot);
            let chunks = &cache.chunks;
            let mut hits = Vec::new();
            for (chunk, known) in chunks.iter().enumerate() {
                error::check_interrupts();
                let reader = &known.reader;
                let live = (0..reader.rows()).filter(|&row| !reader.chunk.map.contains(row));
                let of_key = live.filter(|&row| has_key(search, unique, key, reader, row));
                hits.extend(of_key.map(|row| Hit { chunk, row }));
            }
            match judge_hits(search.table, chunks, &hits) {
                Look::Free if announced && moment.is_over() => Look::Again,
                look => look,
            }
        })
    }
}

/// The values that the series index of a key is to look for.
fn series_values(unique: &Unique, key: &Key) -> Option<SmallVec<[Datum; FEW]>> {
    let (_, places) = unique.series.as_ref()?;
    let value = |&at: &usize| {
        let is_given = key.columns.contains(&at) && !key.nulls[at];
        is_given.then(|| key.values[at])
    };
    places.iter().map(value).collect()
}

/// Has a row the key, in the sense of the unique index?
///
/// # Safety
/// Table and index must be open, `unique` that index, `key` of it, and the reader's chunk be one of the table that has the row.
pub unsafe fn has_key(
    search: Search,
    unique: &Unique,
    key: &Key,
    reader: &Reader,
    row: u32,
) -> bool {
    // SAFETY: the caller's contract; the index has an order for each of its columns.
    unsafe {
        let descriptor = search.table.descriptor();
        key.columns.iter().all(|&at| {
            let (value, isnull) = reader.value(descriptor, row, unique.columns[at]);
            if isnull || key.nulls[at] {
                return isnull && key.nulls[at];
            }
            search.index.compare(at, value, key.values[at]) == 0
        })
    }
}

/// What a compressed row is at this moment.
enum Verdict {
    Lives(Place),
    /// Deleted, or updated: by ourselves, so that nobody else can have seen to it meanwhile.
    Gone,
    Changes(Wait),
    /// It has been changed or moved since the snapshot.
    Again,
}

/// What a row of a chunk is now, with what others do to it.
///
/// # Safety
/// `table` must be open, the reader show a chunk of it as it is now, which has the row.
unsafe fn judge(table: Table<'_>, reader: &Rc<Reader>, row: u32) -> Verdict {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(verdict) = judge_by_own(table, reader, row) {
            return verdict;
        }
        let chunk = &reader.chunk;
        // First the lock, then the header: who has written the header meanwhile is noticed by it.
        if locks::await_change(table, chunk.header.chunk, row, false) {
            return Verdict::Changes(Wait::Change(Rc::clone(reader), row));
        }
        match activity(table, chunk.tid) {
            Activity::By(other) => Verdict::Changes(Wait::Transaction(other, chunk.tid)),
            Activity::Over => Verdict::Again,
            // Who had the chunk to himself has announced no change of a row: he has ended, so his notes are there.
            Activity::None if notes::has_others(chunk, Some(row)) => {
                let writer = notes::changer_of(table, chunk.tid, chunk.header.chunk, row);
                writer.map_or(Verdict::Again, |writer| {
                    Verdict::Changes(Wait::Transaction(writer, chunk.tid))
                })
            }
            Activity::None => Verdict::Lives((Rc::clone(reader), row)),
        }
    }
}

/// A row of a chunk in which nobody was changing rows when this statement looked: it may have begun since, which is as if
/// the statement had come to the row before.
///
/// # Safety
/// As `judge`.
unsafe fn judge_idle(table: Table<'_>, reader: &Rc<Reader>, row: u32) -> Verdict {
    // SAFETY: the caller's contract.
    let by_own = unsafe { judge_by_own(table, reader, row) };
    by_own.unwrap_or_else(|| Verdict::Lives((Rc::clone(reader), row)))
}

/// What this transaction's own changes of the chunk say.
///
/// # Safety
/// As `judge`.
unsafe fn judge_by_own(table: Table<'_>, reader: &Reader, row: u32) -> Option<Verdict> {
    let chunk = &reader.chunk;
    if changes::change(chunk, row).is_some() {
        return Some(Verdict::Gone);
    }
    match changes::newest(chunk)? {
        Newest::Gone => Some(Verdict::Gone),
        // SAFETY: the caller's contract.
        Newest::At(own) => Some(unsafe { judge_own(table, own, row) }),
    }
}

/// A row of a chunk that this transaction has to itself.
///
/// # Safety
/// `table` must be open, and `newest` be where this transaction has written the header of a chunk of it that has the row.
unsafe fn judge_own(table: Table<'_>, newest: Tid, row: u32) -> Verdict {
    // SAFETY: the caller's contract.
    unsafe {
        let any = Snapshot::any();
        match chunk_cache::reader_for_check(table, newest, any) {
            Some(reader) if !reader.chunk.map.contains(row) => Verdict::Lives((reader, row)),
            _ => Verdict::Gone,
        }
    }
}
