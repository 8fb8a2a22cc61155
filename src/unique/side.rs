//! The rows of a batch as one unique index has them: their keys, in series and by time.

use super::series_key::{bytes_of, Bytes};
use crate::catalog::keys::Unique;
use crate::catalog::layout::{self, Layout};
use crate::chunk::datum::Datums;
use crate::chunk::row_set::{Order, RowSet};
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::nbtree;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::Datum;
use crate::series_index::entries::IndexDesc;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::hash::BuildHasher as _;
use std::rc::Rc;

pub struct Side<'a> {
    table: Table<'a>,
    /// Number of the index in `Keys::unique`.
    pub number: usize,
    /// The unique index.
    pub index: OpenIndex,
    /// The series index that finds its keys in chunks.
    pub series: OpenIndex,
    /// Where in the key that one's columns are, time last.
    places: Vec<usize>,
    /// The series indexes that settle the key besides, and where in the key their columns are.
    pub companions: Vec<(OpenIndex, Vec<usize>)>,
    /// The unique index has entries of rows.
    pub has_btree: bool,
    columns: Vec<Datums>,
    /// Columns of the index's entries beyond its key.
    included: Vec<Datums>,
    pub order: Rc<Order>,
    /// Numbers of series by their keys: hashes of `bytes_of` them.
    by_key: OnceCell<HashTable<u32>>,
}

