//! Where the series of a shared chunk are: rows and keys of each, of key columns that are integers. It is made of the key columns once,
//! when a reader is asked for series again and again; from then on a search decodes nothing. Of key columns of any type it can be told where
//! series begin.

use super::read::{Chunk, Damage};
use super::reader::Reader;
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::image;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::column::{Column, Values};
use varve_columns::tuple::header::FLAG_SORTED;

/// The series of a chunk, in ascending order of their keys.
pub struct SeriesRuns {
    /// Key columns of the table, from 0.
    columns: Vec<usize>,
    /// First row of each series, and the number of rows.
    starts: Vec<u32>,
    /// Keys of the series, one after the other.
    keys: Vec<i64>,
    /// The series that was found last: the next one is beside it more often than not.
    last: Cell<usize>,
}

/// A value and the first of the rows that have it.
type Run = (u32, i64);

impl SeriesRuns {
    /// None where a key column is no integer, has nulls, or the series do not ascend.
    pub fn read(reader: &Reader, columns: &[usize]) -> Result<Option<SeriesRuns>, Damage> {
        let chunk = &reader.chunk;
        if columns.is_empty() || !chunk.header.has(FLAG_SORTED) {
            return Ok(None);
        }
        let mut of_columns = Vec::with_capacity(columns.len());
        for &column in columns {
            match runs_of(reader, column)? {
                Some(runs) => of_columns.push(runs),
                None => return Ok(None),
            }
        }
        let first_rows = of_columns.iter().flatten().map(|&(row, _)| row);
        let mut starts: Vec<u32> = first_rows.collect();
        starts.sort_unstable();
        starts.dedup();
        let mut keys = Vec::with_capacity(starts.len() * columns.len());
        let mut at = vec![0; columns.len()];
        for &start in &starts {
            for (runs, at) in of_columns.iter().zip(&mut at) {
                while runs.get(*at + 1).is_some_and(|&(row, _)| row <= start) {
                    *at += 1;
                }
                keys.push(runs[*at].1);
            }
        }
        let mut pairs = keys.chunks(columns.len());
        let mut next = keys.chunks(columns.len()).skip(1);
        let ascends = next.all(|next| pairs.next().is_some_and(|this| this < next));
        starts.push(chunk.header.rows);
        let columns = columns.to_vec();
        Ok(ascends.then_some(SeriesRuns {
            columns,
            starts,
            keys,
            last: Cell::new(0),
        }))
    }

    pub fn is_of(&self, columns: &[usize]) -> bool {
        self.columns == columns
    }

    /// The rows with a key; none where there is no such series.
    pub fn rows(&self, key: &[i64]) -> Range<u32> {
        let last = self.last.get();
        let beside = [last + 1, last.wrapping_sub(1), last];
        let found = beside
            .into_iter()
            .find(|&series| self.key(series) == Some(key));
        let Some(series) = found.or_else(|| self.search(key)) else {
            return 0..0;
        };
        self.last.set(series);
        self.starts[series]..self.starts[series + 1]
    }

    /// The first row of each series.
    pub fn first_rows(&self) -> &[u32] {
        &self.starts[..self.starts.len() - 1]
    }

    fn key(&self, series: usize) -> Option<&[i64]> {
        let width = self.columns.len();
        let start = series.checked_mul(width)?;
        self.keys.get(start..start.checked_add(width)?)
    }

    fn search(&self, key: &[i64]) -> Option<usize> {
        let (mut low, mut high) = (0, self.starts.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < Some(key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (self.key(low) == Some(key)).then_some(low)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        4 * self.starts.capacity() + 8 * self.keys.capacity()
    }
}

/// Runs of equal values of a column.
fn runs_of(reader: &Reader, column: usize) -> Result<Option<Vec<Run>>, Damage> {
    let chunk: &Chunk = &reader.chunk;
    let head = chunk.columns.columns().get(column);
    let Some(head) = head.filter(|head| head.nulls == 0) else {
        return Ok(None);
    };
    let directory = chunk.directory(column)?;
    let mut values: Column = super::datum::empty(head.kind);
    let mut runs: Vec<Run> = Vec::new();
    for block in 0..directory.len() {
        error::check_interrupts();
        let rows = chunk.decode_block(column, &directory, block, &mut values)?;
        match &values.values {
            Values::I16(block) => extend(&mut runs, rows.start, block),
            Values::I32(block) => extend(&mut runs, rows.start, block),
            Values::I64(block) => extend(&mut runs, rows.start, block),
            _ => return Ok(None),
        }
    }
    Ok(Some(runs))
}

fn extend<T: Copy + PartialEq + Into<i64>>(runs: &mut Vec<Run>, first_row: u32, block: &[T]) {
    let Some((&first, rest)) = block.split_first() else {
        return;
    };
    if runs.last().is_none_or(|&(_, value)| value != first.into()) {
        runs.push((first_row, first.into()));
    }
    let mut last = first;
    for (row, &value) in rest.iter().enumerate() {
        if value != last {
            runs.push((first_row + 1 + row as u32, value.into()));
            last = value;
        }
    }
}

/// The first row of each series of a chunk: of each run of equal values of key columns (from 0). It is kept with what has been decoded of the
/// chunk.
///
/// # Safety
/// `descriptor` must be that of the chunk's table.
pub unsafe fn starts_of(
    reader: &Reader,
    descriptor: Descriptor<'_>,
    columns: &[usize],
) -> Result<Rc<[u32]>, Damage> {
    if let Some(starts) = reader.runs(columns) {
        return Ok(starts);
    }
    let mut starts = Vec::new();
    starts.extend((reader.rows() > 0).then_some(0));
    for &column in columns {
        // SAFETY: by contract.
        unsafe { add_changes(reader, descriptor, column, &mut starts)? };
    }
    starts.sort_unstable();
    starts.dedup();
    let starts: Rc<[u32]> = starts.into();
    reader.know_runs(columns, Rc::clone(&starts));
    Ok(starts)
}

/// Adds the rows whose value of a column is not that of the row before.
///
/// # Safety
/// As `starts_of`.
unsafe fn add_changes(
    reader: &Reader,
    descriptor: Descriptor<'_>,
    column: usize,
    starts: &mut Vec<u32>,
) -> Result<(), Damage> {
    let chunk: &Chunk = &reader.chunk;
    // A column that was added later has one value in all rows.
    let Some(head) = chunk.columns.columns().get(column) else {
        return Ok(());
    };
    let attribute = &descriptor.attributes()[column];
    let directory = chunk.directory(column)?;
    let mut values: Column = super::datum::empty(head.kind);
    for block in 0..directory.len() {
        error::check_interrupts();
        let rows = chunk.decode_block(column, &directory, block, &mut values)?;
        let within = 1..rows.len();
        let changes = within.filter(|&row| !values.same_as_before(row));
        starts.extend(changes.map(|row| rows.start + row as u32));
        if let Some(before) = rows.start.checked_sub(1) {
            // SAFETY: by contract. Values of a block that was decoded before stay where they are.
            let same = unsafe {
                let (old, old_null) = reader.value(descriptor, before, column);
                let (new, new_null) = reader.value(descriptor, rows.start, column);
                old_null == new_null && (new_null || image::same_image(old, new, attribute))
            };
            starts.extend((!same).then_some(rows.start));
        }
    }
    Ok(())
}
