//! The rows of a chunk that a scan wants: found by the bounds of chunk and blocks first, decoding only
//! key and time columns of blocks that can match.

use super::entries::{IndexDesc, Key, Time};
use super::quals::{Condition, Quals};
use crate::catalog::layout;
use crate::chunk::index_entries;
use crate::chunk::read::Content;
use crate::chunk::reader::Reader;
use crate::pg::descriptor::Descriptor;
use crate::pg::image;
use crate::pg::tid::Tid;
use crate::pg::types;
use crate::pg::{Datum, FormData_pg_attribute};
use crate::table::visible::OpenChunk;
use smallvec::SmallVec;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use varve_columns::chunk::prefix_excludes;
use varve_columns::summary::Bound;
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED};

/// Rows of one series in a chunk, on their way out.
pub struct ChunkRows {
    pub open: Rc<OpenChunk>,
    rows: Range<u32>,
    /// Rows that come before these, and which nothing is asked of any more.
    run: Range<u32>,
    /// The row that comes next, with its time; `None` while it is not known.
    next: Option<(Time, u32)>,
    /// A row was taken.
    has_begun: bool,
}

/// What the functions of this module look at: a scan's index, table and quals.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub desc: &'a IndexDesc<'a>,
    pub quals: &'a Quals,
    pub descriptor: Descriptor<'a>,
}

impl ChunkRows {
    pub fn new(open: Rc<OpenChunk>, rows: Range<u32>) -> ChunkRows {
        ChunkRows {
            open,
            rows,
            run: 0..0,
            next: None,
            has_begun: false,
        }
    }

    /// Time and TID of the row that comes next. Nothing is read before it is asked for: the executor has
    /// read all it wants of the row before.
    ///
    /// # Safety
    /// `view` must be of the chunk's table.
    pub unsafe fn peek(&mut self, view: View, forward: bool) -> Option<(Time, Tid)> {
        while self.next.is_none() {
            let row = if forward {
                self.rows.next()
            } else {
                self.rows.next_back()
            }?;
            if self.open.is_hidden(row) {
                continue;
            }
            // SAFETY: by contract.
            unsafe {
                let column = view.desc.time_column();
                let (value, isnull) = self.open.reader.value(view.descriptor, row, column);
                if view.quals.time_holds(value, isnull) {
                    self.next = Some((view.desc.time_of(value, isnull), row));
                } else if view.quals.is_past(value, isnull, forward) {
                    self.rows = 0..0;
                }
            }
        }
        let (time, row) = self.next?;
        Some((time, Tid::of_row(self.open.reader.chunk.tid, row)))
    }

    /// Takes the row that was peeked at.
    pub fn take(&mut self) {
        self.next = None;
        self.has_begun = true;
    }

    /// TID of the next row, where nobody asks which time it has.
    ///
    /// # Safety
    /// As `peek`, which must not have been called before.
    pub unsafe fn next(&mut self, view: View, forward: bool) -> Option<Tid> {
        if let Some(tid) = self.next_of_run(forward) {
            return Some(tid);
        }
        if !view.quals.asks_for_times() {
            self.run = core::mem::replace(&mut self.rows, 0..0);
            return self.next_of_run(forward);
        }
        // SAFETY: by contract.
        unsafe {
            self.find_run(view, forward, None);
            if let Some(tid) = self.next_of_run(forward) {
                return Some(tid);
            }
            let (_, tid) = self.peek(view, forward)?;
            self.take();
            Some(tid)
        }
    }

    /// TID of the next row of a run.
    #[inline]
    pub fn next_of_run(&mut self, forward: bool) -> Option<Tid> {
        let is_seen = |&row: &u32| !self.open.is_hidden(row);
        let row = if forward {
            self.run.find(is_seen)
        } else {
            self.run.rfind(is_seen)
        };
        row.map(|row| Tid::of_row(self.open.reader.chunk.tid, row))
    }

