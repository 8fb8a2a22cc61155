//! Where the series of a shared chunk are: rows and keys of each, of key columns that are integers. It is made of the key columns once,
//! when a reader is asked for series again and again; from then on a search decodes nothing.

use super::read::{Chunk, Damage};
use super::reader::Reader;
use crate::pg::error;
use std::ops::Range;
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
        }))
    }

    pub fn is_of(&self, columns: &[usize]) -> bool {
        self.columns == columns
    }

    /// The rows with a key; none where there is no such series.
    pub fn rows(&self, key: &[i64]) -> Range<u32> {
        let width = self.columns.len();
        let (mut low, mut high) = (0, self.starts.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.keys[middle * width..][..width] < *key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let is_found = self.keys.get(low * width..(low + 1) * width) == Some(key);
        if is_found {
            self.starts[low]..self.starts[low + 1]
        } else {
            0..0
        }
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
