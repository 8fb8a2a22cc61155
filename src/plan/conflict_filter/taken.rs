//! Asking whether a row's key is taken by a compressed row: as core's check would find it, but with everything opened once for a
//! statement, and without waiting: what is uncertain is left to core.

use crate::catalog::keys::{self, Keys};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::relation::{Index, Table};
use crate::pg::slot::Slot;
use crate::pg::{Datum, Oid, INDEX_MAX_KEYS};
use crate::series_index::entries::IndexDesc;
use crate::unique::find::{self, Key, Look, Search, FEW};
use crate::unique::key_cache::Moment;
use smallvec::SmallVec;
use std::rc::Rc;

/// The keys of a table. Its relations are closed by `close` alone: an error has them closed by their resource owner.
pub struct Taken {
    table: Table<'static>,
    keys: Rc<Keys>,
    sides: Vec<Side>,
    /// Columns, from 0, whose nulls are errors.
    not_null: Vec<usize>,
    /// So many columns of a row are looked at.
    columns: usize,
}

/// A unique index, with the series index that finds its keys.
struct Side {
    /// Among the table's unique indexes.
    at: usize,
    index: Index<'static>,
    desc: IndexDesc<'static>,
}

impl Taken {
    /// # Safety
    /// The table must be locked; `indexes` are unique ones of it.
    pub unsafe fn open(table: Oid, indexes: &[Oid]) -> Taken {
        let lock = LockMode::AccessShare;
        // SAFETY: by contract; what is open stays open until `close`.
        unsafe {
            let table = Open::table(table, LockMode::Held).leak();
            let keys = keys::of(table);
            let sides = keys.unique.iter().enumerate().filter_map(|(at, unique)| {
                let (series, _) = unique.series.as_ref()?;
                indexes.contains(&unique.index).then(|| Side {
                    at,
                    index: OpenIndex::open(unique.index, lock).leak(),
                    desc: IndexDesc::new(OpenIndex::open(*series, lock).leak()),
                })
            });
            let sides: Vec<Side> = sides.collect();
            let attributes = table.attributes().iter().enumerate();
            let not_null = attributes.filter(|(_, attribute)| attribute.attnotnull);
            let not_null: Vec<usize> = not_null.map(|(column, _)| column).collect();
            let of_keys = sides.iter().flat_map(|side| &keys.unique[side.at].columns);
            let last = of_keys.chain(&not_null).max();
            Taken {
                table,
                columns: last.map_or(0, |&last| last + 1),
                sides,
                not_null,
                keys,
            }
        }
    }

    /// Closes what is open.
    pub fn close(self) {
        for Side { index, desc, .. } in self.sides {
            // SAFETY: opened by `open`; the locks stay.
            unsafe {
                drop(OpenIndex::of_leaked(desc.index));
                drop(OpenIndex::of_leaked(index));
            }
        }
        // SAFETY: as above.
        drop(unsafe { Open::of_leaked(self.table) });
    }

    /// Has a compressed row a key of this row, whose change nobody is about?
    ///
    /// # Safety
    /// `row` must be one of the table's columns.
    pub unsafe fn has_key_of(&self, row: Slot<'_>) -> bool {
        // SAFETY: by contract.
        unsafe {
            if !self.keys.has_chunks(self.table) {
                return false;
            }
            let (values, nulls) = row.first_attributes(self.columns);
            if self.not_null.iter().any(|&column| nulls[column]) {
                return false;
            }
            // To look for one key may take another snapshot, and so end a moment.
            self.sides
                .iter()
                .any(|side| self.is_taken(side, values, nulls, Moment::now()))
        }
    }

    /// The same of the keys of one index.
    ///
    /// # Safety
    /// As `has_key_of`; `values` and `nulls` must have the columns of the row that are looked at, and `moment` be of now.
    unsafe fn is_taken(
        &self,
        side: &Side,
        values: &[Datum],
        nulls: &[bool],
        moment: Moment,
    ) -> bool {
        let unique = &self.keys.unique[side.at];
        if unique.columns.iter().any(|&column| nulls[column]) {
            return false;
        }
        let of_key = unique.columns.iter().map(|&column| values[column]);
        let of_key: SmallVec<[_; FEW]> = of_key.collect();
        let key = Key {
            values: &of_key,
            nulls: &[false; INDEX_MAX_KEYS as usize][..of_key.len()],
            columns: (0..of_key.len()).collect(),
        };
        let search = Search {
            table: self.table,
            index: side.index,
            waits: false,
        };
        // SAFETY: the caller's contract.
        let look = unsafe { find::look_by(search, unique, &side.desc, &key, moment) };
        matches!(look, Some(Look::Taken(_)))
    }
}