    /// Makes a run of the rows of a block that come next: of those for which all quals hold, and which do not come behind `bound`, nor backward with it. Where the
    /// bounds of the block tell, nothing is decoded. Nothing is looked for before a first row was taken: there may be no second one.
    ///
    /// # Safety
    /// As `peek`.
    pub unsafe fn find_run(&mut self, view: View, forward: bool, bound: Option<Time>) {
        let column = view.desc.time_column();
        let reader = &self.open.reader;
        let is_stored = column < reader.chunk.columns.columns().len();
        let may_run = self.has_begun && self.next.is_none() && !self.rows.is_empty();
        if !may_run || !is_stored || !view.quals.times.is_empty() {
            return;
        }
        let is_within = |time: Time| {
            bound.is_none_or(|bound| match forward {
                true => time <= bound,
                false => time > bound,
            })
        };
        // SAFETY: a value of the time column.
        let holds = |value, time| is_within(time) && unsafe { view.quals.bounds_hold(value) };
        let (block, is_run) = reader.with_directory(column, |directory| {
            let next = if forward {
                self.rows.start
            } else {
                self.rows.end - 1
            };
            let block = directory.block(directory.block_of_row(next));
            let bound_holds = |bound: &Bound| match *bound {
                Bound::Int(time) => holds(view.desc.time_datum((false, time)).0, (false, time)),
                _ => false,
            };
            let is_run = block.nulls == 0 && bound_holds(&block.min) && bound_holds(&block.max);
            (block.rows.clone(), is_run)
        });
        let rows = self.rows.start.max(block.start)..self.rows.end.min(block.end);
        let row_holds = |row: u32| {
            // SAFETY: by contract.
            let (value, isnull) = unsafe { reader.value(view.descriptor, row, column) };
            !isnull && holds(value, view.desc.time_of(value, false))
        };
        // What holds for the first and for the last one holds between them, since the rows are sorted by time.
        let length = match (is_run, forward) {
            (true, _) => rows.len() as u32,
            (false, true) => prefix(rows.len() as u32, |at| row_holds(rows.start + at)),
            (false, false) => prefix(rows.len() as u32, |at| row_holds(rows.end - 1 - at)),
        };
        if forward {
            self.rows.start = rows.start + length;
            self.run = rows.start..self.rows.start;
        } else {
            self.rows.end = rows.end - length;
            self.run = self.rows.end..rows.end;
        }
    }
}

/// How many of the first of `count` things `holds` accepts, which it does up to one of them. Few of them are asked about where these are
/// few, and the first and the last of these are.
fn prefix(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    if count == 0 || !holds(0) {
        return 0;
    }
    let mut step = 1;
    while step < count && holds(step) {
        step *= 2;
    }
    partition_point(step / 2 + 1..step.min(count), holds)
}

/// May a chunk have rows of `key`? One of a single series that is not keyed is entered under its first key, as those of others are.
///
/// # Safety
/// As `rows_of_series`.
pub unsafe fn may_have(reader: &Reader, key: &Key, view: View) -> bool {
    // SAFETY: by contract; there is no chunk without rows.
    !reader.chunk.header.has(FLAG_ONE_SERIES) || unsafe { is_at(reader, 0, key, view) }
}

/// Is a row of a chunk one of `key`?
///
/// # Safety
/// As `rows_of_series`; there is such a row.
unsafe fn is_at(reader: &Reader, row: u32, key: &Key, view: View) -> bool {
    let attributes = view.descriptor.attributes();
    let mut columns = key.values.iter().zip(&view.desc.columns);
    columns.all(|(&(wanted, _), &column)| {
        // SAFETY: by contract.
        unsafe {
            let (value, isnull) = reader.value(view.descriptor, row, column);
            !isnull && image::same_image(value, wanted, &attributes[column])
        }
    })
}

