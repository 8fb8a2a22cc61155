//! Rows of the tail that have keys which are looked for: found by the entries that settle the key, those of a series index of its columns or of the unique
//! index, and judged as btree does it.

use super::names::Names;
use super::side::Side;
use super::wait::Wait;
use crate::catalog::layout;
use crate::chunk::index_entries::header_of_entry;
use crate::pg::error;
use crate::pg::heap::{self, Version};
use crate::pg::leaf_probe;
use crate::pg::leaf_range::Range;
use crate::pg::nbtree::{strategy, EntryScan};
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use crate::series_index::entries::IndexDesc;
use smallvec::SmallVec;

/// To look for so many series takes as long as to read a page of entries.
const PROBES_PER_PAGE: usize = 4;

/// Shows the rows of a batch whose keys rows of the tail have to `visit`: with what to wait for, or without where the key is taken.
/// `except` are the batch's own rows.
///
/// # Safety
/// `table` must be open, `side` of it, `desc` of the side's series index.
pub unsafe fn visit(
    table: Table<'_>,
    side: &Side,
    desc: &IndexDesc,
    except: &[Tid],
    mut visit: impl FnMut(u32, Option<Wait>),
) {
    for (index, places) in side.settling() {
        let entries = Settling {
            table,
            side,
            desc,
            index,
            places,
            except,
        };
        // SAFETY: by contract.
        unsafe { entries.visit(&mut visit) };
    }
}

/// An index whose entries lead to rows of the tail, by the columns of a side's key.
struct Settling<'a> {
    table: Table<'a>,
    side: &'a Side<'a>,
    /// Of the side's series index.
    desc: &'a IndexDesc<'a>,
    index: Index<'a>,
    /// Where in the key its columns are, if they are not in the key's order.
    places: Option<&'a [usize]>,
    except: &'a [Tid],
}

impl Settling<'_> {
    /// # Safety
    /// All must be of one table, which is open.
    unsafe fn visit(&self, visit: &mut impl FnMut(u32, Option<Wait>)) {
        let (side, index) = (self.side, self.index);
        // SAFETY: by contract.
        unsafe {
            // The first page is the root of nothing: an index without entries costs nothing.
            let blocks = index.blocks();
            if blocks < 2 {
                return;
            }
            let is_long = PROBES_PER_PAGE * blocks as usize > side.order.series();
            let by_series = is_long && self.starts_with_series();
            if !by_series {
                if let Some(span) = whole_span(side, self.desc) {
                    self.scan(&[], span, visit);
                }
                return;
            }
            for number in 0..side.order.series() {
                error::check_interrupts();
                if let Some((key, rows)) = side.series(number) {
                    let span = (side.time(rows[0]), side.time(rows[rows.len() - 1]));
                    let named: SmallVec<[_; 4]> = key.iter().map(|&value| Some(value)).collect();
                    let range = Range {
                        first: &named,
                        span: Some((span.0, Some(span.1))),
                        with_nulls: false,
                    };
                    if !leaf_probe::has_none(index, Snapshot::NONE, range) {
                        self.scan(&key, span, visit);
                    }
                }
            }
        }
    }

    /// Do the index's columns begin with those of the series index, in their order?
    fn starts_with_series(&self) -> bool {
        let columns = layout::index_columns(self.index);
        let wanted = &self.desc.columns;
        let wanted = wanted.iter().map(|&column| column as u16 + 1);
        columns.iter().copied().take(wanted.len()).eq(wanted)
    }

    /// Goes through the entries of a series, or of all where `key` is empty, at times of a span.
    ///
    /// # Safety
    /// As `visit`; `key` must be of the index's first columns, and the span of the time column, none of them null.
    unsafe fn scan(
        &self,
        key: &[Datum],
        (from, to): (Datum, Datum),
        visit: &mut impl FnMut(u32, Option<Wait>),
    ) {
        let index = self.index;
        // SAFETY: the caller's contract.
        unsafe {
            let columns = layout::index_columns(index);
            let time = self.desc.time_column() as u16 + 1;
            let time = columns.iter().position(|&column| column == time);
            let time = time.expect("BUG: a key without the time of its series index");
            let mut conditions: Vec<_> = key
                .iter()
                .enumerate()
                .map(|(at, &value)| is(index, at, value))
                .collect();
            conditions.push(ScanKey::new(index, time, strategy::GREATER_EQUAL, from));
            conditions.push(ScanKey::new(index, time, strategy::LESS_EQUAL, to));
            let mut entries = EntryScan::begin(index, Snapshot::any(), conditions.len());
            entries.restart(&conditions);
            let count = index.descriptor().len();
            let mut values = vec![Datum::from(0usize); count];
            let mut nulls = vec![true; count];
            let mut names = Names::of(index, columns.len());
            while let Some(entry) = entries.next(true) {
                error::check_interrupts();
                let at = entry.tid;
                if header_of_entry(at).is_some() || self.except.contains(&at) {
                    continue;
                }
                entry.deform(index.descriptor(), &mut values, &mut nulls);
                if nulls[..columns.len()].contains(&true) {
                    continue;
                }
                names.lengthen(&mut values[..columns.len()]);
                let key = self.key_of(&values[..columns.len()]);
                let Some(row) = self.side.find(self.desc, &key) else {
                    continue;
                };
                match state(self.table, at) {
                    State::Dead => {}
                    State::Lives => visit(row, None),
                    State::Changes(wait) => visit(row, Some(wait)),
                }
            }
            entries.end();
        }
    }

    /// The key that an entry has, by the values of the index's columns.
    fn key_of(&self, entry: &[Datum]) -> Vec<Datum> {
        let mut key = entry.to_vec();
        for (at, &place) in self.places.into_iter().flatten().enumerate() {
            key[place] = entry[at];
        }
        key
    }
}

