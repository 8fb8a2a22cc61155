//! Rows of the tail that have keys of a batch: found by the entries of the unique index, and judged as btree does it.

use super::side::Side;
use super::wait::Wait;
use crate::catalog::layout;
use crate::pg::error;
use crate::pg::heap::{self, Version};
use crate::pg::leaf_probe;
use crate::pg::leaf_range::Range;
use crate::pg::nbtree::{strategy, EntryScan};
use crate::pg::relation::Table;
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
    // SAFETY: by contract.
    unsafe {
        // The first page is the root of nothing: a key that the tail has not costs nothing.
        let blocks = side.index.rel().blocks();
        if blocks < 2 {
            return;
        }
        let is_long = PROBES_PER_PAGE * blocks as usize > side.order.series();
        let by_series = is_long && starts_with_series(side, desc);
        if !by_series {
            let Some(span) = whole_span(side, desc) else {
                return;
            };
            return scan(table, side, desc, &[], span, except, &mut visit);
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
                if leaf_probe::has_none(side.index.rel(), Snapshot::NONE, range) {
                    continue;
                }
                scan(table, side, desc, &key, span, except, &mut visit);
            }
        }
    }
}

/// Do the unique index's columns begin with those of the series index, in their order?
///
/// # Safety
/// As `visit`.
unsafe fn starts_with_series(side: &Side, desc: &IndexDesc) -> bool {
    let columns = layout::index_columns(side.index.rel());
    let wanted = desc.columns.iter().map(|&column| column as u16 + 1);
    columns.iter().copied().take(desc.columns.len()).eq(wanted)
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

/// Goes through the entries of a series, or of all where `key` is empty, at times of a span.
///
/// # Safety
/// As `visit`; `key` must be of the first columns of the side's unique index, and the span of the time column, none of them null.
unsafe fn scan(
    table: Table<'_>,
    side: &Side,
    desc: &IndexDesc,
    key: &[Datum],
    (from, to): (Datum, Datum),
    except: &[Tid],
    visit: &mut impl FnMut(u32, Option<Wait>),
) {
    let index = side.index.rel();
    // SAFETY: the caller's contract.
    unsafe {
        let columns = layout::index_columns(index);
        let time = desc.time_column() as u16 + 1;
        let time = columns.iter().position(|&column| column == time);
        let time = time.expect("BUG: a key without the time of its series index");
        let equal = |(at, &value): (usize, &Datum)| ScanKey::new(index, at, strategy::EQUAL, value);
        let mut conditions: Vec<_> = key.iter().enumerate().map(equal).collect();
        conditions.push(ScanKey::new(index, time, strategy::GREATER_EQUAL, from));
        conditions.push(ScanKey::new(index, time, strategy::LESS_EQUAL, to));
        let any = Snapshot::any();
        let mut entries = EntryScan::begin(index, any, conditions.len());
        entries.restart(&conditions);
        let count = index.descriptor().len();
        let mut values = vec![Datum::from(0usize); count];
        let mut nulls = vec![true; count];
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            entry.deform(index.descriptor(), &mut values, &mut nulls);
            let at = entry.tid;
            if nulls[..columns.len()].contains(&true) || except.contains(&at) {
                continue;
            }
            let Some(row) = side.find(desc, &values[..columns.len()]) else {
                continue;
            };
            match state(table, at) {
                State::Dead => {}
                State::Lives => visit(row, None),
                State::Changes(wait) => visit(row, Some(wait)),
            }
        }
        entries.end();
    }
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