/// Rows of `key` in a chunk that may have some (`may_have`), as keyed ones entered under it have: all of them, before quals on time. `known` are those of another series, or none: the next one is
/// beside it more often than not.
///
/// # Safety
/// `view` must be of the chunk's table, and the key of the index.
pub unsafe fn rows_of_series(
    reader: &Reader,
    key: &Key,
    view: View,
    known: Range<u32>,
) -> Range<u32> {
    if reader.chunk.header.has(FLAG_ONE_SERIES) {
        return 0..reader.rows();
    }
    // SAFETY: by contract.
    unsafe {
        let attributes = view.descriptor.attributes();
        let columns = &view.desc.columns[..view.desc.key_columns()];
        let mut wanted: SmallVec<[i64; 4]> = SmallVec::new();
        for (&(value, isnull), &column) in key.values.iter().zip(columns) {
            wanted.extend(integer(value, &attributes[column]).filter(|_| !isnull));
        }
        let series = (wanted.len() == columns.len()).then(|| reader.series(columns));
        if let Some(series) = series.flatten() {
            return series.rows(&wanted);
        }
        let is_series = |row: u32| is_at(reader, row, key, view);
        if let Some(found) = beside(known, reader.rows(), is_series) {
            return found;
        }
        let mut ranges = Vec::from_iter(core::iter::once(0..reader.rows()));
        for (at, &(value, _)) in key.values.iter().enumerate() {
            let column = view.desc.columns[at];
            let length = attributes[column].attlen;
            keep_blocks(reader, column, &mut ranges, |min, max| {
                !excludes(min, max, value, length)
            });
        }
        if let Some(found) = search(reader, key, view, &ranges) {
            let is_outside = |row: u32| row >= reader.rows() || !is_series(row);
            let is_all = is_series(found.start)
                && is_series(found.end - 1)
                && (found.start == 0 || is_outside(found.start - 1))
                && is_outside(found.end);
            if is_all {
                return found;
            }
        }
        // Rows of a series lie together.
        let mut found: Option<Range<u32>> = None;
        for row in ranges.into_iter().flatten() {
            match (&mut found, is_series(row)) {
                (None, true) => found = Some(row..row + 1),
                (Some(rows), true) => rows.end = row + 1,
                (Some(_), false) => break,
                (None, false) => {}
            }
        }
        found.unwrap_or(0..0)
    }
}

/// Rows of a series among `rows` that lie where those of another one do, or right behind or before them.
fn beside(known: Range<u32>, rows: u32, is_series: impl Fn(u32) -> bool) -> Option<Range<u32>> {
    if known.is_empty() {
        return None;
    }
    if is_series(known.start) {
        return Some(known);
    }
    let mut step = 1;
    if known.end < rows && is_series(known.end) {
        while step < rows - known.end && is_series(known.end + step) {
            step *= 2;
        }
        let last = rows.min(known.end + step);
        return Some(known.end..partition_point(known.end + step / 2..last, is_series));
    }
    if known.start > 0 && is_series(known.start - 1) {
        while step < known.start && is_series(known.start - 1 - step) {
            step *= 2;
        }
        let first = (known.start - 1).saturating_sub(step);
        let is_before = |row| !is_series(row);
        return Some(partition_point(first..known.start - step / 2, is_before)..known.start);
    }
    None
}

/// Rows of `key` among `ranges` of a keyed chunk, if its columns are integers and sorted as such. What comes out is to be
/// looked at: rows of a series lie together, so all of them were found if the first and the last one are of it, and those
/// beside are not.
///
/// # Safety
/// As `rows_of_series`; `ranges` must be of the chunk's rows.
unsafe fn search(
    reader: &Reader,
    key: &Key,
    view: View,
    ranges: &[Range<u32>],
) -> Option<Range<u32>> {
    let mut ranges = ranges.to_vec();
    // SAFETY: the caller's contract.
    unsafe {
        let attributes = view.descriptor.attributes();
        for (&(wanted, _), &column) in key.values.iter().zip(&view.desc.columns) {
            let attribute = &attributes[column];
            let wanted = integer(wanted, attribute)?;
            let at = |row: u32| {
                let (value, isnull) = reader.value(view.descriptor, row, column);
                integer(value, attribute).filter(|_| !isnull)
            };
            for range in &mut ranges {
                // Nulls come last.
                let start = partition_point(range.clone(), |row| {
                    at(row).is_some_and(|value| value < wanted)
                });
                let end = partition_point(start..range.end, |row| at(row) == Some(wanted));
                *range = start..end;
            }
            ranges.retain(|range| !range.is_empty());
        }
    }
    Some(ranges.first()?.start..ranges.last()?.end)
}

