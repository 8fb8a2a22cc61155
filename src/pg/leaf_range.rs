//! How items of an index with nbtree's pages compare with a range of entries.

use super::bare;
use super::leaves::Item;
use super::page::Page;
use super::relation::Index;
use super::stored_value::{alignment, value_at};
use super::varlena;
use pgrx::pg_sys;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

const ORDER_FUNCTION: u16 = 1;

/// Entries whose first columns have these values, or are null, and whose next column lies within a span.
pub struct Range<'a> {
    pub first: &'a [Option<pg_sys::Datum>],
    /// The least value and the greatest one; without that, all that are greater; but for null.
    pub span: Option<(pg_sys::Datum, Option<pg_sys::Datum>)>,
    /// With a span: those whose next column is null are within it, too.
    pub with_nulls: bool,
}

/// A range of entries of one index, and what is known of its columns.
pub(super) struct Wanted<'a> {
    pub index: Index<'a>,
    range: Range<'a>,
    columns: SmallVec<[Column; 4]>,
    /// Columns of the index.
    all_columns: usize,
    /// Items that scans have found dead count.
    pub also_dead: bool,
}

/// A column of an index.
struct Column {
    length: i16,
    by_value: bool,
    /// Bytes that its values are aligned to.
    alignment: usize,
    /// Its values are compared as integers.
    is_integer: bool,
}