impl<'a> Side<'a> {
    /// The rows as `unique` has them, which must have a series index; `order` is theirs by `layout`. None for an index that is
    /// not ready for rows yet.
    ///
    /// # Safety
    /// `table` must be open for writing, and `unique` of it.
    pub unsafe fn new(
        table: Table<'a>,
        (number, unique): (usize, &Unique),
        rows: &RowSet,
        (layout, order): (&Layout, &Rc<Order>),
    ) -> Option<Side<'a>> {
        let (series, places) = unique.series.as_ref()?;
        let index = OpenIndex::open(unique.index, LockMode::RowExclusive);
        if !index.rel().form().indisready {
            return None;
        }
        let attributes = table.attributes();
        let datums =
            |&column: &usize| Datums::from_column(&rows.columns[column], attributes[column].attlen);
        // What an index includes is columns, no expressions.
        let all = layout::all_index_columns(index.rel());
        let included = all[unique.columns.len()..]
            .iter()
            .map(|&number| usize::from(number) - 1);
        let mut keys: Vec<u16> = places
            .iter()
            .map(|&place| unique.columns[place] as u16 + 1)
            .collect();
        let own = Layout {
            time: keys.pop(),
            keys,
        };
        let same = own == *layout;
        Some(Side {
            table,
            number,
            index,
            series: OpenIndex::open(*series, LockMode::AccessShare),
            places: places.clone(),
            companions: unique
                .companions
                .iter()
                .map(|companion| {
                    let index = OpenIndex::open(companion.index, LockMode::RowExclusive);
                    (index, companion.places.clone())
                })
                .collect(),
            // Batches bring chunks.
            has_btree: !unique.does_without_btree(true),
            columns: unique.columns.iter().map(datums).collect(),
            included: included.map(|column| datums(&column)).collect(),
            order: if same {
                Rc::clone(order)
            } else {
                Rc::new(rows.order(&own))
            },
            by_key: OnceCell::new(),
        })
    }

    /// The indexes whose entries lead to all rows of the tail, by the columns of the key: a series index, the unique index, or both of them while the
    /// series index is not complete. Where it is a series index, with the places of its columns in the key.
    pub fn settling(&self) -> impl Iterator<Item = (Index<'_>, Option<&[usize]>)> {
        let is_valid = |(series, _): &&(OpenIndex, _)| series.rel().form().indisvalid;
        let complete = self.companions.iter().find(is_valid);
        let is_complete = complete.is_some();
        let companion = complete.or(self.companions.first());
        let series = companion.map(|(series, places)| (series.rel(), Some(places.as_slice())));
        let unique = (!is_complete).then(|| (self.index.rel(), None));
        series.into_iter().chain(unique)
    }

    /// Values and nulls of a row's entry in a series index that settles the key.
    pub fn entry_of(&self, row: u32, places: &[usize]) -> (Vec<Datum>, Vec<bool>) {
        let column = |&place: &usize| self.columns[place].get(row as usize);
        places.iter().map(column).unzip()
    }

    /// Values and nulls of a row's key.
    pub fn key(&self, row: u32) -> (Vec<Datum>, Vec<bool>) {
        let value = |column: &Datums| column.get(row as usize);
        self.columns.iter().map(value).unzip()
    }

    /// Values and nulls of a row's entry.
    pub fn entry(&self, row: u32) -> (Vec<Datum>, Vec<bool>) {
        let columns = self.columns.iter().chain(&self.included);
        columns.map(|column| column.get(row as usize)).unzip()
    }

    /// Raises the error that btree would raise for a row whose entry it could not take.
    pub fn expect_short(&self) {
        let attributes = self.index.rel().attributes();
        if attributes.iter().all(|attribute| attribute.attlen > 0) {
            return;
        }
        for &row in &self.order.rows {
            error::check_interrupts();
            let (mut values, mut nulls) = self.entry(row);
            // SAFETY: values of the index's columns.
            unsafe { nbtree::expect_short(self.index.rel(), &mut values, &mut nulls) };
        }
    }

    /// Has the row a key that another may not have: one without a null?
    pub fn is_whole(&self, row: u32) -> bool {
        self.columns
            .iter()
            .all(|column| !column.get(row as usize).1)
    }

    /// The rows of a series, by number: those that have a time, in its order. None where the series has a null in its key.
    pub fn series(&self, number: usize) -> Option<(Vec<Datum>, &[u32])> {
        let rows = &self.order.rows[self.order.of_series(number)];
        let (time, keys) = self.places.split_last()?;
        let first = *rows.first()?;
        let value = |&place: &usize| {
            let (value, isnull) = self.columns[place].get(first as usize);
            (!isnull).then_some(value)
        };
        let key = keys.iter().map(value).collect::<Option<Vec<_>>>()?;
        let timed = rows.partition_point(|&row| !self.columns[*time].get(row as usize).1);
        (timed > 0).then_some((key, &rows[..timed]))
    }

    /// The time of a row that has one.
    pub fn time(&self, row: u32) -> Datum {
        let place = *self.places.last().expect("BUG: an index without columns");
        self.columns[place].get(row as usize).0
    }

    /// The first row that has the key of one before it.
    pub fn twin(&self, desc: &IndexDesc) -> Option<u32> {
        let rarely = error::RareCheck::default();
        let mut first: Option<u32> = None;
        for number in 0..self.order.series() {
            let Some((_, rows)) = self.series(number) else {
                continue;
            };
            let time = |row: &u32| desc.time_of(self.time(*row), false);
            for same in rows.chunk_by(|a, b| time(a) == time(b)) {
                rarely.check_interrupts();
                if same.len() == 1 {
                    continue;
                }
                let mut same: Vec<u32> = same
                    .iter()
                    .copied()
                    .filter(|&row| self.is_whole(row))
                    .collect();
                same.sort_by(|&a, &b| {
                    rarely.check_interrupts();
                    self.compare(&self.key(a).0, b)
                });
                for pair in same.windows(2) {
                    if self.compare(&self.key(pair[0]).0, pair[1]) == Ordering::Equal {
                        let later = pair[0].max(pair[1]);
                        first = Some(first.map_or(later, |first| first.min(later)));
                    }
                }
            }
        }
        first
    }

    /// The row that has a key without nulls, of the index's columns.
    pub fn find(&self, desc: &IndexDesc, key: &[Datum]) -> Option<u32> {
        let series: Vec<_> = self.places.iter().map(|&place| key[place]).collect();
        let (time, series) = series.split_last()?;
        // SAFETY: values are of the table's columns.
        let bytes = unsafe { bytes_of(self.table, &desc.columns, series) };
        let is_same = |&number: &u32| self.series_bytes(desc, number).as_ref() == Some(&bytes);
        let number = *self.by_key(desc).find(hash(&bytes), is_same)?;
        let (_, rows) = self.series(number as usize)?;
        let at = desc.time_of(*time, false);
        let time_of = |row: u32| desc.time_of(self.time(row), false);
        let from = rows.partition_point(|&row| time_of(row) < at);
        rows[from..]
            .iter()
            .take_while(|&&row| time_of(row) == at)
            .copied()
            .find(|&row| self.is_whole(row) && self.compare(key, row) == Ordering::Equal)
    }

    fn by_key(&self, desc: &IndexDesc) -> &HashTable<u32> {
        self.by_key.get_or_init(|| {
            let of_series = |&number: &u32| {
                let bytes = self.series_bytes(desc, number);
                hash(&bytes.expect("BUG: a series without a key was entered"))
            };
            let mut table = HashTable::with_capacity(self.order.series());
            for number in 0..self.order.series() as u32 {
                error::check_interrupts();
                if let Some(bytes) = self.series_bytes(desc, number) {
                    table.insert_unique(hash(&bytes), number, of_series);
                }
            }
            table
        })
    }

    /// What tells the key of a series from others, by its number. None where it has a null.
    fn series_bytes(&self, desc: &IndexDesc, number: u32) -> Option<Bytes> {
        let (key, _) = self.series(number as usize)?;
        // SAFETY: values are of the table's columns.
        Some(unsafe { bytes_of(self.table, &desc.columns, &key) })
    }

    /// The order of a key and a row's, neither with a null.
    fn compare(&self, key: &[Datum], row: u32) -> Ordering {
        for (at, (&value, column)) in key.iter().zip(&self.columns).enumerate() {
            // SAFETY: the index is open, and has an order for each of its columns.
            let order = unsafe {
                let other = column.get(row as usize).0;
                self.index.rel().compare(at, value, other)
            };
            if order != 0 {
                return order.cmp(&0);
            }
        }
        Ordering::Equal
    }
}

fn hash(bytes: &Bytes) -> u64 {
    FxBuildHasher.hash_one(bytes)
}
