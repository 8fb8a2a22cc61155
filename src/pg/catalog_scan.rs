//! Scans of catalogs, and of tables of ours that are kept like catalogs: heaps whose rows are found by plain columns.

use super::relation::Table;
use super::snapshot::Snapshot;
use super::tid::{self, Tid};
use super::tuple::{self, Formed, Inserter};
use core::marker::PhantomData;
use pgrx::pg_sys::{self, Datum, ItemPointerData, Oid, TransactionId};

/// A condition on a column, from 1, of a type that is passed by value.
#[derive(Clone, Copy)]
pub struct Key {
    column: i16,
    strategy: u32,
    function: u32,
    value: Datum,
}

impl Key {
    fn new(column: i32, strategy: u32, function: u32, value: Datum) -> Key {
        Key {
            column: column as i16,
            strategy,
            function,
            value,
        }
    }

    pub fn oid(column: i32, is: Oid) -> Key {
        let strategy = pg_sys::BTEqualStrategyNumber;
        Key::new(column, strategy, pg_sys::F_OIDEQ, is.into())
    }

    pub fn int4(column: i32, is: i32) -> Key {
        let strategy = pg_sys::BTEqualStrategyNumber;
        Key::new(column, strategy, pg_sys::F_INT4EQ, is.into())
    }

    pub fn int8(column: i32, is: i64) -> Key {
        let strategy = pg_sys::BTEqualStrategyNumber;
        Key::new(column, strategy, pg_sys::F_INT8EQ, is.into())
    }

    /// From `least` on.
    pub fn int8_from(column: i32, least: i64) -> Key {
        let strategy = pg_sys::BTGreaterEqualStrategyNumber;
        Key::new(column, strategy, pg_sys::F_INT8GE, least.into())
    }

    pub fn int8_below(column: i32, limit: i64) -> Key {
        let strategy = pg_sys::BTLessStrategyNumber;
        Key::new(column, strategy, pg_sys::F_INT8LT, limit.into())
    }

    fn data(&self) -> pg_sys::ScanKeyData {
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: the function compares values that are passed by value, whatever column they are of.
        unsafe {
            let function = Oid::from(self.function);
            pg_sys::ScanKeyInit(
                &mut key,
                self.column,
                self.strategy as pg_sys::StrategyNumber,
                function,
                self.value,
            );
        }
        key
    }
}

/// A scan of rows for which all keys hold.
pub struct CatalogScan<'a> {
    scan: pg_sys::SysScanDesc,
    table: Table<'a>,
}

impl<'a> CatalogScan<'a> {
    /// By an index of the table, which has the columns of the keys in their order, or through the whole table. Without a snapshot, what
    /// is there now. The columns must be of the types of the keys.
    pub fn begin(
        table: Table<'a>,
        index: Option<Oid>,
        keys: &[Key],
        snapshot: Snapshot<'_>,
    ) -> CatalogScan<'a> {
        let columns = table.descriptor().len();
        let is_there = |key: &Key| key.column > 0 && key.column as usize <= columns;
        assert!(
            keys.iter().all(is_there),
            "BUG: a catalog has no such column"
        );
        let mut keys: Vec<_> = keys.iter().map(Key::data).collect();
        // SAFETY: the table is open; core copies the keys, and keeps a snapshot of its own or one that outlasts the scan.
        let scan = unsafe {
            pg_sys::systable_beginscan(
                table.as_ptr(),
                index.unwrap_or(pg_sys::InvalidOid),
                index.is_some(),
                snapshot.as_ptr(),
                keys.len() as i32,
                keys.as_mut_ptr(),
            )
        };
        CatalogScan { scan, table }
    }

    /// The next row, which is there until the one after it.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        // SAFETY: the scan has begun and not ended.
        let tuple = unsafe { pg_sys::systable_getnext(self.scan) };
        (!tuple.is_null()).then_some(Row {
            tuple,
            table: self.table,
            scan: PhantomData,
        })
    }
}

