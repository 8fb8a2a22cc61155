//! Which chunks of a table may have rows of a series in a range of times, by a series index; and which rows of a chunk have one key
//! and time. It is no reading in the sense of serializable transactions: what is found is judged by whoever asked.

use super::ends::{self, Ends, Following};
use super::entries::IndexDesc;
use super::quals::Quals;
use super::rows::{candidates, View};
use crate::chunk::reader::Reader;
use crate::chunk::{dead_header, index_entries};
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::leaf_probe;
use crate::pg::leaf_range::Range;
use crate::pg::memory;
use crate::pg::nbtree::strategy::{EQUAL, GREATER_EQUAL};
use crate::pg::nbtree::EntryScan;
use crate::pg::relation::Table;
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use smallvec::SmallVec;

/// Where a series index enters chunks, other than under their keys: docs/design/0005.
#[derive(Clone, Copy, PartialEq)]
pub enum Section {
    /// Those that may have any series.
    All,
    /// Those of one value of the first key column.
    FirstKey,
    /// Those of the cell that this value is in.
    Cell,
}

/// The cell of a key, in an index that may enter chunks by cells.
///
/// # Safety
/// The index must be open; `key` of its column types, not null.
pub unsafe fn cell_of(desc: &IndexDesc, key: &[Datum]) -> Option<i64> {
    let length = index_entries::cell_length(desc.index)?;
    let first = index_entries::time_value(*key.first()?, length);
    Some(index_entries::cell_of(first))
}

/// Shows the header of each chunk in a section of a series index to `visit`. `key` has a value for each key column.
///
/// # Safety
/// The index must be open; `key` of its column types, none of them null.
pub unsafe fn visit_section(
    desc: &IndexDesc,
    key: &[Datum],
    section: Section,
    mut visit: impl FnMut(Tid),
) {
    // SAFETY: by contract.
    unsafe {
        let first = match section {
            Section::All => None,
            Section::FirstKey => match key.first() {
                Some(&first) => Some(first),
                None => return,
            },
            Section::Cell => match cell_of(desc, key).zip(index_entries::cell_length(desc.index)) {
                Some((cell, length)) => Some(index_entries::time_datum(cell, length)),
                None => return,
            },
        };
        if let Some(told) = leaf_probe::all_without_time(desc.index, Snapshot::NONE, first) {
            let entries = told.tids.into_iter();
            let headers = entries.filter_map(index_entries::header_of_entry);
            return headers.for_each(visit);
        }
        let columns = desc.columns.len();
        let mut keys = Vec::with_capacity(columns);
        keys.extend(first.map(|first| ScanKey::new(desc.index, 0, EQUAL, first)));
        let nulls = keys.len() + 1..=columns;
        keys.extend(nulls.map(ScanKey::is_null));
        let mut entries = begin(desc, &keys);
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            if let Some(header) = index_entries::header_of_entry(entry.tid) {
                visit(header);
            }
        }
        entries.end();
    }
}

/// Is it certain that a key has no entries at `from` or later, of rows or of chunks? Where `with_nulls` says so, none without a time either: with one
/// key column, these are those of its first key.
///
/// # Safety
/// As `visit_section`.
pub unsafe fn has_none_from(desc: &IndexDesc, key: &[Datum], from: i64, with_nulls: bool) -> bool {
    let named: SmallVec<[_; 4]> = key.iter().map(|&value| Some(value)).collect();
    let range = Range {
        first: &named,
        span: Some((desc.time_datum((false, from)).0, None)),
        with_nulls,
    };
    // SAFETY: by contract.
    unsafe { leaf_probe::has_none(desc.index, Snapshot::NONE, range) }
}

/// What became of a header that was shown.
#[derive(Clone, Copy, PartialEq)]
pub enum Visited {
    Taken,
    Left,
}

