//! Partitions of a partitioned source: which tables a row of a partition is a row of, and which times a partition can have.
//! What comes, goes or is emptied by ATTACH, DETACH, DROP and TRUNCATE is no matter of snapshots in core.

use super::time::TimeType;
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{self, items};
use crate::pg::relation;
use pgrx::pg_sys::{self, Datum, Oid};

/// All times.
pub const EVER: (i64, i64) = (i64::MIN, i64::MAX);

/// Columns of pg_partitioned_table.
const STRATEGY: i16 = 2;
const COLUMNS: i16 = 3;
const ATTRIBUTES: i16 = 5;
const RANGE: u8 = b'r';

/// The partitioned tables that a table is a partition of, nearest first.
pub fn ancestors(table: Oid) -> Vec<Oid> {
    // SAFETY: look-ups in caches and catalogs.
    unsafe {
        if pg_sys::get_rel_relispartition(table) {
            relation::ancestors_of(table)
        } else {
            Vec::new()
        }
    }
}

/// The tables that a row of a table is a row of: itself, and those that it is a partition of.
pub fn lineage(table: Oid) -> Vec<Oid> {
    let mut all = vec![table];
    all.extend(ancestors(table));
    all
}

/// The number of a column in a partition.
pub fn column_in(partition: Oid, root: Oid, column: i16) -> i16 {
    if partition == root {
        return column;
    }
    // SAFETY: look-ups in caches; the name is palloc'd.
    unsafe {
        let name = pg_sys::get_attname(root, column, false);
        let found = pg_sys::get_attnum(partition, name);
        pg_sys::pfree(name.cast());
        found
    }
}

/// The times that rows of a partition can have, by its bounds and those of the partitions that it is part of; all of them where no
/// partition goes by ranges of the root's time column.
pub fn times(partition: Oid, root: Oid, column: i16) -> (i64, i64) {
    let lineage = lineage(partition);
    let mut times = EVER;
    for pair in lineage.windows(2) {
        let (first, last) = times_within(pair[0], pair[1], column_in(pair[1], root, column));
        times = (times.0.max(first), times.1.min(last));
        if pair[1] == root {
            break;
        }
    }
    times
}

/// The times of a partition as its bounds in its parent say them.
fn times_within(partition: Oid, parent: Oid, column: i16) -> (i64, i64) {
    // SAFETY: look-ups in caches; bounds are a node of this type, and range bounds have an entry for each column of the key.
    unsafe {
        let (Some(columns), Some(bounds)) = (range_columns(parent, column), bounds(partition))
        else {
            return EVER;
        };
        if (*bounds).is_default {
            return EVER;
        }
        let kind = TimeType::of(pg_sys::get_atttype(parent, column));
        let end = |list| {
            let datum = items::<pg_sys::PartitionRangeDatum>(list).next()?;
            let value = node::cast::<pg_sys::Const>((*datum).value, pg_sys::NodeTag::T_Const)?;
            Some(kind?.read((*value).constvalue))
        };
        let first = end((*bounds).lowerdatums).unwrap_or(i64::MIN);
        let past = end((*bounds).upperdatums);
        // Behind the first column of several, the upper bound is a time of the partition.
        let last = past.map_or(i64::MAX, |past| past.saturating_sub((columns == 1).into()));
        (first, last)
    }
}

/// How many columns the key of a table has that is partitioned by ranges, first of this column; None for any other.
unsafe fn range_columns(parent: Oid, column: i16) -> Option<i16> {
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

/// The tables with rows that a table, or the tree of its partitions, has.
///
/// # Safety
/// `table` must exist, and be locked against others who change its partitions.
pub unsafe fn leaves(table: Oid) -> Vec<Oid> {
    // SAFETY: by contract.
    let mut all = unsafe { relation::inheritors(table, LockMode::Held) };
    all.retain(|&one| !relation::is_partitioned(one));
    all
}
