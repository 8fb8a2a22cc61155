//! What the planner is told of what is in a series index: how many entries it has, how many chunks these stand for, and which chunks every
//! scan looks at. Pages tell the first alone: a chunk has an entry or hundreds, by its series and its steps. So a few entries and headers are
//! looked at, and what was found is kept for a while.

use crate::chunk::density;
use crate::chunk::index_entries::{self, ENTRIES_PER_PAGE};
use crate::pg::image;
use crate::pg::lock_mode::LockMode;
use crate::pg::nbtree::EntryScan;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::planned_index::PlannedIndex;
use crate::pg::planner::Planner;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::series_index::section::all_null;
use pgrx::pg_sys;
use rustc_hash::{FxHashSet, FxHasher};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hasher;

/// Entries that are read of the section of chunks that may have any series.
const MOST_UNKEYED: usize = 300;
/// Entries that are read from the first series on, and of the ends of keyed chunks.
const MOST_KEYED: usize = 128;
/// Chunks of each of these whose headers are read to tell how many rows they have.
const MOST_OPENED: usize = 8;
/// How long an answer is kept, and how long where the index and the table stay as large.
const KEPT_US: u64 = 1_000_000;
const KEPT_UNCHANGED_US: u64 = 10_000_000;

/// What a series index has.
#[derive(Clone, Copy, Default)]
pub struct Contents {
    /// Of rows of the tail, of chunks, and steps of these.
    pub entries: f64,
    /// Chunks that are entered under keys.
    pub keyed: f64,
    /// Series of these, each counted in each chunk that has it: a scan looks for each by itself.
    pub series: f64,
    /// Those among them that come right behind another series of their chunk: a scan that asks for no times passes them by.
    pub passed: f64,
    pub unkeyed: Unkeyed,
}

/// Chunks that a series index enters as such that may have any series: each scan through it looks at all of them.
#[derive(Clone, Copy, Default)]
pub struct Unkeyed {
    pub chunks: f64,
    pub rows: f64,
    /// They are sorted by other columns than those of the index.
    pub are_foreign: bool,
}

/// What a backend keeps of an index.
struct Known {
    since: pg_sys::TimestampTz,
    file: pg_sys::Oid,
    /// Pages of the index and rows of the table, as they were then.
    sizes: (f64, f64),
    contents: Contents,
}

thread_local! {
    static KNOWN: RefCell<HashMap<pg_sys::Oid, Known>> = RefCell::default();
}

/// What an index of a query has.
///
/// # Safety
/// It must be a series index.
pub unsafe fn of(planner: Planner<'_>, index: PlannedIndex<'_>) -> Contents {
    // SAFETY: a series index, which is locked as its table is while the query is planned.
    unsafe {
        let rows = index.table().tuples().max(1.0);
        let pages = index.pages();
        if index.is_hypothetical() {
            return Contents {
                entries: pages * ENTRIES_PER_PAGE,
                ..Contents::default()
            };
        }
        let table = planner.oid(index.table());
        let now = transaction::statement_started();
        let index = OpenIndex::open(index.oid(), LockMode::Held);
        let oid = index.rel().oid();
        let file = index.rel().file_number();
        let known = KNOWN.with_borrow(|all| {
            let known = all.get(&oid)?;
            let kept = match known.sizes == (pages, rows) {
                true => KEPT_UNCHANGED_US,
                false => KEPT_US,
            };
            (known.file == file && now.abs_diff(known.since) < kept).then_some(known.contents)
        });
        known.unwrap_or_else(|| {
            let table = Open::table(table, LockMode::Held);
            let contents = look(index.rel(), table.rel(), pages, rows);
            let known = Known {
                since: now,
                file,
                sizes: (pages, rows),
                contents,
            };
            KNOWN.with_borrow_mut(|all| all.insert(oid, known));
            contents
        })
    }
}

/// # Safety
/// Both must be open, and `index` be a series index of `table`. Inside a transaction, within a guarded entry point.
unsafe fn look(index: Index<'_>, table: Table<'_>, pages: f64, rows: f64) -> Contents {
    // SAFETY: the caller's contract; the index stays open until the scan has ended, and nothing is fetched by it.
    unsafe {
        if index.blocks() == 0 {
            return Contents::default();
        }
        let columns = index_entries::key_columns(index);
        let any = Snapshot::any();
        let mut scan = EntryScan::begin(index, any, columns.len());
        let nulls = all_null(index);
        let mut unkeyed = Seen::default();
        unkeyed.add(index, &mut scan, &nulls, MOST_UNKEYED, true);
        let of_keys = [ScanKey::is_not_null(1)];
        let mut some = Seen::default();
        some.add(index, &mut scan, &of_keys, MOST_KEYED, true);
        if !some.is_all {
            // Those of the last series besides, as the first one may have nothing but rows of the tail here.
            some.add(index, &mut scan, &of_keys, MOST_KEYED, false);
        }
        let ends = (columns.len() > 1).then(|| {
            let mut keys = nulls;
            keys[columns.len() - 1] = ScanKey::is_not_null(columns.len());
            let mut ends = Seen::default();
            ends.add(index, &mut scan, &keys, MOST_KEYED, true);
            ends
        });
        scan.end();
        let entries = (pages * ENTRIES_PER_PAGE).max(1.0);
        let unkeyed = unkeyed.unkeyed(table, &columns, entries, rows);
        let left = (rows - unkeyed.rows).max(1.0);
        let keyed = keyed(table, &some, ends.as_ref(), left).min(entries);
        let share = some.series as f64 / some.entries.max(1) as f64;
        let series = match some.is_all {
            true => some.series as f64,
            false => (share * entries).min(left).max(keyed),
        };
        Contents {
            entries,
            keyed,
            series,
            passed: series * some.passed as f64 / some.series.max(1) as f64,
            unkeyed,
        }
    }
}

