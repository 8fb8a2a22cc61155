//! Up to which times chunks have rows, as far as a session has had to find that out: most rows that are inserted come behind all of them, so
//! their keys are in no chunk.
//!
//! What was found out holds until somebody tells that chunks have come (`pg::news`): whoever writes one tells so before his transaction ends. So
//! a row that was behind all chunks when it was looked for, and still is when it has been entered, has its key to itself, as far as chunks go. A
//! sealer who has not told by then has not committed: btree has met the rows that he takes in the tail, or has waited for him. Who brings a batch looks for
//! its keys in the tail when he has told.
//!
//! Times are those that headers say, whoever sees them, so they are too late rather than too early.

use super::find::Key;
use super::series_key::{bytes_of, Bytes};
use crate::catalog::keys::Unique;
use crate::chunk::glance::{Glance, Times};
use crate::chunk::{index_entries, write};
use crate::pg::lock_mode::LockMode;
use crate::pg::news;
use crate::pg::open::OpenIndex;
use crate::pg::relation::Table;
use crate::pg::snapshot;
use crate::pg::{Datum, Oid};
use crate::series_index::ends::Ends;
use crate::series_index::entries::IndexDesc;
use crate::series_index::probe::{self, Section};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;

/// Series indexes of which something is kept.
const KEPT: usize = 8;
/// First keys and cells of each.
const MOST_KEYS: usize = 4096;

/// What the times depend on.
#[derive(Clone, Copy, PartialEq)]
struct Epoch {
    table: Oid,
    file: Oid,
    series: Oid,
    heard: u64,
    /// This process's own headers.
    writes: u64,
}

/// The greatest times of chunks.
struct Frontier {
    epoch: Epoch,
    /// Length of a time, and of a first key where chunks may be entered by cells.
    time_length: i16,
    cell_length: Option<i16>,
    /// The first key's column of the table, from 0; None where rows are of one series.
    first_column: Option<usize>,
    /// Of chunks that may have any series, and of all that are entered under their keys.
    of_all: i64,
    of_cells: FxHashMap<i64, i64>,
    of_first_keys: FxHashMap<Bytes, i64>,
}

thread_local! {
    static KNOWN: RefCell<Vec<Frontier>> = const { RefCell::new(Vec::new()) };
}

/// Does a key come behind all chunks that may have its series? Then what was heard when that was found out. None where it is not known.
///
/// # Safety
/// `table` must be open, `unique` of it, `key` of that index.
pub unsafe fn behind_chunks(table: Table<'_>, unique: &Unique, key: &Key) -> Option<u64> {
    let (series, places) = unique.series.as_ref()?;
    let value = |at: usize| (key.columns.contains(&at) && !key.nulls[at]).then(|| key.values[at]);
    let (&time, keys) = places.split_last()?;
    let time = value(time)?;
    let first = match keys.first() {
        Some(&first) => Some(value(first)?),
        None => None,
    };
    // SAFETY: by contract.
    unsafe {
        let epoch = Epoch {
            table: table.oid(),
            file: table.file_number(),
            series: *series,
            heard: news::heard(),
            writes: write::headers_written(),
        };
        let answer = KNOWN.with_borrow_mut(|known| {
            let known = known.iter_mut().find(|known| known.epoch == epoch)?;
            known.is_before(table, time, first, |_, _| None)
        });
        let is_behind = match answer {
            Some(is_behind) => is_behind,
            None => found_out(table, epoch, time, first)?,
        };
        is_behind.then_some(epoch.heard)
    }
}

/// The same where that is not known yet; it is from now on.
///
/// # Safety
/// As `Frontier::is_before`.
unsafe fn found_out(
    table: Table<'_>,
    epoch: Epoch,
    time: Datum,
    first: Option<Datum>,
) -> Option<bool> {
    // SAFETY: by contract.
    unsafe {
        let known = KNOWN.with_borrow_mut(|known| {
            let is_it =
                |one: &Frontier| (one.epoch.table, one.epoch.series) == (epoch.table, epoch.series);
            let at = known.iter().position(is_it)?;
            // What raises an error is not kept, nor is what is known borrowed meanwhile.
            Some(known.swap_remove(at))
        });
        let mut frontier = match known.filter(|known| known.epoch == epoch) {
            Some(known) => known,
            None => Frontier::find(table, epoch)?,
        };
        let look = |first, section| Some(look(table, epoch.series, first, section));
        let is_behind = frontier.is_before(table, time, first, look);
        KNOWN.with_borrow_mut(|known| {
            if known.len() == KEPT {
                known.remove(0);
            }
            known.push(frontier);
        });
        is_behind
    }
}