/// The value of a column that is passed as an integer.
fn integer(value: Datum, attribute: &FormData_pg_attribute) -> Option<i64> {
    match (attribute.attbyval, attribute.attlen) {
        (true, 2) => Some(i64::from(value.value() as i16)),
        (true, 4) => Some(i64::from(value.value() as i32)),
        (true, 8) => Some(value.value() as i64),
        _ => None,
    }
}

/// The value of a table column (from 0) that is passed as an integer.
///
/// # Safety
/// `view` must be of the column's table.
pub unsafe fn integer_of(value: Datum, column: usize, view: View) -> Option<i64> {
    integer(value, &view.descriptor.attributes()[column])
}

/// Are the rows of a chunk in the order of the index?
pub fn is_sorted_as(chunk: &Content, desc: &IndexDesc) -> bool {
    chunk.header_as_written().has(FLAG_SORTED) && chunk.statics.is_ordered_by(&desc.columns)
}

/// Rows among which are all those with first keys of a range: no others, where the chunk is sorted as the index is.
///
/// # Safety
/// As `rows_of_series`; the first key must be an integer.
pub unsafe fn rows_of_first_keys(
    reader: &Reader,
    view: View,
    keys: RangeInclusive<i64>,
) -> Range<u32> {
    let (first, last) = (*keys.start(), *keys.end());
    if !is_sorted_as(&reader.chunk, view.desc) {
        return 0..reader.rows();
    }
    let column = view.desc.columns[0];
    let mut ranges = Vec::from_iter(core::iter::once(0..reader.rows()));
    keep_blocks(reader, column, &mut ranges, |min, max| match (min, max) {
        (&Bound::Int(min), &Bound::Int(max)) => min <= last && first <= max,
        _ => true,
    });
    let (Some(first_rows), Some(last_rows)) = (ranges.first(), ranges.last()) else {
        return 0..0;
    };
    // SAFETY: by contract. Nulls come last.
    let at_most = |row: u32, bound: i64| unsafe {
        let (value, isnull) = reader.value(view.descriptor, row, column);
        !isnull && integer_of(value, column, view).is_some_and(|key| key <= bound)
    };
    let rows = first_rows.start..last_rows.end;
    let start = match first.checked_sub(1) {
        Some(before) => partition_point(rows.clone(), |row| at_most(row, before)),
        None => rows.start,
    };
    start..partition_point(start..rows.end, |row| at_most(row, last))
}

/// Narrows rows that are sorted by time to the bounds of time: exactly where the scan begins, and to
/// whole blocks where it ends.
///
/// # Safety
/// As `rows_of_series`.
pub unsafe fn within_bounds(
    reader: &Reader,
    rows: Range<u32>,
    view: View,
    forward: bool,
) -> Range<u32> {
    let column = view.desc.time_column();
    let quals = view.quals;
    if quals.lowers.is_empty() && quals.uppers.is_empty() {
        return rows;
    }
    let mut ranges = vec![rows];
    // SAFETY: by contract.
    unsafe {
        for bound in quals.lowers.iter().chain(&quals.uppers) {
            narrow(reader, bound, column, view, &mut ranges);
        }
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return 0..0;
        };
        let holds = |bounds: &[Condition], row| {
            let (value, isnull) = reader.value(view.descriptor, row, column);
            bounds.iter().all(|bound| bound.holds(value, isnull))
        };
        let (mut start, mut end) = (first.start, last.end);
        if forward && !quals.lowers.is_empty() {
            start = partition_point(first.clone(), |row| !holds(&quals.lowers, row));
        } else if !forward && !quals.uppers.is_empty() {
            end = partition_point(last.clone(), |row| holds(&quals.uppers, row));
        }
        start..end.max(start)
    }
}

