//! How partitioned tables are partitioned, as the catalogs say it.

use super::node::{self, items};
use pgrx::pg_sys::{self, Datum, Oid};

/// Columns of pg_partitioned_table.
const STRATEGY: i16 = 2;
const COLUMNS: i16 = 3;
const ATTRIBUTES: i16 = 5;
const RANGE: u8 = b'r';

/// How many columns the key of a table has that is partitioned by ranges, first of this column; None for any other.
pub fn range_columns(parent: Oid, column: i16) -> Option<i16> {
    // SAFETY: the columns are those of pg_partitioned_table, none of these NULL; a vector has an entry for each column of the key.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PARTRELID as i32;
        let row = pg_sys::SearchSysCache1(cache, parent.into());
        if row.is_null() {
            return None;
        }
        let value = |column| {
            let mut null = false;
            pg_sys::SysCacheGetAttr(cache, row, column, &mut null)
        };
        let strategy = value(STRATEGY).value() as u8;
        let columns = value(COLUMNS).value() as i16;
        let vector: *const pg_sys::int2vector = value(ATTRIBUTES).cast_mut_ptr();
        let first = *(*vector).values.as_ptr();
        pg_sys::ReleaseSysCache(row);
        (strategy == RANGE && first == column).then_some(columns)
    }
}

/// The lower and the upper bound of a partition of ranges, in the first column of the key, where it has one there; None for a default
/// partition.
pub fn range_bounds(partition: Oid) -> Option<(Option<Datum>, Option<Datum>)> {
    // SAFETY: bounds are a node of this type, and range bounds have an entry for each column of the key.
    unsafe {
        let bounds = bounds(partition)?;
        let end = |list| {
            let datum = items::<pg_sys::PartitionRangeDatum>(list).next()?;
            let value = node::cast::<pg_sys::Const>((*datum).value, pg_sys::NodeTag::T_Const)?;
            Some((*value).constvalue)
        };
        (!(*bounds).is_default).then(|| (end((*bounds).lowerdatums), end((*bounds).upperdatums)))
    }
}

/// The bounds of a partition, in the current memory context; None of what is no partition.
///
/// # Safety
/// Within a guarded entry point, inside a transaction.
unsafe fn bounds(partition: Oid) -> Option<*mut pg_sys::PartitionBoundSpec> {
    // SAFETY: a syscache look-up; the text is copied before the row is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
        let row = pg_sys::SearchSysCache1(cache, partition.into());
        if row.is_null() {
            return None;
        }
        let mut null = false;
        let column = pg_sys::Anum_pg_class_relpartbound as i16;
        let text: Datum = pg_sys::SysCacheGetAttr(cache, row, column, &mut null);
        let copied = (!null).then(|| pg_sys::text_to_cstring(text.cast_mut_ptr()));
        pg_sys::ReleaseSysCache(row);
        let found = pg_sys::stringToNode(copied?);
        node::cast::<pg_sys::PartitionBoundSpec>(
            found.cast(),
            pg_sys::NodeTag::T_PartitionBoundSpec,
        )
    }
}
