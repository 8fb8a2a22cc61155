//! The keys of rows in the order of a unique index, and of the rows' TIDs where keys are equal. A sort of rows and not of index
//! entries, since those have a greatest size: what is looked for are keys that should not be there.

use crate::catalog::layout;
use crate::pg::constraint;
use crate::pg::operator::{self, Strategy};
use crate::pg::own_slot::OwnSlot;
use crate::pg::plain_sort::{Order, PlainSort};
use crate::pg::relation::{Index, Table};
use crate::pg::row_slot::RowSlot;
use crate::pg::tid::{self, Tid};
use crate::pg::types;
use crate::pg::{Datum, InvalidOid};

pub struct KeySort<'a> {
    index: Index<'a>,
    /// The table's columns that make the key, from 1.
    columns: Vec<u16>,
    nulls_are_equal: bool,
    sort: PlainSort,
    /// Key and TID of a row on its way into the sort.
    entering: OwnSlot,
    /// The row that has come out last, and the one before it.
    last: OwnSlot,
    before: OwnSlot,
}

impl<'a> KeySort<'a> {
    /// Begins a sort within `maintenance_work_mem`, in the current memory context. It has to be ended by `end`.
    ///
    /// # Safety
    /// `index` must be a key of columns of `table`; both stay open until then.
    pub unsafe fn begin(table: Table<'_>, index: Index<'a>) -> KeySort<'a> {
        let columns = layout::index_columns(index);
        let mut orders: Vec<_> = (0..columns.len()).map(|at| order(index, at)).collect();
        orders.push(Order {
            operator: operator::TID_LESS,
            collation: InvalidOid,
        });
        // SAFETY: all is of the current memory context. The operators are of the types of the table's columns, which the index has a
        // key of: an index may store others.
        unsafe {
            let row = table.descriptor().with_place(&columns);
            KeySort {
                index,
                columns,
                nulls_are_equal: layout::treats_nulls_as_equal(index),
                sort: PlainSort::begin(row, &orders),
                entering: OwnSlot::for_values(row),
                last: OwnSlot::for_copies(row),
                before: OwnSlot::for_copies(row),
            }
        }
    }

    /// Takes the row in a slot of the table, unless a null in its key makes it equal to none.
    ///
    /// # Safety
    /// The slot must not be empty.
    pub unsafe fn put(&mut self, row: RowSlot) {
        let entering = self.entering.get();
        // SAFETY: the slot shows a row, which the caller sees to, and is one of the table; the slot that enters has a place for each key
        // column and the TID.
        unsafe {
            for (at, &column) in self.columns.iter().enumerate() {
                let value = row.attribute(column as i16);
                entering.set(at, (value.unwrap_or(Datum::null()), value.is_none()));
                if value.is_none() && !self.nulls_are_equal {
                    return;
                }
            }
            entering.set(self.columns.len(), (row.tid_value(), false));
            self.sort.put(entering);
        }
    }

    /// After this comes nothing more in.
    pub fn perform(&mut self) {
        self.sort.perform();
    }

    /// Goes on to the next row whose key the one before it has as well: both, and the key if the user may see it.
    pub fn next_equal(&mut self) -> Option<(Tid, Tid, Option<String>)> {
        let count = self.columns.len();
        // SAFETY: the slots hold copies of their own, which have the key columns and the TID.
        unsafe {
            loop {
                core::mem::swap(&mut self.last, &mut self.before);
                let (before, last) = (self.before.get(), self.last.get());
                if !self.sort.next_into(last) {
                    return None;
                }
                if before.is_empty() {
                    continue;
                }
                let (one, other) = (before.attributes(count + 1), last.attributes(count + 1));
                if (0..count).all(|at| self.is_equal(at, one, other)) {
                    let (values, nulls) = (&other.0[..count], &other.1[..count]);
                    let key = constraint::describe_key(self.index, values, nulls);
                    let place = |row: Row| tid::read(row.0[count].cast_mut_ptr());
                    return Some((place(one), place(other), key));
                }
            }
        }
    }

    /// Have two rows the same value in a key column, from 0?
    ///
    /// # Safety
    /// They must be rows of the sort.
    unsafe fn is_equal(&self, at: usize, one: Row, other: Row) -> bool {
        match (one.1[at], other.1[at]) {
            // SAFETY: values of the key's column; a key is kept by nbtree's functions.
            (false, false) => unsafe { self.index.compare(at, one.0[at], other.0[at]) == 0 },
            (one_is_null, other_is_null) => one_is_null && other_is_null,
        }
    }

    pub fn end(self) {
        self.sort.end();
    }
}

/// Values of a row, and which of them are null.
type Row<'a> = (&'a [Datum], &'a [bool]);

/// What a key column of an index, from 0, is ordered by.
fn order(index: Index<'_>, at: usize) -> Order {
    let (family, of) = (index.operator_family(at), index.input_type(at));
    Order {
        operator: types::operator(family, of, Strategy::Less.number()),
        collation: index.collation(at),
    }
}