impl Drop for CatalogScan<'_> {
    fn drop(&mut self) {
        // While an error unwinds, the resource owner does it.
        if !std::thread::panicking() {
            // SAFETY: begun by `begin`.
            unsafe { pg_sys::systable_endscan(self.scan) }
        }
    }
}

/// A row of a scan, pinned.
pub struct Row<'a> {
    tuple: pg_sys::HeapTuple,
    table: Table<'a>,
    scan: PhantomData<&'a pg_sys::HeapTupleData>,
}

impl<'a> Row<'a> {
    /// Where it is.
    pub fn place(&self) -> ItemPointerData {
        // SAFETY: pinned.
        unsafe { (*self.tuple).t_self }
    }

    pub fn tid(&self) -> Tid {
        tid::from_pg(&self.place())
    }

    /// Its columns' values, and which of them are null. What they point to is there as long as the row.
    pub fn columns(&self) -> (Vec<Datum>, Vec<bool>) {
        let descriptor = self.table.descriptor();
        let count = descriptor.len();
        let (mut values, mut nulls) = (vec![Datum::null(); count], vec![true; count]);
        // SAFETY: the tuple is pinned, and one of the table; the arrays have an entry for each column.
        unsafe {
            pg_sys::heap_deform_tuple(
                self.tuple,
                descriptor.as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
        (values, nulls)
    }

    /// The columns of a catalog that are never null.
    ///
    /// # Safety
    /// `T` must be the form of the catalog's rows.
    pub unsafe fn form<T>(&self) -> &'a T {
        // SAFETY: by contract; the row is pinned.
        unsafe { &*pg_sys::GETSTRUCT(self.tuple).cast::<T>() }
    }

    pub fn inserter(&self) -> Inserter {
        // SAFETY: the tuple is pinned; nobody else writes but hints.
        unsafe { tuple::inserter((*self.tuple).t_data) }
    }

    /// The transaction that has deleted the row, whatever became of it. The row must be of those that nobody updates or locks.
    pub fn deleter(&self) -> Option<TransactionId> {
        // SAFETY: the tuple is pinned.
        let (by, hints) = unsafe {
            let header = (*self.tuple).t_data;
            let by = (*header).t_choice.t_heap.t_xmax;
            (by, u32::from((*header).t_infomask))
        };
        let none = hints & pg_sys::HEAP_XMAX_INVALID != 0 || by == pg_sys::InvalidTransactionId;
        (!none).then_some(by)
    }

    /// A copy with another value in one column, from 1, at the place of the row.
    ///
    /// # Safety
    /// The value must be of the column's type.
    pub unsafe fn with(&self, column: i32, value: Datum) -> Formed {
        let descriptor = self.table.descriptor();
        let (at, count) = (column as usize - 1, descriptor.len());
        let (mut values, mut replace) = (vec![Datum::null(); count], vec![false; count]);
        values[at] = value;
        replace[at] = true;
        // SAFETY: by contract; the tuple is pinned, and the arrays have an entry for each column.
        unsafe {
            Formed::from_ptr(pg_sys::heap_modify_tuple(
                self.tuple,
                descriptor.as_ptr(),
                values.as_mut_ptr(),
                vec![false; count].as_mut_ptr(),
                replace.as_mut_ptr(),
            ))
        }
    }
}

/// Has `visit` look at the rows for which all keys hold, as long as it wants more.
pub fn each(
    table: Table<'_>,
    index: Option<Oid>,
    keys: &[Key],
    snapshot: Snapshot<'_>,
    mut visit: impl FnMut(Row<'_>) -> bool,
) {
    let mut scan = CatalogScan::begin(table, index, keys, snapshot);
    while let Some(row) = scan.next_row() {
        if !visit(row) {
            break;
        }
    }
}

/// Is there a row for which all keys hold?
pub fn any(table: Table<'_>, index: Oid, keys: &[Key]) -> bool {
    CatalogScan::begin(table, Some(index), keys, Snapshot::NONE)
        .next_row()
        .is_some()
}
