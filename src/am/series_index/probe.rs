//! Looking one key and time up in the chunks of a table, by a series index: the rows that a snapshot sees,
//! and nothing else. It is no reading in the sense of serializable transactions. Bounds of headers, then of
//! blocks, answer for most chunks; what is left is one block each of time and key columns.

use super::entries::Shape;
use super::quals::Quals;
use super::rows::{candidates, View};
use super::section::is_null;
use crate::pg::error;
use crate::pg::nbtree::EntryScan;
use crate::pg::tid::Tid;
use crate::storage::read::Reader;
use crate::storage::registry;
use crate::table::series;
use pgrx::pg_sys;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// A row of a chunk.
pub type Place = (Rc<Reader>, u32);

/// Rows of chunks with the given values in the columns of a series index, as `snapshot` sees the chunks' headers: those that
/// their delete maps have not. `values` are of the index's column types, none of them null.
///
/// # Safety
/// `table` and `index` must be open; `snapshot` must be registered.
pub unsafe fn rows_at(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    values: &[pg_sys::Datum],
    snapshot: pg_sys::Snapshot,
) -> Vec<Place> {
    // SAFETY: by contract; quals and scan do not outlive this call.
    unsafe {
        let shape = Shape::new(index);
        let keys = equalities(index, values);
        let quals = Quals::new(index, &keys, pg_sys::CurrentMemoryContext);
        let mut probe = Probe {
            table,
            view: View {
                shape: &shape,
                quals: &quals,
                descriptor: (*table).rd_att,
            },
            time: shape.time_of(values[shape.key_columns()], false).1,
            snapshot,
            seen: Vec::new(),
            found: Vec::new(),
        };
        let columns = shape.columns.len();
        // Entries carry real TIDs only for tail rows: nothing is fetched by them. Any snapshot will do.
        let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
        let mut entries = EntryScan::begin(index, any, 4 * columns + 4);
        let nulls: Vec<_> = (1..=columns).map(is_null).collect();
        probe.look_under(&mut entries, &nulls);
        if shape.key_columns() > 0 {
            for mut first in quals.first_keys() {
                first.extend((2..=columns).map(is_null));
                probe.look_under(&mut entries, &first);
            }
        }
        probe.look_from(&mut entries, &quals.keys_of(0));
        entries.end();
        probe.found
    }
}

/// `column = value` for each column of the index.
unsafe fn equalities(
    index: pg_sys::Relation,
    values: &[pg_sys::Datum],
) -> Vec<pg_sys::ScanKeyData> {
    let strategy = pg_sys::BTEqualStrategyNumber as u16;
    // SAFETY: the caller's contract; the arrays have an entry for each column.
    unsafe {
        let key = |(at, &value): (usize, &pg_sys::Datum)| {
            let class = *(*index).rd_opcintype.add(at);
            let family = *(*index).rd_opfamily.add(at);
            let operator = pg_sys::get_opfamily_member(family, class, class, strategy as i16);
            let mut key = pg_sys::ScanKeyData::default();
            pg_sys::ScanKeyEntryInitialize(
                &mut key,
                0,
                at as i16 + 1,
                strategy,
                class,
                *(*index).rd_indcollation.add(at),
                pg_sys::get_opcode(operator),
                value,
            );
            key
        };
        values.iter().enumerate().map(key).collect()
    }
}

struct Probe<'a> {
    table: pg_sys::Relation,
    view: View<'a>,
    time: i64,
    snapshot: pg_sys::Snapshot,
    /// Headers that have been looked at: a chunk can have several entries.
    seen: Vec<Tid>,
    found: Vec<Place>,
}

impl Probe<'_> {
    /// Looks at the chunks of all entries that `keys` select.
    unsafe fn look_under(&mut self, entries: &mut EntryScan, keys: &[pg_sys::ScanKeyData]) {
        // SAFETY: the caller's contract.
        unsafe {
            entries.restart(keys);
            while let Some((entry, _)) = entries.next(true) {
                error::check_interrupts();
                if let Some(header) = series::header_of_entry(entry) {
                    self.look_at(header);
                }
            }
        }
    }

    /// Looks at the keyed chunks that can have the time: those that end at it, and the first one that ends behind it, or several
    /// that end at the same time.
    unsafe fn look_from(&mut self, entries: &mut EntryScan, keys: &[pg_sys::ScanKeyData]) {
        let last = self.view.shape.key_columns();
        let mut values = vec![pg_sys::Datum::from(0usize); last + 1];
        let mut nulls = vec![true; last + 1];
        // SAFETY: the caller's contract; the tuple stays until the next one is asked for.
        unsafe {
            entries.restart(keys);
            let mut last_end = None;
            while let Some((entry, tuple)) = entries.next(true) {
                error::check_interrupts();
                let Some(header) = series::header_of_entry(entry) else {
                    continue;
                };
                let descriptor = (*self.view.shape.index).rd_att;
                let (to, null) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                pg_sys::index_deform_tuple(tuple, descriptor, to, null);
                let end = self.view.shape.time_of(values[last], nulls[last]);
                if last_end.is_some_and(|last_end| last_end != end) {
                    break;
                }
                if self.look_at(header) && end > (false, self.time) {
                    last_end = Some(end);
                }
            }
        }
    }

    /// Looks into a chunk; false where the snapshot does not see it.
    unsafe fn look_at(&mut self, header: Tid) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            let reader = registry::reader_for_check(self.table, header, self.snapshot);
            let Some(reader) = reader else {
                return false;
            };
            if !self.seen.contains(&header) {
                self.seen.push(header);
                if !reader.chunk.header.has(FLAG_TOMBSTONE) {
                    self.look_into(&reader);
                }
            }
            true
        }
    }

    unsafe fn look_into(&mut self, reader: &Rc<Reader>) {
        let (view, shape) = (self.view, self.view.shape);
        // SAFETY: the caller's contract.
        unsafe {
            for rows in candidates(reader, view) {
                for row in rows {
                    let (value, isnull) = reader.value(view.descriptor, row, shape.time_column());
                    let fits = shape.time_of(value, isnull) == (false, self.time)
                        && view.quals.keys_hold(|column| {
                            reader.value(view.descriptor, row, shape.columns[column])
                        })
                        && !reader.chunk.map.contains(row);
                    if fits {
                        self.found.push((Rc::clone(reader), row));
                    }
                }
            }
        }
    }
}