/// Chunks that are entered under keys, of so many rows. Those that have ends are counted by them, where these are few.
fn keyed(table: Table<'_>, some: &Seen, ends: Option<&Seen>, rows: f64) -> f64 {
    let no_ends = Seen::default();
    let ends_seen = ends.unwrap_or(&no_ends);
    let (some_read, ends_read) = (some.count(table), ends_seen.count(table));
    let alive = some_read.alive + ends_read.alive;
    if alive == 0.0 {
        return 0.0;
    }
    let alive_share = alive / (some_read.opened + ends_read.opened);
    let seen = alive_share * some.headers.len().max(ends_seen.headers.len()) as f64;
    let have_ends = some.headers.iter().all(|at| ends_seen.known.contains(at));
    let is_all = match ends {
        Some(ends) => ends.is_all && have_ends,
        None => some.is_all,
    };
    match is_all {
        true => seen,
        false => (rows * alive / (some_read.rows + ends_read.rows).max(1.0)).max(seen),
    }
}

/// What was seen of a part of an index.
#[derive(Default)]
struct Seen {
    entries: usize,
    /// Entries of chunks that are no further ones of the same series in the same chunk.
    series: usize,
    /// Those of them that come right behind another series of their chunk.
    passed: usize,
    /// Headers of chunks, each once.
    headers: Vec<Tid>,
    known: FxHashSet<Tid>,
    /// There is no more than that.
    is_all: bool,
}

/// Some chunks of it.
struct Sample {
    opened: f64,
    alive: f64,
    rows: f64,
    /// The columns (from 0) by which each is sorted, where that is known.
    orders: Vec<Vec<usize>>,
}

impl Seen {
    /// Adds at most so many entries, from the first one or the last one on.
    ///
    /// # Safety
    /// `index` must be an open series index, `scan` one of its entries, and `keys` for its columns and without arguments. Within a guarded entry
    /// point.
    unsafe fn add(
        &mut self,
        index: Index<'_>,
        scan: &mut EntryScan,
        keys: &[ScanKey],
        most: usize,
        forward: bool,
    ) {
        // SAFETY: keys without arguments; values are of the index's columns, and looked at while their entry is there.
        unsafe {
            scan.restart(keys);
            let attributes = index.attributes();
            let of_keys = &attributes[..attributes.len() - 1];
            let mut values = vec![pg_sys::Datum::from(0usize); attributes.len()];
            let mut nulls = vec![true; attributes.len()];
            // The chunk that was met last, and a hash of the key that it was met under.
            let mut last = None;
            // That of the entry before, where it is one of a chunk.
            let mut before = None;
            for _ in 0..most {
                let Some(entry) = scan.next(forward) else {
                    self.is_all = true;
                    return;
                };
                self.entries += 1;
                let is_behind =
                    core::mem::replace(&mut before, index_entries::header_of_entry(entry.tid));
                let Some(header) = before else {
                    continue;
                };
                if self.known.insert(header) {
                    self.headers.push(header);
                }
                entry.deform(index.descriptor(), &mut values, &mut nulls);
                let mut hash = FxHasher::default();
                for (at, attribute) in of_keys.iter().enumerate() {
                    hash.write_u8(u8::from(nulls[at]));
                    if !nulls[at] {
                        hash.write_u32(image::image_hash(values[at], attribute));
                    }
                }
                let met = Some((header, hash.finish()));
                self.series += usize::from(met != last);
                self.passed += usize::from(met != last && is_behind == before);
                last = met;
            }
        }
    }

    /// Reads some headers, evenly spread.
    fn count(&self, table: Table<'_>) -> Sample {
        let step = self.headers.len().div_ceil(MOST_OPENED).max(1);
        let opened = self.headers.iter().step_by(step);
        let count = opened.len();
        let counted: Vec<_> = opened
            .filter_map(|&at| density::count_chunk(table, at))
            .collect();
        Sample {
            opened: count as f64,
            alive: counted.len() as f64,
            rows: counted.iter().map(|chunk| chunk.rows).sum(),
            orders: counted
                .into_iter()
                .filter_map(|chunk| chunk.columns)
                .collect(),
        }
    }

    /// What it says of chunks under NULL keys.
    fn unkeyed(&self, table: Table<'_>, columns: &[usize], entries: f64, rows: f64) -> Unkeyed {
        let sample = self.count(table);
        if sample.alive == 0.0 {
            return Unkeyed::default();
        }
        let rows_per_chunk = sample.rows / sample.alive;
        let seen = self.headers.len() as f64;
        let chunks = sample.alive / sample.opened
            * match self.is_all {
                true => seen,
                false => entries.min(rows / rows_per_chunk.max(1.0)).max(seen),
            };
        Unkeyed {
            chunks,
            rows: (chunks * rows_per_chunk).min(rows),
            are_foreign: sample.orders.iter().any(|own| own != columns),
        }
    }
}