/// Shows the headers of chunks that are entered under a key to `visit`, which says whether it takes them: those that may have
/// times of `from..=to`, by the times of their entries; some more than once. Returns the last time up to which no other one can have any.
///
/// Of two keyed chunks of a series one has no time below the other's greatest, so the first that has an entry behind `to` is the
/// last one, but for others with an entry at the same time.
///
/// # Safety
/// As `visit_section`; `table` must be open too.
pub unsafe fn visit_keyed(
    table: Table<'_>,
    desc: &IndexDesc,
    key: &[Datum],
    from: i64,
    to: i64,
    mut visit: impl FnMut(Tid) -> Visited,
) -> i64 {
    let last = desc.key_columns();
    let lower = desc.time_datum((false, from)).0;
    // SAFETY: by contract.
    if unsafe { has_none_from(desc, key, from, false) } {
        return i64::MAX;
    }
    let mut values = vec![Datum::from(0usize); last + 1];
    let mut nulls = vec![true; last + 1];
    let mut last_end = None;
    // SAFETY: by contract; an entry stays until the next one is asked for.
    unsafe {
        let equal = |(at, &value): (usize, &Datum)| ScanKey::new(desc.index, at, EQUAL, value);
        let mut keys: Vec<_> = key.iter().enumerate().map(equal).collect();
        keys.push(ScanKey::new(desc.index, last, GREATER_EQUAL, lower));
        let mut entries = begin(desc, &keys);
        // Rows of the tail since the last chunk; it is known where the next one is.
        let (mut rows, mut is_met) = (0, false);
        let mut ends = Ends::default();
        let named: SmallVec<[_; 4]> = key.iter().map(|&value| Some(value)).collect();
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            let header = index_entries::header_of_entry(entry.tid);
            rows += usize::from(header.is_none());
            if header.is_none() && last_end.is_none() && rows <= ends::PATIENCE {
                continue;
            }
            entry.deform(desc.index.descriptor(), &mut values, &mut nulls);
            let end = desc.time_of(values[last], nulls[last]).1;
            if last_end.is_some_and(|last_end| last_end != end) {
                break;
            }
            let Some(header) = header else {
                if rows <= ends::PATIENCE || is_met {
                    continue;
                }
                let time = (nulls[last], end);
                if ends.none_behind(desc, time) {
                    break;
                }
                match ends::following(desc, Snapshot::NONE, &named, time) {
                    Following::None => break,
                    Following::From(next) => {
                        keys[last] = ScanKey::new(
                            desc.index,
                            last,
                            GREATER_EQUAL,
                            desc.time_datum((false, next)).0,
                        );
                        entries.restart(&keys);
                    }
                    Following::Unknown => {}
                }
                is_met = true;
                continue;
            };
            (rows, is_met) = (0, false);
            match visit(header) {
                Visited::Taken if end > to => last_end = Some(end),
                Visited::Taken => {}
                Visited::Left => entries.drop_if(entry.tid, || dead_header::is_dead(table, header)),
            }
        }
        entries.end();
    }
    last_end.map_or(i64::MAX, |end| end - 1)
}

/// Rows of a chunk with the given values in the columns of a series index, in whatever order the chunk is. Bounds of the chunk,
/// then of its blocks, answer for most of it.
///
/// # Safety
/// As `visit_section`; `values` are of all columns of the index.
pub unsafe fn rows_in(
    reader: &Reader,
    desc: &IndexDesc,
    descriptor: Descriptor<'_>,
    values: &[Datum],
) -> Vec<u32> {
    let mut found = Vec::new();
    // SAFETY: by contract; the quals do not outlive this call.
    unsafe {
        let equal = |(at, &value): (usize, &Datum)| ScanKey::new(desc.index, at, EQUAL, value);
        let keys: Vec<_> = values.iter().enumerate().map(equal).collect();
        let quals = Quals::new(desc.index, &keys, memory::current().as_ptr());
        let view = View {
            desc,
            quals: &quals,
            descriptor,
        };
        let time = desc.time_of(values[desc.key_columns()], false);
        for row in candidates(reader, view).into_iter().flatten() {
            let (value, isnull) = reader.value(descriptor, row, desc.time_column());
            let fits = desc.time_of(value, isnull) == time
                && quals.keys_hold(|column| reader.value(descriptor, row, desc.columns[column]));
            if fits {
                found.push(row);
            }
        }
    }
    found
}

/// A scan of entries. They carry real TIDs only for tail rows, and nothing is fetched by them: any snapshot will do.
///
/// # Safety
/// The index must be open; `keys` are of its columns, and their arguments live as long as entries are read.
unsafe fn begin(desc: &IndexDesc, keys: &[ScanKey]) -> EntryScan {
    // SAFETY: the callers' contract.
    unsafe {
        let any = Snapshot::any();
        let mut entries = EntryScan::begin(desc.index, any, keys.len());
        entries.restart(keys);
        entries
    }
}