/// The places of rows that entries of a series index with these keys lead to. They may be there or not.
///
/// # Safety
/// `series` must be open, and `keys` be conditions on its columns.
pub unsafe fn rows(series: Index<'_>, keys: &[ScanKey]) -> Vec<Tid> {
    // SAFETY: by contract.
    unsafe {
        let mut entries = EntryScan::begin(series, Snapshot::any(), keys.len());
        entries.restart(keys);
        let mut found = Vec::new();
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            if header_of_entry(entry.tid).is_none() {
                found.push(entry.tid);
            }
        }
        entries.end();
        found
    }
}

/// `column = value`, for a column of a series index from 0.
///
/// # Safety
/// `series` must be open; `value` of the type of the column's operator class.
pub unsafe fn is(series: Index<'_>, column: usize, value: Datum) -> ScanKey {
    // SAFETY: by contract.
    unsafe { ScanKey::new(series, column, strategy::EQUAL, value) }
}

/// Least and greatest time of all rows.
fn whole_span(side: &Side, desc: &IndexDesc) -> Option<(Datum, Datum)> {
    let ends = (0..side.order.series()).filter_map(|number| {
        let (_, rows) = side.series(number)?;
        Some((side.time(rows[0]), side.time(rows[rows.len() - 1])))
    });
    let time = |datum: Datum| desc.time_of(datum, false);
    ends.reduce(|all, one| {
        let from = if time(one.0) < time(all.0) {
            one.0
        } else {
            all.0
        };
        let to = if time(one.1) > time(all.1) {
            one.1
        } else {
            all.1
        };
        (from, to)
    })
}

/// Is there no row any more that an entry of this place leads to?
pub fn is_gone(table: Table<'_>, at: Tid) -> bool {
    matches!(state(table, at), State::Dead)
}

enum State {
    Dead,
    Lives,
    Changes(Wait),
}

/// What the row of an entry is now.
fn state(table: Table<'_>, at: Tid) -> State {
    if at.block >= table.blocks() {
        return State::Dead;
    }
    match heap::dirty_version(table, at) {
        Version::None => State::Dead,
        Version::Settled => State::Lives,
        Version::Changing { by, speculation: 0 } => State::Changes(Wait::Transaction(by, at)),
        Version::Changing { by, speculation } => State::Changes(Wait::Speculation(by, speculation)),
    }
}
