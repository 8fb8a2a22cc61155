//! Partitions of a partitioned source: which tables a row of a partition is a row of, and which times a partition can have.
//! What comes, goes or is emptied by ATTACH, DETACH, DROP and TRUNCATE is no matter of snapshots in core.

use super::time::TimeType;
use crate::pg::lock_mode::LockMode;
use crate::pg::partitions;
use crate::pg::relation;
use crate::pg::relation_lookup;
use crate::pg::{Datum, Oid};

/// All times.
pub const EVER: (i64, i64) = (i64::MIN, i64::MAX);

/// The partitioned tables that a table is a partition of, nearest first.
pub fn ancestors(table: Oid) -> Vec<Oid> {
    if relation_lookup::is_partition(table) {
        relation::ancestors_of(table)
    } else {
        Vec::new()
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
    relation_lookup::column_of_same_name(partition, root, column)
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
    let (Some(columns), Some(bounds)) = (
        partitions::range_columns(parent, column),
        partitions::range_bounds(partition),
    ) else {
        return EVER;
    };
    let kind = TimeType::of(relation_lookup::column_type(parent, column));
    let end = |value: Option<Datum>| Some(kind?.read(value?));
    let first = end(bounds.0).unwrap_or(i64::MIN);
    let past = end(bounds.1);
    // Behind the first column of several, the upper bound is a time of the partition.
    let last = past.map_or(i64::MAX, |past| past.saturating_sub((columns == 1).into()));
    (first, last)
}

/// The tables with rows that a table, or the tree of its partitions, has.
///
/// # Safety
/// `table` must exist, and be locked against others who change its partitions.
pub unsafe fn leaves(table: Oid) -> Vec<Oid> {
    // SAFETY: by contract.
    let mut all = unsafe { relation::inheritors(table, LockMode::Held) };
    all.retain(|&one| !relation_lookup::is_partitioned(one));
    all
}
