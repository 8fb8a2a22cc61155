//! Rows in memory on their way into chunks: collected by column, then put into the order of a layout.

use super::series_numbers::SeriesNumbers;
use crate::catalog::layout::Layout;
use crate::chunk::datum;
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::page::PageTuple;
use crate::pg::slot::Slot;
use crate::pg::Datum;
use std::borrow::Cow;
use std::ops::Range;
use varve_columns::column::{Column, Kind, Values};

/// Rows by column. `bytes` is what the values take, near enough for a memory bound.
pub struct RowSet {
    pub columns: Vec<Column>,
    lengths: Vec<i16>,
    /// Values of a tuple while it is taken apart.
    taken: (Vec<Datum>, Vec<bool>),
    pub rows: usize,
    pub bytes: usize,
}

/// The order in which rows of a set go into chunks.
pub struct Order {
    /// Row numbers, sorted by (key, time); equal ones keep their order.
    pub rows: Vec<u32>,
    /// Where in `rows` each series ends; the next one begins there.
    ends: Vec<u32>,
}

impl Order {
    /// How many series there are.
    pub fn series(&self) -> usize {
        self.ends.len()
    }

    /// Where in `rows` a series is, by its number.
    pub fn of_series(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[number] as usize
    }

    /// Where in `rows` the series are, in their order.
    pub fn all_series(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.series()).map(|number| self.of_series(number))
    }
}

