//! Partitions that come to a partitioned source, or go from it: the times that they have are computed again. Core's hooks tell of
//! them, each in the transaction that does it.

use crate::catalog::access_method;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation;
use crate::pg::relation_lookup;
use crate::pg::sql;
use crate::pg::statement::Statement;
use crate::pg::Oid;
use crate::rollup::catalog::{self, Rollup};
use crate::rollup::{exclusion, partition, removal, watch};

/// A table becomes a partition of another, or is one no longer.
///
/// # Safety
/// Called by the object access hook for an entry of pg_inherits, that of `table` below `parent`.
pub unsafe fn inheritance(table: Oid, parent: Oid) {
    // SAFETY: by contract; whoever changes partitions has locked the parent, and the partition exclusively.
    unsafe {
        if !relation_lookup::is_partitioned(parent) {
            return;
        }
        // The entry's removal does not show yet, nor does its coming.
        if relation::ancestors_of(table).first() == Some(&parent) {
            if has_pages(table) {
                watch::changed_by_ddl(table);
            }
            return;
        }
        for source in partition::lineage(parent) {
            let rollups = catalog::of_source(source);
            if rollups.is_empty() {
                continue;
            }
            check(table, source);
            if has_pages(table) {
                check_age(table, source, rollups);
                watch::attached(table, source);
            }
        }
    }
}

/// A table is dropped.
///
/// # Safety
/// Called by the object access hook for a relation.
pub unsafe fn dropped(table: Oid) {
    // SAFETY: whoever drops a table has locked it.
    unsafe {
        let is_part = relation_lookup::has_rows(table) && relation_lookup::is_partition(table);
        if is_part && has_pages(table) {
            watch::changed_by_ddl(table);
        }
    }
}

/// DETACH … CONCURRENTLY commits before core's hook is told of it: what it takes is noted when it begins.
pub fn before(statement: Statement<'_>) {
    for table in statement.detached_concurrently() {
        watch::changed_by_ddl(table);
    }
}

/// Waits for all transactions that have written to a source or a partition of it, prepared ones too, and keeps others from writing until
/// this one ends, as CREATE TRIGGER does: what was written before there was a rollup nobody marks for it.
///
/// # Safety
/// The source must be a table.
pub unsafe fn await_writers(source: Oid) {
    drop(Open::table(source, LockMode::ShareRowExclusive));
    // SAFETY: by contract.
    unsafe { relation::inheritors(source, LockMode::ShareRowExclusive) };
}

/// Keeps partitions from coming while a refresh works: those that it has seen the marks of it must find, too. What takes one away locks
/// out all readers.
pub fn keep(source: Oid) {
    if !relation_lookup::is_partitioned(source) {
        return;
    }
    let mut kept = Vec::new();
    let mut found = vec![source];
    while let Some(part) = found.pop() {
        kept.push(part);
        // What has partitions may have got one while we waited.
        if Open::existing_table(part, LockMode::ShareUpdateExclusive).is_some() {
            // SAFETY: the table exists.
            let parts = unsafe { relation::inheritors(part, LockMode::Held) };
            let new = |part: &Oid| !kept.contains(part) && relation_lookup::is_partitioned(*part);
            found.extend(parts.into_iter().filter(new));
        }
    }
}

/// Raises an error where a table, or a partition of it, is not of those whose changes are noted.
///
/// # Safety
/// The table must be locked against others who change its partitions.
pub unsafe fn check(table: Oid, source: Oid) {
    // SAFETY: by contract.
    for leaf in unsafe { partition::leaves(table) } {
        let open = Open::table(leaf, LockMode::AccessShare);
        let is_varve = access_method::is_varve(open.rel());
        let lasts = open.rel().is_permanent();
        if !is_varve || !lasts {
            error::raise(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "\"{}\" cannot be a partition of \"{}\", which has a rollup",
                    relation::name_of(leaf),
                    relation::name_of(source)
                ),
                "A rollup knows of changes to varve tables that are neither temporary nor unlogged.",
                "Make it one: CREATE TABLE … USING varve, ALTER TABLE … SET ACCESS METHOD varve.",
            );
        }
    }
}

/// Has a table, or a partition of it, ever had rows?
///
/// # Safety
/// As `check`.
unsafe fn has_pages(table: Oid) -> bool {
    // SAFETY: the callers' contract: the tables are locked.
    unsafe {
        partition::leaves(table).into_iter().any(|leaf| {
            let open = Open::table(leaf, LockMode::AccessShare);
            !access_method::is_varve(open.rel()) || open.rel().blocks() > 0
        })
    }
}

/// Raises an error for rows of a time that retention has taken from the source: rollups would never show them.
///
/// # Safety
/// As `check`, with an active snapshot; the table must have the source's columns.
unsafe fn check_age(table: Oid, source: Oid, rollups: Vec<Rollup>) {
    // Retention waits until this transaction has ended, and this one for retention.
    for rollup in &rollups {
        exclusion::take(rollup, true);
    }
    let rollups = catalog::of_source(source);
    let refused = removal::refused_before(&rollups).filter(|(_, before)| *before > i64::MIN);
    let Some((rollup, removed)) = refused else {
        return;
    };
    // SAFETY: the caller's contract: the table is there, with the source's columns.
    unsafe {
        let open = Open::table(table, LockMode::AccessShare);
        let column = partition::column_in(table, source, rollup.time_column);
        let attribute = &open.rel().attributes()[column as usize - 1];
        let query = format!(
            "SELECT 1 FROM {} WHERE {} OPERATOR(pg_catalog.<) $1 LIMIT 1",
            open.rel().qualified_name(),
            sql::identifier(&relation::attribute_name(attribute)),
        );
        let time = crate::rollup::time::TimeType::of(attribute.atttypid)
            .map(|kind| (attribute.atttypid, Some(kind.write(removed))));
        if time.is_some_and(|time| !sql::query(&query, &[time]).is_empty()) {
            error::raise(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "partition \"{}\" has rows that are older than what retention has kept",
                    open.rel().name()
                ),
                "Rollups keep the buckets of that time, and would not show the rows.",
                "Delete them first; or let them in with varve.alter_rollup(…, ignore_late_rows => true).",
            );
        }
    }
}
