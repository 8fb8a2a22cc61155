//! A chunk as the input of a merge: which of its live rows lie in a range of (key, time), and their
//! columns, decoded block by block.

use super::long_key;
use super::windows::{Window, ALL_TIMES};
use crate::catalog::layout::Layout;
use crate::chunk::datum::{self, Datums};
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::chunk::row_set::{append, integer_at, put_ordered, RowSet};
use crate::pg::error;
use crate::pg::FormData_pg_attribute;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use varve_columns::column::{Column, Kind};
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE};

/// Was the chunk written in this layout?
pub fn has_layout(chunk: &Chunk, layout: &Layout) -> bool {
    chunk.statics.keys == layout.keys && chunk.statics.time == layout.time
}

pub struct Source {
    pub reader: Rc<Reader>,
    /// Rows are in the order of the layout that is merged to.
    sorted: bool,
    /// Bytes that a row takes in memory, about.
    pub row_bytes: usize,
}

/// The columns by which rows are sorted.
pub struct SortColumns {
    keys: Vec<Column>,
    time: Option<Column>,
}

impl SortColumns {
    /// Replaces `out` by bytes in the order of rows; by their start, of long ones.
    pub fn put(&self, row: u32, out: &mut Vec<u8>) {
        out.clear();
        let columns = self.keys.iter().chain(&self.time);
        long_key::put_not_behind(out, columns, row as usize);
    }

    /// Appends bytes that name the series of a row.
    pub fn put_key(&self, row: u32, out: &mut Vec<u8>) {
        self.keys
            .iter()
            .for_each(|column| put_ordered(out, column, row as usize));
    }

    /// Is a row, not the first, of the series of the row before it?
    fn has_key_of_row_before(&self, row: usize) -> bool {
        self.keys.iter().all(|column| column.same_as_before(row))
    }

    /// Replaces `out` by what the series of a row is known by.
    fn put_known(&self, row: u32, out: &mut Vec<u8>) {
        out.clear();
        long_key::put_known(out, self.keys.iter(), row as usize);
    }

    /// Least and greatest time of the first `rows` rows, if any has one.
    pub fn time_range(&self, rows: u32) -> Option<(i64, i64)> {
        let times = self.time.as_ref()?;
        (0..rows as usize)
            .map(|row| integer_at(times, row))
            .filter(|(null, _)| !null)
            .map(|(_, time)| (time, time))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn time(&self) -> Option<&Column> {
        self.time.as_ref()
    }
}

/// Rows of one series, and from when to when they are.
#[derive(Clone, Copy)]
pub struct Span {
    pub rows: u64,
    pub min: i64,
    pub max: i64,
}

impl Span {
    pub fn union(self, other: Span) -> Span {
        Span {
            rows: self.rows + other.rows,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub fn extend(&mut self, other: Span) {
        *self = self.union(other);
    }

    /// More than an end in common.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.max > other.min && self.min < other.max
    }
}

/// The windows of each series as one.
fn all_times(spans: FxHashMap<(Vec<u8>, i64), Span>) -> Vec<(Vec<u8>, Span)> {
    let mut out: FxHashMap<Vec<u8>, Span> = FxHashMap::default();
    for ((key, _), span) in spans {
        out.entry(key)
            .and_modify(|known| known.extend(span))
            .or_insert(span);
    }
    out.into_iter().collect()
}

impl Source {
    /// # Safety
    /// The reader's table must stay open as long as the source lives.
    pub unsafe fn new(reader: Rc<Reader>, layout: &Layout) -> Result<Source, Damage> {
        let chunk = &reader.chunk;
        let sorted = chunk.header.has(FLAG_SORTED) && has_layout(chunk, layout);
        let mut source = Source {
            reader,
            sorted,
            row_bytes: 0,
        };
        source.row_bytes = source.estimate_row_bytes()?;
        Ok(source)
    }

    fn chunk(&self) -> &Chunk {
        &self.reader.chunk
    }

