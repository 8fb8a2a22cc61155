//! Entries of the series indexes of a table: one per tail row, one per chunk. A chunk of one series is
//! entered as (key, its greatest time); any other under the NULL key, where every scan looks.

use crate::pg::relation::{self, Open};
use crate::pg::tid::{self, Tid};
use crate::storage::layout;
use crate::storage::read::{Chunk, Reader};
use pgrx::pg_sys;
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED};

unsafe extern "C-unwind" {
    fn btinsert(
        index: pg_sys::Relation,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
        item: pg_sys::ItemPointer,
        table: pg_sys::Relation,
        check: pg_sys::IndexUniqueCheck::Type,
        unchanged: bool,
        info: *mut pg_sys::IndexInfo,
    ) -> bool;
}

/// The open series indexes of a table.
pub struct SeriesIndexes {
    table: pg_sys::Relation,
    indexes: Vec<Open>,
}

impl SeriesIndexes {
    /// Opens them for inserting.
    ///
    /// # Safety
    /// `table` must be open for writing.
    pub unsafe fn open(table: pg_sys::Relation) -> SeriesIndexes {
        let series = layout::index_am();
        // SAFETY: by contract.
        let indexes = unsafe {
            relation::index_oids(table)
                .into_iter()
                .map(|oid| Open::index(oid, pg_sys::RowExclusiveLock))
                .filter(|index| (*(*index.rel()).rd_rel).relam == series)
                .collect()
        };
        SeriesIndexes { table, indexes }
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Enters a tail row whose columns are `values` and `nulls`.
    ///
    /// # Safety
    /// Both must have an entry for each column of the table.
    pub unsafe fn enter_row(&self, values: &[pg_sys::Datum], nulls: &[bool], at: Tid) {
        for index in &self.indexes {
            // SAFETY: the index is open.
            let columns = unsafe { key_columns(index.rel()) };
            let mut entry: Vec<_> = columns.iter().map(|&column| values[column]).collect();
            let mut null: Vec<_> = columns.iter().map(|&column| nulls[column]).collect();
            self.insert(index.rel(), &mut entry, &mut null, at);
        }
    }

    /// Enters the header at `at` of a chunk.
    pub fn enter_header(&self, chunk: &Reader, at: Tid) {
        for index in &self.indexes {
            // SAFETY: the index and its table are open.
            let (mut values, mut nulls) = unsafe { header_entry(self.table, index.rel(), chunk) };
            self.insert(index.rel(), &mut values, &mut nulls, at);
        }
    }

    fn insert(
        &self,
        index: pg_sys::Relation,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
        at: Tid,
    ) {
        let mut item = tid::to_pg(at);
        // SAFETY: a series index has nbtree's pages, and its operator classes nbtree's procedures.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                btinsert(
                    index,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                    &mut item,
                    self.table,
                    pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                    false,
                    core::ptr::null_mut(),
                )
            });
        }
    }
}

/// Key columns of an index, from 0.
unsafe fn key_columns(index: pg_sys::Relation) -> Vec<usize> {
    // SAFETY: the caller's contract.
    unsafe {
        let form = (*index).rd_index;
        let count = (*form).indnkeyatts as usize;
        let columns = core::slice::from_raw_parts((*form).indkey.values.as_ptr(), count);
        columns.iter().map(|&number| number as usize - 1).collect()
    }
}

/// Values under which an index enters a chunk: (key, greatest time) when the chunk holds one series of
/// this index's key, all NULL otherwise.
///
/// # Safety
/// `table` and `index` must be open.
pub unsafe fn header_entry(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    reader: &Reader,
) -> (Vec<pg_sys::Datum>, Vec<bool>) {
    // SAFETY: by contract.
    unsafe {
        let columns = key_columns(index);
        let chunk = &reader.chunk;
        if !is_keyed(chunk, &columns) {
            return (
                vec![pg_sys::Datum::from(0usize); columns.len()],
                vec![true; columns.len()],
            );
        }
        let descriptor = (*table).rd_att;
        let (time, keys) = columns.split_last().expect("BUG: an index without columns");
        let (mut values, mut nulls): (Vec<_>, Vec<_>) = keys
            .iter()
            .map(|&key| reader.value(descriptor, 0, key))
            .unzip();
        let attribute = &relation::attributes(descriptor)[*time];
        values.push(time_datum(chunk.header.max_time, attribute.attlen));
        nulls.push(false);
        (values, nulls)
    }
}

/// Does the chunk hold one series of an index over `columns` (from 0, the last is time)?
fn is_keyed(chunk: &Chunk, columns: &[usize]) -> bool {
    let header = &chunk.header;
    let own: Vec<usize> = chunk
        .statics
        .keys
        .iter()
        .chain(chunk.statics.time.iter())
        .map(|&number| usize::from(number) - 1)
        .collect();
    header.has(FLAG_ONE_SERIES)
        && header.has(FLAG_SORTED)
        && !header.has(FLAG_UNKEYED)
        && !header.has(FLAG_TOMBSTONE)
        && own == columns
}

/// A time as a datum of an attribute of `length` bytes.
pub fn time_datum(time: i64, length: i16) -> pg_sys::Datum {
    let value = match length {
        2 => i64::from(time as i16),
        4 => i64::from(time as i32),
        _ => time,
    };
    pg_sys::Datum::from(value as usize)
}

/// Enters a chunk's header at `at` into all series indexes of its table.
pub fn index_header(table: pg_sys::Relation, chunk: &Reader, at: Tid) {
    // SAFETY: the table is open for writing.
    unsafe { SeriesIndexes::open(table) }.enter_header(chunk, at);
}