/// First row of `rows` for which `before` does not hold; it holds for a prefix.
pub fn partition_point(rows: Range<u32>, before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Rows in blocks of which no qual excludes all values.
///
/// # Safety
/// As `rows_of_series`.
pub unsafe fn candidates(reader: &Reader, view: View) -> Vec<Range<u32>> {
    let mut ranges = Vec::from_iter(core::iter::once(0..reader.rows()));
    let quals = view.quals;
    let conditions = quals
        .keys
        .iter()
        .chain(&quals.lowers)
        .chain(&quals.uppers)
        .chain(&quals.times);
    for condition in conditions {
        let column = view.desc.columns[condition.column];
        // SAFETY: by contract.
        unsafe { narrow(reader, condition, column, view, &mut ranges) };
        if ranges.is_empty() {
            break;
        }
    }
    ranges
}

/// Leaves the blocks of a column in which a condition may hold.
///
/// # Safety
/// As `rows_of_series`; the condition must be on this column of the table.
unsafe fn narrow(
    reader: &Reader,
    condition: &Condition,
    column: usize,
    view: View,
    ranges: &mut Vec<Range<u32>>,
) {
    // SAFETY: the caller's contract; a syscache look-up.
    unsafe {
        let attribute = &view.descriptor.attributes()[column];
        let typ = attribute.atttypid;
        let is_ordered = layout::is_time_type(typ) || layout::is_time_type(types::base(typ));
        let length = attribute.attlen;
        keep_blocks(reader, column, ranges, |min, max| {
            if let Some((arguments, argument_length)) = condition.comparable_equals() {
                return arguments
                    .iter()
                    .any(|&argument| !excludes(min, max, argument, argument_length));
            }
            match (min, max) {
                (&Bound::Int(min), &Bound::Int(max)) if is_ordered => condition.may_hold(
                    index_entries::time_datum(min, length),
                    index_entries::time_datum(max, length),
                ),
                _ => true,
            }
        });
    }
}

/// Leaves those parts of `ranges` that lie in blocks of a column whose bounds `keep` accepts.
fn keep_blocks(
    reader: &Reader,
    column: usize,
    ranges: &mut Vec<Range<u32>>,
    keep: impl Fn(&Bound, &Bound) -> bool,
) {
    // A column that was added later has one value in all rows: the quals will tell.
    let Some(head) = reader.chunk.columns.columns().get(column) else {
        return;
    };
    if ranges.is_empty() {
        return;
    }
    if head.nulls < head.rows && !keep(&head.summary.min, &head.summary.max) {
        if head.nulls == 0 {
            ranges.clear();
        }
        return;
    }
    reader.with_directory(column, |directory| {
        if directory.len() < 2 {
            return;
        }
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let blocks = match start < end {
            true => directory.block_of_row(start)..directory.block_of_row(end - 1) + 1,
            false => 0..0,
        };
        let mut kept = Vec::new();
        for block in &directory.blocks()[blocks] {
            if block.nulls > 0 || keep(&block.min, &block.max) {
                let parts = ranges.iter().filter_map(|range| {
                    let part = range.start.max(block.rows.start)..range.end.min(block.rows.end);
                    (!part.is_empty()).then_some(part)
                });
                kept.extend(parts);
            }
        }
        *ranges = kept;
    });
}

/// Do bounds exclude a value that is stored as an integer or as bytes?
///
/// # Safety
/// `value` must be one of a column of this length, as the column stores it.
pub unsafe fn excludes(min: &Bound, max: &Bound, value: Datum, length: i16) -> bool {
    match (min, max, length) {
        (&Bound::Int(min), &Bound::Int(max), 1..=8) => {
            let raw = match length {
                1 => i64::from(value.value() as i8),
                2 => i64::from(value.value() as i16),
                4 => i64::from(value.value() as i32),
                _ => value.value() as i64,
            };
            raw < min || raw > max
        }
        // SAFETY: by contract of the callers a varlena.
        (_, _, -1) => unsafe {
            crate::pg::varlena::with_body(value, -1, |body| prefix_excludes(min, max, body))
        },
        _ => false,
    }
}