    fn attributes(&self) -> &[FormData_pg_attribute] {
        self.chunk().table().attributes()
    }

    /// Looks at the first block of columns of variable length.
    fn estimate_row_bytes(&self) -> Result<usize, Damage> {
        let chunk = self.chunk();
        let mut bytes = 1;
        for (at, attribute) in self.attributes().iter().enumerate() {
            bytes += match datum::kind_of(attribute) {
                Kind::Absent => 0,
                Kind::Bool => 1,
                Kind::I16 => 2,
                Kind::I32 | Kind::F32 => 4,
                Kind::I64 | Kind::F64 => 8,
                Kind::Fixed(width) => usize::from(width),
                Kind::Bytes | Kind::Numeric => {
                    let stored = chunk.rows_with_payload();
                    if at >= chunk.columns.columns().len() || stored == 0 {
                        32
                    } else {
                        let rows: Vec<u32> = (0..stored.min(128)).collect();
                        let mut column = datum::empty(datum::kind_of(attribute));
                        self.append_column(&mut column, at, &rows)? / rows.len()
                    }
                }
            };
        }
        Ok(bytes)
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> Vec<u32> {
        let chunk = self.chunk();
        (0..chunk.rows_with_payload())
            .filter(|&row| !chunk.map.contains(row))
            .collect()
    }

    pub fn live_count(&self) -> u32 {
        match self.chunk().rows_with_payload() {
            0 => 0,
            rows => rows - self.chunk().header.deleted,
        }
    }

    /// Can there be rows without a time?
    pub fn may_lack_times(&self, layout: &Layout) -> bool {
        layout.time.is_none_or(|time| {
            let columns = self.chunk().columns.columns();
            let column = columns.get(usize::from(time) - 1);
            column.is_none_or(|column| column.nulls > 0)
        })
    }

    /// All rows are of one series, and all have a time.
    pub fn is_one_series(&self, layout: &Layout) -> bool {
        let chunk = self.chunk();
        let Some(time) = layout.time else {
            return false;
        };
        let at = usize::from(time) - 1;
        self.sorted
            && chunk.header.has(FLAG_ONE_SERIES)
            && chunk
                .columns
                .columns()
                .get(at)
                .is_some_and(|column| column.nulls == 0)
    }

    /// What the chunk holds of each series in each window of `length`, as far as rows have a time and are not deleted. A series of
    /// `own_rows` or more is not divided.
    pub fn spans(
        &self,
        layout: &Layout,
        length: i64,
        own_rows: u64,
    ) -> Result<FxHashMap<(Vec<u8>, i64), Span>, Damage> {
        self.spans_of(layout, &self.live_rows(), length, own_rows)
    }

    /// What it holds of each series, with deleted rows: the times by which series indexes know the chunk.
    pub fn stored_spans(&self, layout: &Layout) -> Result<Vec<(Vec<u8>, Span)>, Damage> {
        let all: Vec<u32> = (0..self.reader.rows()).collect();
        let spans = self.spans_of(layout, &all, ALL_TIMES, 0)?;
        Ok(all_times(spans))
    }

    fn spans_of(
        &self,
        layout: &Layout,
        rows: &[u32],
        length: i64,
        own_rows: u64,
    ) -> Result<FxHashMap<(Vec<u8>, i64), Span>, Damage> {
        let mut out: FxHashMap<(Vec<u8>, i64), Span> = FxHashMap::default();
        let Some(&first) = rows.first() else {
            return Ok(out);
        };
        let mut key = Vec::new();
        let header = &self.chunk().header;
        let number = |time| Window::of(time, length).number;
        let is_whole =
            rows.len() as u64 >= own_rows || number(header.min_time) == number(header.max_time);
        if is_whole && self.is_one_series(layout) {
            self.sort_columns(layout, &[first])?.put_known(0, &mut key);
            let span = Span {
                rows: rows.len() as u64,
                min: header.min_time,
                max: header.max_time,
            };
            out.insert((key, number(header.min_time)), span);
            return Ok(out);
        }
        let columns = self.sort_columns(layout, rows)?;
        let Some(times) = columns.time() else {
            return Ok(out);
        };
        let mut add = |at: &(Vec<u8>, i64), span: Span| match out.get_mut(at) {
            Some(known) => known.extend(span),
            None => {
                out.insert(at.clone(), span);
            }
        };
        // As a rule the next row is of the same series.
        let (mut at, mut run) = ((Vec::new(), 0), None::<Span>);
        let mut is_same = false;
        for row in 0..rows.len() {
            is_same = is_same && columns.has_key_of_row_before(row);
            let (null, time) = integer_at(times, row);
            if null {
                continue;
            }
            let span = Span {
                rows: 1,
                min: time,
                max: time,
            };
            match &mut run {
                Some(run) if is_same && number(time) == at.1 => run.extend(span),
                _ => {
                    run.take().into_iter().for_each(|run| add(&at, run));
                    columns.put_known(row as u32, &mut at.0);
                    at.1 = number(time);
                    run = Some(span);
                    is_same = true;
                }
            }
        }
        run.into_iter().for_each(|run| add(&at, run));
        Ok(out)
    }

    /// Some of the times, each for as many rows.
    pub fn sample_times(&self, layout: &Layout, samples: usize) -> Result<Vec<(i64, u64)>, Damage> {
        let live = self.live_rows();
        let step = (live.len() / samples).max(1);
        let some: Vec<u32> = live.into_iter().skip(step / 2).step_by(step).collect();
        let Some(number) = layout.time else {
            return Ok(Vec::new());
        };
        let at = usize::from(number) - 1;
        let mut times = datum::empty(datum::kind_of(&self.attributes()[at]));
        self.append_column(&mut times, at, &some)?;
        let timed = (0..some.len()).map(|row| integer_at(&times, row));
        Ok(timed
            .filter(|(null, _)| !null)
            .map(|(_, time)| (time, step as u64))
            .collect())
    }

    /// Live rows whose series and time are `wanted`. No key is read where `is_keyed` is not set.
    pub fn rows_where(
        &self,
        layout: &Layout,
        is_keyed: bool,
        mut wanted: impl FnMut(&[u8], Option<i64>) -> bool,
    ) -> Result<Vec<u32>, Damage> {
        let mut live = self.live_rows();
        let read = match is_keyed {
            true => layout.clone(),
            false => Layout {
                keys: Vec::new(),
                time: layout.time,
            },
        };
        let columns = self.sort_columns(&read, &live)?;
        let mut key = Vec::new();
        let mut row = 0;
        live.retain(|_| {
            columns.put_known(row, &mut key);
            let time = columns.time().map(|times| integer_at(times, row as usize));
            row += 1;
            wanted(&key, time.filter(|(null, _)| !null).map(|(_, time)| time))
        });
        Ok(live)
    }

    /// The sort columns of the given rows.
    pub fn sort_columns(&self, layout: &Layout, rows: &[u32]) -> Result<SortColumns, Damage> {
        let column = |number: u16| {
            let at = usize::from(number) - 1;
            let mut column = datum::empty(datum::kind_of(&self.attributes()[at]));
            self.append_column(&mut column, at, rows)?;
            Ok(column)
        };
        Ok(SortColumns {
            keys: layout
                .keys
                .iter()
                .map(|&key| column(key))
                .collect::<Result<_, Damage>>()?,
            time: layout.time.map(column).transpose()?,
        })
    }

    /// Those of some live rows that sort at or after `from` and before `to`, where given.
    pub fn rows_between(
        &self,
        layout: &Layout,
        live: Vec<u32>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Vec<u32>, Damage> {
        if from.is_none() && to.is_none() || live.is_empty() {
            return Ok(live);
        }
        let mut key = Vec::new();
        if self.sorted {
            // Most slices have nothing of most chunks.
            // One row is not decoded twice: it may be a large one.
            let ends = [live[0], live[live.len() - 1]];
            let ends = &ends[..live.len().min(2)];
            let columns = self.sort_columns(layout, ends)?;
            columns.put(ends.len() as u32 - 1, &mut key);
            let is_before = from.is_some_and(|from| key.as_slice() < from);
            columns.put(0, &mut key);
            if is_before || to.is_some_and(|to| key.as_slice() >= to) {
                return Ok(Vec::new());
            }
        }
        let columns = self.sort_columns(layout, &live)?;
        if !self.sorted {
            let mut keep = |at: u32| {
                columns.put(at, &mut key);
                from.is_none_or(|from| key.as_slice() >= from)
                    && to.is_none_or(|to| key.as_slice() < to)
            };
            return Ok((0..live.len())
                .filter(|&at| keep(at as u32))
                .map(|at| live[at])
                .collect());
        }
        let mut find = |bound: Option<&[u8]>, otherwise: usize| match bound {
            None => otherwise,
            Some(bound) => {
                let (mut low, mut high) = (0, live.len());
                while low < high {
                    let middle = (low + high) / 2;
                    columns.put(middle as u32, &mut key);
                    if key.as_slice() < bound {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                low
            }
        };
        let (start, end) = (find(from, 0), find(to, live.len()));
        Ok(live[start..end.max(start)].to_vec())
    }

    /// Appends rows, which must ascend, to a set of the table's columns.
    pub fn append(&self, set: &mut RowSet, rows: &[u32]) -> Result<(), Damage> {
        let mut bytes = 0;
        for at in 0..set.columns.len() {
            bytes += self.append_column(&mut set.columns[at], at, rows)?;
        }
        set.appended(rows.len(), bytes);
        Ok(())
    }

    /// Appends the values of a table column (from 0), whatever the chunk has for it.
    fn append_column(&self, to: &mut Column, at: usize, rows: &[u32]) -> Result<usize, Damage> {
        let chunk = self.chunk();
        let attribute = &self.attributes()[at];
        if rows.is_empty() {
            // A chunk whose rows are all gone may have no pieces any more.
            return Ok(0);
        }
        if to.kind == Kind::Absent {
            return Ok(append(to, &Column::empty(), rows));
        }
        if at >= chunk.columns.columns().len() {
            // SAFETY: the descriptor is the open table's.
            let (value, null) = unsafe { datum::missing(chunk.table().descriptor(), at + 1) };
            // SAFETY: a missing value is of its attribute's type.
            return Ok(rows
                .iter()
                .map(|_| unsafe { datum::push(to, value, null, attribute.attlen) })
                .sum());
        }
        let kind = chunk.columns.column(at).kind;
        if !datum::fits(kind, attribute) {
            return Err(Damage::new(format!(
                "column {} has another storage type",
                at + 1
            )));
        }
        let directory = chunk.directory(at)?;
        let mut block_values = datum::empty(kind);
        let (mut bytes, mut next) = (0, 0);
        let mut within = Vec::new();
        while next < rows.len() {
            error::check_interrupts();
            let block = directory.block_of_row(rows[next]);
            let covered = chunk.decode_block(at, &directory, block, &mut block_values)?;
            let end = next + rows[next..].partition_point(|&row| row < covered.end);
            within.clear();
            within.extend(rows[next..end].iter().map(|row| row - covered.start));
            next = end;
            if kind == to.kind {
                bytes += append(to, &block_values, &within);
                continue;
            }
            let datums = Datums::from_column(&block_values, attribute.attlen);
            for &row in &within {
                let (value, null) = datums.get(row as usize);
                // SAFETY: the kind fits the attribute, checked above.
                bytes += unsafe { datum::push(to, value, null, attribute.attlen) };
            }
        }
        Ok(bytes)
    }
}

impl Chunk {
    /// Rows that can be read: none of a tombstone.
    pub fn rows_with_payload(&self) -> u32 {
        if self.header.has(FLAG_TOMBSTONE) {
            0
        } else {
            self.header.rows
        }
    }
}