impl Frontier {
    /// None where a header that is replaced meanwhile may be missed.
    ///
    /// # Safety
    /// `table` must be open, and the epoch be of it and of a series index of it.
    unsafe fn find(table: Table<'_>, epoch: Epoch) -> Option<Frontier> {
        if !snapshot::any_is_held() {
            return None;
        }
        let index = OpenIndex::open(epoch.series, LockMode::AccessShare);
        // SAFETY: the index is open; chunks that may have any series are entered without a key.
        unsafe {
            let desc = IndexDesc::new(index.rel());
            let of_all = match Ends::greatest(&desc) {
                Some(end) => end.max(latest(table, &desc, &[], Section::All)),
                None => i64::MAX,
            };
            Some(Frontier {
                epoch,
                time_length: desc.time_length,
                cell_length: index_entries::cell_length(desc.index),
                first_column: (desc.key_columns() > 0).then(|| desc.columns[0]),
                of_all,
                of_cells: FxHashMap::default(),
                of_first_keys: FxHashMap::default(),
            })
        }
    }

    /// Are all chunks that may have a row with this first key before a time? `look` finds the greatest time of those in a section of it; None where that
    /// is not known, and `look` does not tell.
    ///
    /// # Safety
    /// `table` must be open, and the epoch's; `time` and `first` of the types of the time column and of the first key, not null.
    unsafe fn is_before(
        &mut self,
        table: Table<'_>,
        time: Datum,
        first: Option<Datum>,
        look: impl Fn(Datum, Section) -> Option<i64>,
    ) -> Option<bool> {
        let time = index_entries::time_value(time, self.time_length);
        if time <= self.of_all {
            return Some(false);
        }
        let (Some(column), Some(first)) = (self.first_column, first) else {
            return Some(true);
        };
        // SAFETY: the caller's contract; the value is one of the index's first column.
        let bytes = unsafe { bytes_of(table, &[column], &[first]) };
        let of_first_key = kept(&mut self.of_first_keys, bytes, || {
            look(first, Section::FirstKey)
        })?;
        if time <= of_first_key {
            return Some(false);
        }
        let Some(length) = self.cell_length else {
            return Some(true);
        };
        let cell = index_entries::cell_of(index_entries::time_value(first, length));
        let of_cell = kept(&mut self.of_cells, cell, || look(first, Section::Cell))?;
        Some(time > of_cell)
    }
}

/// What is known of a key, or is found out now.
fn kept<K: Hash + Eq>(
    known: &mut FxHashMap<K, i64>,
    key: K,
    find: impl FnOnce() -> Option<i64>,
) -> Option<i64> {
    if let Some(&found) = known.get(&key) {
        return Some(found);
    }
    let found = find()?;
    if known.len() >= MOST_KEYS {
        known.clear();
    }
    known.insert(key, found);
    Some(found)
}

/// The greatest time of the chunks that a series index has in a section of this first key.
///
/// # Safety
/// `table` must be open, the index one of its series indexes, the value one of its first column.
unsafe fn look(table: Table<'_>, series: Oid, first: Datum, section: Section) -> i64 {
    if !snapshot::any_is_held() {
        return i64::MAX;
    }
    let index = OpenIndex::open(series, LockMode::AccessShare);
    // SAFETY: the index is open; otherwise by contract.
    unsafe {
        let desc = IndexDesc::new(index.rel());
        latest(table, &desc, &[first], section)
    }
}

/// The greatest time of the chunks in a section, `i64::MIN` where there are none, and `i64::MAX` where one does not say.
///
/// # Safety
/// As `probe::visit_section`, which is shown no more of the key than it asks for. `table` must be open.
unsafe fn latest(table: Table<'_>, desc: &IndexDesc, key: &[Datum], section: Section) -> i64 {
    let mut latest = i64::MIN;
    // SAFETY: by contract.
    unsafe {
        let mut glance = Glance::new(table);
        probe::visit_section(desc, key, section, |header| {
            let last = match glance.times(header, desc.time_column()) {
                // What somebody can see is there as long as a snapshot is held.
                Times::None => i64::MIN,
                Times::Unknown => i64::MAX,
                Times::Span(_, last) => last,
            };
            latest = latest.max(last);
        });
    }
    latest
}
