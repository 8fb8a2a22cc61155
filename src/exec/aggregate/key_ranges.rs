//! Ranges of the first key of a series index, each of which one process reads alone. So no group that tells this key apart has rows in two processes, and each
//! finishes its groups.

use super::clauses::{between, Bound, Clause};
use super::conditions::Bounded;
use super::key_range::{cuts, KeyRange};
use crate::chunk::index_entries;
use crate::pg::leaves;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::Datum;
use crate::scan::headers;

/// What a stretch of a chunk weighs beside a row of the tail.
const STRETCH: u64 = 64;
/// Of more keys than these, which take 16 MB, no ranges are made.
pub const MOST_KEYS: usize = 1 << 20;

/// The ranges of a key that processes share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyRanges {
    /// The key's column, from 0.
    pub column: usize,
    /// Where one range ends and the next one begins, ascending; none where one process reads all.
    pub cuts: Vec<i64>,
}

impl KeyRange {
    /// Conditions that its rows satisfy; `lane` is that of the key.
    pub fn conditions(self, lane: usize) -> Vec<Bound> {
        match self {
            KeyRange::All => Vec::new(),
            KeyRange::Values(from, before) => between(from, before, lane).collect(),
            KeyRange::Nulls => vec![Clause::One((Bounded::Null(true), lane))],
        }
    }
}

/// About so many ranges of the first key of the table's series index, which have as much to read each, if the key is an integer and one of `columns`, from 0. All pages of the index
/// are read, and keys left out that `conditions`, each with its column from 0, exclude. Inside a guarded entry point.
///
/// # Safety
/// `table` must be open, `snapshot` registered.
pub unsafe fn find(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    columns: &[usize],
    conditions: &[(&Bounded, usize)],
    ranges: u64,
) -> KeyRanges {
    let Some(index) = headers::usable_index(table, snapshot) else {
        return KeyRanges::default();
    };
    let index = index.rel();
    let keys = index_entries::key_columns(index);
    let column = keys[0];
    if keys.len() < 2 || !columns.contains(&column) || !index.orders_integers(0) {
        return KeyRanges::default();
    }
    let mut weights: Vec<(i64, u64)> = Vec::new();
    let mut is_too_many = false;
    headers::begin_reading(table, snapshot);
    // SAFETY: by contract; the first column is an integer.
    unsafe {
        let is_whole = leaves::each_item(index, snapshot, |item| {
            let Some(value) = item.first_integer(index) else {
                return;
            };
            let entries = item.tids();
            let weigh = |entry| match index_entries::header_of_entry(entry) {
                Some(_) => STRETCH,
                None => 1,
            };
            let weight: u64 = entries.map(weigh).sum();
            let count = weights.len();
            match weights.last_mut() {
                Some((last, sum)) if *last == value => *sum += weight,
                _ if count < MOST_KEYS => weights.push((value, weight)),
                _ => is_too_many = true,
            }
        });
        headers::check_whole(index, is_whole);
    }
    if is_too_many {
        return KeyRanges::default();
    }
    let on_key = conditions.iter().filter(|(_, on)| *on == column);
    for (bounded, _) in on_key {
        // SAFETY: integers of eight bytes, whatever length the column has.
        weights.retain(|&(value, _)| unsafe {
            bounded.holds((Datum::from(value as usize), false), 8) == Some(true)
        });
    }
    KeyRanges {
        column,
        cuts: cuts(weights, ranges),
    }
}
