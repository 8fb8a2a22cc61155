//! Which rows of a set are of one series: series are numbered in the order of their keys, integers numerically, all else bytewise, nulls
//! last, as `row_set::put_ordered` has it. What is kept of a series is a few numbers: a batch may have as many series as rows.

use super::row_set::bytes_at;
use crate::pg::error;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::cmp::Ordering;
use std::hash::Hasher as _;
use varve_columns::column::{Column, Values};

/// The number of each row's series, and how many there are.
pub struct SeriesNumbers {
    pub of_row: Vec<u32>,
    pub count: usize,
}

impl SeriesNumbers {
    /// Those of `rows` rows, by columns that name series: without any, all rows are of one.
    pub fn new(rows: usize, keys: &[&Column]) -> SeriesNumbers {
        if keys.is_empty() || rows <= 1 {
            return SeriesNumbers {
                of_row: vec![0; rows],
                count: usize::from(rows > 0),
            };
        }
        let rarely = error::RareCheck::default();
        let hash = |row: usize| hash(keys, row);
        // First rows of series, in the order in which they come.
        let mut firsts: Vec<u32> = Vec::new();
        let mut known: HashTable<u32> = HashTable::new();
        let mut of_row = Vec::with_capacity(rows);
        for row in 0..rows {
            rarely.check_interrupts();
            let of_key = hash(row);
            let is_same = |&number: &u32| is_same(keys, firsts[number as usize] as usize, row);
            let number = match known.find(of_key, is_same) {
                Some(&number) => number,
                None => {
                    let number = firsts.len() as u32;
                    firsts.push(row as u32);
                    known.insert_unique(of_key, number, |&number| {
                        hash(firsts[number as usize] as usize)
                    });
                    number
                }
            };
            of_row.push(number);
        }
        drop(known);
        let mut sorted: Vec<u32> = (0..firsts.len() as u32).collect();
        sorted.sort_unstable_by(|&a, &b| {
            rarely.check_interrupts();
            let row = |number: u32| firsts[number as usize] as usize;
            compare(keys, row(a), row(b))
        });
        let mut rank = firsts;
        for (at, &number) in sorted.iter().enumerate() {
            rank[number as usize] = at as u32;
        }
        of_row
            .iter_mut()
            .for_each(|number| *number = rank[*number as usize]);
        SeriesNumbers {
            of_row,
            count: rank.len(),
        }
    }
}

fn is_null(column: &Column, row: usize) -> bool {
    let validity = column.validity.as_ref();
    validity.is_some_and(|valid| !valid[row])
}

fn hash(keys: &[&Column], row: usize) -> u64 {
    let mut hasher = FxHasher::default();
    for column in keys {
        if is_null(column, row) {
            hasher.write_u8(1);
            continue;
        }
        match &column.values {
            Values::Absent(_) => {}
            Values::Bool(v) => hasher.write_u8(u8::from(v[row])),
            Values::I16(v) => hasher.write_i16(v[row]),
            Values::I32(v) => hasher.write_i32(v[row]),
            Values::I64(v) => hasher.write_i64(v[row]),
            Values::F32(v) => hasher.write_u32(v[row].to_bits()),
            Values::F64(v) => hasher.write_u64(v[row].to_bits()),
            Values::Fixed { .. } | Values::Bytes { .. } => {
                hasher.write(bytes_at(column, row).unwrap_or_default());
            }
        }
    }
    hasher.finish()
}

fn is_same(keys: &[&Column], a: usize, b: usize) -> bool {
    compare(keys, a, b) == Ordering::Equal
}

fn compare(keys: &[&Column], a: usize, b: usize) -> Ordering {
    let orders = keys.iter().map(|column| compare_values(column, a, b));
    orders
        .into_iter()
        .find(|&order| order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

fn compare_values(column: &Column, a: usize, b: usize) -> Ordering {
    match (is_null(column, a), is_null(column, b)) {
        (false, false) => {}
        (a, b) => return a.cmp(&b),
    }
    match &column.values {
        Values::Absent(_) => Ordering::Equal,
        Values::Bool(v) => v[a].cmp(&v[b]),
        Values::I16(v) => v[a].cmp(&v[b]),
        Values::I32(v) => v[a].cmp(&v[b]),
        Values::I64(v) => v[a].cmp(&v[b]),
        Values::F32(v) => v[a].to_bits().cmp(&v[b].to_bits()),
        Values::F64(v) => (v[a].to_bits() as i64).cmp(&(v[b].to_bits() as i64)),
        Values::Fixed { .. } | Values::Bytes { .. } => {
            bytes_at(column, a).cmp(&bytes_at(column, b))
        }
    }
}