impl RowSet {
    /// # Safety
    /// `descriptor` must be a table's.
    pub unsafe fn new(descriptor: Descriptor<'_>) -> RowSet {
        let attributes = descriptor.attributes();
        RowSet {
            columns: attributes
                .iter()
                .map(|attribute| datum::empty(datum::kind_of(attribute)))
                .collect(),
            lengths: attributes
                .iter()
                .map(|attribute| attribute.attlen)
                .collect(),
            taken: Default::default(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Appends one row.
    ///
    /// # Safety
    /// `values` and `nulls` must hold a value of the right type for each column.
    pub unsafe fn push(&mut self, values: *const Datum, nulls: *const bool) {
        let mut bytes = 0;
        for (at, column) in self.columns.iter_mut().enumerate() {
            // SAFETY: by contract.
            bytes +=
                unsafe { datum::push(column, *values.add(at), *nulls.add(at), self.lengths[at]) };
        }
        self.bytes += bytes;
        self.rows += 1;
    }

    /// Appends the row that a slot shows.
    ///
    /// # Safety
    /// The slot must be of this set's descriptor.
    pub unsafe fn push_slot(&mut self, slot: Slot<'_>) {
        let (values, nulls) = slot.attributes();
        // SAFETY: by contract.
        unsafe { self.push(values.as_ptr(), nulls.as_ptr()) }
    }

    /// Appends the row that a tuple holds.
    ///
    /// # Safety
    /// It must be of `descriptor`, which is this set's.
    pub unsafe fn push_tuple(&mut self, tuple: PageTuple<'_>, descriptor: Descriptor<'_>) {
        let (mut values, mut nulls) = core::mem::take(&mut self.taken);
        values.resize(descriptor.len(), Datum::null());
        nulls.resize(descriptor.len(), true);
        // SAFETY: by contract.
        unsafe {
            tuple.take_apart(descriptor, &mut values, &mut nulls);
            self.push(values.as_ptr(), nulls.as_ptr());
        }
        self.taken = (values, nulls);
    }

    /// Counts `rows` rows of `bytes` bytes that were appended column by column.
    pub fn appended(&mut self, rows: usize, bytes: usize) {
        self.rows += rows;
        self.bytes += bytes;
    }

    /// A set of some of the rows, in the given order.
    pub fn pick(&self, rows: &[u32]) -> RowSet {
        RowSet {
            columns: self.gather(rows).into_owned(),
            lengths: self.lengths.clone(),
            taken: Default::default(),
            rows: rows.len(),
            bytes: self.bytes / self.rows.max(1) * rows.len(),
        }
    }

    /// Puts the rows in the order of `layout`.
    pub fn order(&self, layout: &Layout) -> Order {
        let column = |&number: &u16| &self.columns[usize::from(number) - 1];
        let keys: Vec<&Column> = layout.keys.iter().map(column).collect();
        let numbers = SeriesNumbers::new(self.rows, &keys);
        let mut ends = vec![0u32; numbers.count];
        for &number in &numbers.of_row {
            ends[number as usize] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            // Where the next row of the series goes, and in the end where the series ends.
            start += core::mem::replace(end, start);
        }
        let mut rows = vec![0u32; self.rows];
        for (row, &number) in numbers.of_row.iter().enumerate() {
            let next = &mut ends[number as usize];
            rows[*next as usize] = row as u32;
            *next += 1;
        }
        drop(numbers);
        let mut order = Order { rows, ends };
        if let Some(time) = layout.time {
            let column = &self.columns[usize::from(time) - 1];
            let rarely = error::RareCheck::default();
            let time_of = |row: u32| {
                rarely.check_interrupts();
                integer_at(column, row as usize)
            };
            for number in 0..order.series() {
                error::check_interrupts();
                let range = order.of_series(number);
                let part = &mut order.rows[range];
                if !part.is_sorted_by_key(|&row| time_of(row)) {
                    part.sort_by_key(|&row| time_of(row));
                }
            }
        }
        order
    }

    /// The columns of some rows, in the given order. One row that is all there is, and may be a large one, is not copied.
    pub fn gather(&self, rows: &[u32]) -> Cow<'_, [Column]> {
        if self.rows == 1 && rows == [0] {
            return Cow::Borrowed(&self.columns);
        }
        Cow::Owned(
            self.columns
                .iter()
                .map(|column| gather(column, rows))
                .collect(),
        )
    }
}

/// Value of an integer-like column as (is null, value): nulls sort last.
pub fn integer_at(column: &Column, row: usize) -> (bool, i64) {
    if column.validity.as_ref().is_some_and(|valid| !valid[row]) {
        return (true, 0);
    }
    let value = match &column.values {
        Values::I64(v) => v[row],
        Values::I32(v) => i64::from(v[row]),
        Values::I16(v) => i64::from(v[row]),
        _ => 0,
    };
    (false, value)
}

/// Appends bytes whose order is that of the values: integers numerically, all else bytewise, nulls last.
pub fn put_ordered(out: &mut Vec<u8>, column: &Column, row: usize) {
    put_start(out, column, row, usize::MAX);
}

/// The same, of a value of more than `most` bytes only its first ones and no end.
pub fn put_start(out: &mut Vec<u8>, column: &Column, row: usize, most: usize) {
    if column.validity.as_ref().is_some_and(|valid| !valid[row]) {
        out.push(1);
        return;
    }
    out.push(0);
    let integer = |out: &mut Vec<u8>, value: i64| {
        out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes());
    };
    match &column.values {
        Values::Absent(_) => {}
        Values::Bool(v) => out.push(u8::from(v[row])),
        Values::I16(v) => integer(out, i64::from(v[row])),
        Values::I32(v) => integer(out, i64::from(v[row])),
        Values::I64(v) => integer(out, v[row]),
        Values::F32(v) => integer(out, i64::from(v[row].to_bits())),
        Values::F64(v) => integer(out, v[row].to_bits() as i64),
        Values::Fixed { .. } => {
            out.extend_from_slice(bytes_at(column, row).unwrap_or_default());
        }
        Values::Bytes { .. } => {
            let value = bytes_at(column, row).unwrap_or_default();
            let start = &value[..value.len().min(most)];
            if start.len() >= LARGE_BYTES {
                out.reserve_exact(start.len() + 2);
            }
            for (at, part) in start.split(|&byte| byte == 0).enumerate() {
                if at > 0 {
                    out.extend_from_slice(&[0, 0xff]);
                }
                out.extend_from_slice(part);
            }
            if start.len() == value.len() {
                out.extend_from_slice(&[0, 0]);
            }
        }
    }
}

/// Values for which no more room is made than they need.
const LARGE_BYTES: usize = 1 << 16;

/// The bytes of a value that is no number.
pub fn bytes_at(column: &Column, row: usize) -> Option<&[u8]> {
    match &column.values {
        Values::Fixed { width, data } => {
            let width = usize::from(*width);
            Some(&data[row * width..(row + 1) * width])
        }
        Values::Bytes { ends, data } => {
            let start = if row == 0 { 0 } else { ends[row - 1] as usize };
            Some(&data[start..ends[row] as usize])
        }
        _ => None,
    }
}

/// Appends rows `rows` of `from` to `to`, which is of the same kind; returns the bytes that they take.
pub fn append(to: &mut Column, from: &Column, rows: &[u32]) -> usize {
    fn extend<T: Copy>(to: &mut Vec<T>, from: &[T], rows: &[u32]) -> usize {
        to.extend(rows.iter().map(|&row| from[row as usize]));
        rows.len() * core::mem::size_of::<T>()
    }
    let before = to.rows();
    if to.kind != Kind::Absent && (from.validity.is_some() || to.validity.is_some()) {
        let valid = to.validity.get_or_insert_with(|| vec![true; before]);
        match &from.validity {
            Some(validity) => valid.extend(rows.iter().map(|&row| validity[row as usize])),
            None => valid.resize(before + rows.len(), true),
        }
    }
    match (&mut to.values, &from.values) {
        (Values::Absent(count), _) => {
            *count += rows.len();
            0
        }
        (Values::Bool(to), Values::Bool(from)) => extend(to, from, rows),
        (Values::I16(to), Values::I16(from)) => extend(to, from, rows),
        (Values::I32(to), Values::I32(from)) => extend(to, from, rows),
        (Values::I64(to), Values::I64(from)) => extend(to, from, rows),
        (Values::F32(to), Values::F32(from)) => extend(to, from, rows),
        (Values::F64(to), Values::F64(from)) => extend(to, from, rows),
        (Values::Fixed { width, data }, Values::Fixed { data: from, .. }) => {
            let width = usize::from(*width);
            for &row in rows {
                data.extend_from_slice(&from[row as usize * width..][..width]);
            }
            rows.len() * width
        }
        (
            Values::Bytes { ends, data },
            Values::Bytes {
                ends: from_ends,
                data: from,
            },
        ) => {
            let start = data.len();
            for &row in rows {
                let row = row as usize;
                let begin = if row == 0 {
                    0
                } else {
                    from_ends[row - 1] as usize
                };
                datum::extend(data, &from[begin..from_ends[row] as usize]);
                ends.push(data.len() as u32);
            }
            data.len() - start + rows.len() * 4
        }
        _ => unreachable!("BUG: columns of one kind with other values"),
    }
}

fn gather(column: &Column, rows: &[u32]) -> Column {
    fn pick<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
        rows.iter().map(|&row| values[row as usize]).collect()
    }
    let values = match &column.values {
        Values::Absent(_) => Values::Absent(rows.len()),
        Values::Bool(v) => Values::Bool(pick(v, rows)),
        Values::I16(v) => Values::I16(pick(v, rows)),
        Values::I32(v) => Values::I32(pick(v, rows)),
        Values::I64(v) => Values::I64(pick(v, rows)),
        Values::F32(v) => Values::F32(pick(v, rows)),
        Values::F64(v) => Values::F64(pick(v, rows)),
        Values::Fixed { width, data } => {
            let size = usize::from(*width);
            let mut picked = Vec::with_capacity(rows.len() * size);
            for &row in rows {
                let start = row as usize * size;
                picked.extend_from_slice(&data[start..start + size]);
            }
            Values::Fixed {
                width: *width,
                data: picked,
            }
        }
        Values::Bytes { ends, data } => {
            let (mut picked_ends, mut picked) = (Vec::with_capacity(rows.len()), Vec::new());
            for &row in rows {
                let row = row as usize;
                let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                datum::extend(&mut picked, &data[start..ends[row] as usize]);
                picked_ends.push(picked.len() as u32);
            }
            Values::Bytes {
                ends: picked_ends,
                data: picked,
            }
        }
    };
    let validity = column
        .validity
        .as_ref()
        .map(|validity| pick(validity, rows))
        .filter(|validity| column.kind == Kind::Absent || validity.iter().any(|valid| !valid));
    Column {
        kind: column.kind,
        values,
        validity,
    }
}
