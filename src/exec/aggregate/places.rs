//! Chunks and rows that conditions on a series index's columns leave, by that index: where conditions name series, or where the
//! index is small beside the table, the table's other pages are not read.

use super::conditions::Bounded;
use crate::catalog::layout;
use crate::pg::memory;
use crate::pg::operator::Strategy;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::{array, types, varlena, Datum, Oid};
use crate::scan::headers;
use crate::scan::in_range::{in_range, of_first_keys, Place};
use crate::series_index::quals::Quals;
use std::ops::RangeInclusive;
use varve_columns::vector::filter::Comparison;

/// An index that has so many times fewer pages than its table is read from end to end rather than the table.
const SMALL: u32 = 4;

/// Where the scan has to look.
#[derive(Default)]
pub struct Places {
    pub headers: Vec<Tid>,
    pub rows: Vec<Tid>,
}

/// The places that conditions, each with its column from 0, leave; None where a sequential scan is better, which it is not where they leave few of the first keys
/// (`is_range`).
///
/// # Safety
/// `table` must be open, `snapshot` registered. Arguments are made in the current memory context.
pub unsafe fn find(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
    conditions: &[(&Bounded, usize)],
    is_range: bool,
) -> Option<Places> {
    // SAFETY: by contract; the keys live as long as the quals.
    unsafe {
        let index = headers::usable_index(table, snapshot)?;
        let columns = layout::index_columns(index.rel());
        let mut found = Places::default();
        let add = |place| match place {
            Place::Header(at) => found.headers.push(at),
            Place::Row(at) => found.rows.push(at),
        };
        let is_worth_it = || is_range || index.rel().blocks() * SMALL <= table.blocks();
        if let Some(span) = span_of_first_keys(index.rel(), &columns, conditions) {
            if !is_worth_it() {
                return None;
            }
            if let Some(told) = of_first_keys(table, index.rel(), snapshot, span) {
                told.into_iter().for_each(add);
                return Some(found);
            }
        }
        let mut keys = Vec::new();
        let mut names_first = false;
        for (at, &column) in columns.iter().enumerate() {
            let own = conditions
                .iter()
                .filter(|(_, on)| on + 1 == usize::from(column));
            for (bounded, _) in own {
                let Some((key, is_equality)) = key_of(index.rel(), at, bounded) else {
                    continue;
                };
                names_first |= at == 0 && is_equality && columns.len() > 1;
                keys.push(key);
            }
        }
        if !names_first && !is_worth_it() {
            return None;
        }
        let quals = Quals::new(index.rel(), &keys, memory::current().as_ptr());
        in_range(table, index.rel(), snapshot, &quals, add);
        Some(found)
    }
}

/// The integers that bounds leave of the first key, where nothing else is asked of the index's columns; None for none.
fn span_of_first_keys(
    index: Index<'_>,
    columns: &[u16],
    conditions: &[(&Bounded, usize)],
) -> Option<RangeInclusive<i64>> {
    if columns.len() < 2 || !index.orders_integers(0) {
        return None;
    }
    let place = |on: usize| {
        columns
            .iter()
            .position(|&column| usize::from(column) == on + 1)
    };
    let own = conditions
        .iter()
        .filter_map(|(bounded, on)| Some((bounded, place(*on)?)));
    let all = int_range(index.input_type(0))?;
    let mut span = all.clone();
    for (bounded, at) in own {
        let (Bounded::Int(comparison, value), 0) = (bounded, at) else {
            return None;
        };
        let (least, greatest) = match comparison {
            Comparison::Less => (*all.start(), value.checked_sub(1)?),
            Comparison::LessOrEqual => (*all.start(), *value),
            Comparison::GreaterOrEqual => (*value, *all.end()),
            Comparison::Greater => (value.checked_add(1)?, *all.end()),
            Comparison::Equal | Comparison::NotEqual => return None,
        };
        span = *span.start().max(&least)..=*span.end().min(&greatest);
    }
    (span != all && !span.is_empty()).then_some(span)
}

/// The scan key of a condition on a column (from 0) of the index, and whether it names values.
///
/// # Safety
/// `bounded` must be a condition on that column; within a guarded entry point.
unsafe fn key_of(index: Index<'_>, at: usize, bounded: &Bounded) -> Option<(ScanKey, bool)> {
    // SAFETY: the caller's contract; the arrays have an entry for each column.
    unsafe {
        let class = index.input_type(at);
        let range = int_range(class);
        let fits = |value: &i64| range.as_ref().is_some_and(|range| range.contains(value));
        match bounded {
            Bounded::Null(true) => Some((ScanKey::is_null(at + 1), true)),
            Bounded::Int(comparison, value) if fits(value) => {
                let strategy = match comparison {
                    Comparison::Less => Strategy::Less,
                    Comparison::LessOrEqual => Strategy::LessOrEqual,
                    Comparison::Equal => Strategy::Equal,
                    Comparison::GreaterOrEqual => Strategy::GreaterOrEqual,
                    Comparison::Greater => Strategy::Greater,
                    Comparison::NotEqual => return None,
                };
                let value = Datum::from(*value as usize);
                let key = ScanKey::new(index, at, strategy.number(), value);
                Some((key, strategy == Strategy::Equal))
            }
            Bounded::Ints(values) if range.is_some() => {
                let datums = values.iter().filter(|value| fits(value));
                let datums = datums.map(|&value| Datum::from(value as usize)).collect();
                Some((any_of(index, at, class, datums), true))
            }
            Bounded::Bytes(values) if class == types::TEXTOID => {
                let datums = values.iter().map(|value| varlena::text_of(value)).collect();
                Some((any_of(index, at, class, datums), true))
            }
            _ => None,
        }
    }
}

/// The integers of a type that is stored as one, and compared by it.
fn int_range(typ: Oid) -> Option<std::ops::RangeInclusive<i64>> {
    match typ {
        types::INT2OID => Some(i64::from(i16::MIN)..=i64::from(i16::MAX)),
        types::INT4OID | types::DATEOID => Some(i64::from(i32::MIN)..=i64::from(i32::MAX)),
        types::INT8OID | types::TIMESTAMPOID | types::TIMESTAMPTZOID => Some(i64::MIN..=i64::MAX),
        _ => None,
    }
}

/// The scan key `column = ANY (values)`.
///
/// # Safety
/// `typ` must be the type that the column's operator class is for, and the values non-null ones of it; within a guarded entry point.
unsafe fn any_of(index: Index<'_>, at: usize, typ: Oid, values: Vec<Datum>) -> ScanKey {
    // SAFETY: the caller's contract; values of the type.
    unsafe {
        let array = array::of(typ, values);
        ScanKey::new(index, at, Strategy::Equal.number(), array).of_array()
    }
}