impl<'a> Wanted<'a> {
    /// None where the index is in another order than the one that is known here: ascending, nulls last.
    ///
    /// # Safety
    /// `index` must be open, and have nbtree's pages; `range` of its columns, of which it has as many.
    pub unsafe fn new(index: Index<'a>, range: Range<'a>) -> Option<Wanted<'a>> {
        // SAFETY: by contract; the arrays have an entry for each key column.
        unsafe {
            let form = index.form();
            let all_columns = form.indnkeyatts as usize;
            let is_known = (0..all_columns).all(|at| *(*index.as_ptr()).rd_indoption.add(at) == 0);
            if !is_known || form.indnatts != form.indnkeyatts {
                return None;
            }
            let count = range.first.len() + usize::from(range.span.is_some());
            let attributes = index.attributes().iter().enumerate();
            let column = |(at, attribute): (usize, &pg_sys::FormData_pg_attribute)| Column {
                length: attribute.attlen,
                by_value: attribute.attbyval,
                alignment: alignment(attribute.attalign),
                is_integer: index.orders_integers(at),
            };
            Some(Wanted {
                index,
                columns: attributes.take(count).map(column).collect(),
                range,
                all_columns,
                also_dead: bare::TransactionStartedDuringRecovery(),
            })
        }
    }

    /// A number for the index's file, what the first columns are, and how many entries are asked for at most.
    pub fn hash(&self, most: usize) -> u64 {
        let mut hasher = FxHasher::default();
        most.hash(&mut hasher);
        (self.range.span.is_some(), self.range.with_nulls).hash(&mut hasher);
        // SAFETY: the index is open, the values of its columns.
        unsafe {
            self.index.file_number().to_u32().hash(&mut hasher);
            for (value, column) in self.range.first.iter().zip(&self.columns) {
                match *value {
                    None => {}
                    Some(value) if column.by_value => (1u8, value.value()).hash(&mut hasher),
                    Some(value) if column.length > 0 => {
                        let start: *const u8 = value.cast_mut_ptr();
                        core::slice::from_raw_parts(start, column.length as usize)
                            .hash(&mut hasher);
                    }
                    Some(value) => {
                        varlena::with_body(value, column.length, |body| body.hash(&mut hasher));
                    }
                }
            }
        }
        hasher.finish()
    }

    /// The value of the column of the span, or that it is null, of an entry of the range on a page that is pinned and locked. None where it is passed by
    /// reference, or the entry cannot be read.
    pub fn value_of_span(&self, page: &Page, offset: u16) -> Option<Option<pg_sys::Datum>> {
        let item = Item::of(page.stored(offset)?)?;
        let span = self.range.first.len();
        let column = self.columns.get(span).filter(|column| column.by_value)?;
        let mut values = Values::of(&item)?;
        if item.is_null(span) {
            return Some(None);
        }
        // SAFETY: the page is pinned and locked; what is read lies within the item.
        unsafe {
            for (value, column) in self.range.first.iter().zip(&self.columns) {
                if value.is_some() {
                    values.next(column)?;
                }
            }
            values.next(column).map(Some)
        }
    }

    /// How an item of a page that is pinned and locked compares with the entries, by the order of the index: a column that a pivot has not
    /// comes before all values. None where there is no such item, or it cannot be read.
    pub fn order(&self, page: &Page, offset: u16) -> Option<Ordering> {
        let item = Item::of(page.stored(offset)?)?;
        let mut values = Values::of(&item)?;
        let is_null = |at| item.is_null(at);
        let kept = item.pivot_columns().unwrap_or(self.all_columns);
        // SAFETY: the page is pinned and locked; what is read lies within the item.
        unsafe {
            for (at, column) in self.columns.iter().enumerate() {
                if at >= kept {
                    return Some(Ordering::Less);
                }
                let order = match self.range.first.get(at) {
                    Some(None) if is_null(at) => Ordering::Equal,
                    Some(None) => return Some(Ordering::Less),
                    None if is_null(at) && self.range.with_nulls => Ordering::Equal,
                    _ if is_null(at) => return Some(Ordering::Greater),
                    Some(&Some(wanted)) => self.compare(at, values.next(column)?, wanted),
                    None => {
                        let (least, greatest) = self.range.span?;
                        let stored = values.next(column)?;
                        let is_behind =
                            |greatest| self.compare(at, stored, greatest) == Ordering::Greater;
                        match self.compare(at, stored, least) {
                            Ordering::Less => Ordering::Less,
                            _ if greatest.is_some_and(is_behind) => Ordering::Greater,
                            _ => Ordering::Equal,
                        }
                    }
                };
                if order != Ordering::Equal {
                    return Some(order);
                }
            }
            Some(Ordering::Equal)
        }
    }

    /// Order of two values of a column, from 0.
    ///
    /// # Safety
    /// Both must be of the column's type: `a` on a page that is pinned and locked, `b` a value of the range.
    unsafe fn compare(&self, at: usize, a: pg_sys::Datum, b: pg_sys::Datum) -> Ordering {
        let column = &self.columns[at];
        if column.is_integer {
            let integer = |value: pg_sys::Datum| match column.length {
                2 => i64::from(value.value() as i16),
                4 => i64::from(value.value() as i32),
                _ => value.value() as i64,
            };
            return integer(a).cmp(&integer(b));
        }
        // SAFETY: the index is open, the values of its column. nbtree calls the function under the same lock.
        unsafe {
            let function =
                pg_sys::index_getprocinfo(self.index.as_ptr(), at as i16 + 1, ORDER_FUNCTION);
            let collation = self.index.collation(at);
            let order = pg_sys::FunctionCall2Coll(function, collation, a, b);
            (order.value() as i32).cmp(&0)
        }
    }
}

/// The values of an item, one after the other; nulls have none.
struct Values {
    start: *const u8,
    length: usize,
    at: usize,
}

impl Values {
    /// None where the item has no room for them.
    fn of(item: &Item<'_>) -> Option<Values> {
        let (start, length) = item.body()?;
        let at = 0;
        Some(Values { start, length, at })
    }

    /// The next one, of a column; by-reference ones point to the page. None where it does not lie within the item.
    ///
    /// # Safety
    /// The item must be pinned and locked, and of the column's index.
    unsafe fn next(&mut self, column: &Column) -> Option<pg_sys::Datum> {
        // SAFETY: by contract; nothing is read beyond the item's bytes.
        unsafe {
            let aligned = self.at.next_multiple_of(column.alignment);
            // A short one begins where the one before it ends: bytes that align are 0.
            let is_short =
                column.length == -1 && self.at < self.length && self.start.add(self.at).read() != 0;
            let from = if is_short { self.at } else { aligned };
            let value = self.start.add(from);
            let bytes = match column.length {
                1.. => column.length as usize,
                -1 if from < self.length => pgrx::varsize_any(value.cast()),
                _ => return None,
            };
            self.at = from.checked_add(bytes).filter(|&end| end <= self.length)?;
            Some(value_at(value, column.length, column.by_value))
        }
    }
}
