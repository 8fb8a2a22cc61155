//! Which statements get a conflict filter: those of which it can do exactly what core would. Before core looks for a row's key, it fires
//! triggers, computes columns, checks policies, constraints and the bounds of a partition: a table that has any of these
//! keeps core's way. NOT NULL is seen to by the conflict filter.

use super::node::ConflictFilter;
use crate::catalog::keys::{self, Unique};
use crate::guc;
use crate::pg::changed_table::{Arbiters, Command};
use crate::pg::custom_scan::Private;
use crate::pg::expression::{Expression, Expressions};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::{Open, OpenIndex};
use crate::pg::planner::Planner;
use crate::pg::planner_settings::cpu_operator_cost;
use crate::pg::relation::Table;
use crate::pg::upper_paths::ChangePath;
use std::collections::BTreeSet;

/// Puts a conflict filter above the source of an INSERT, if one can be of use there. Within a guarded entry point.
pub fn offer<'a>(planner: Planner<'a>, insert: ChangePath<'a>) {
    if planner.command() != Command::Insert {
        return;
    }
    let Some(arbiters) = planner.does_nothing_on_conflict() else {
        return;
    };
    let source = insert.source();
    let few = source.rows() < guc::batch_rows() as f64;
    if few || insert.has_checks() || repeats_volatile(source.target().columns()) {
        return;
    }
    let relid = planner
        .changed_table()
        .expect("BUG: an INSERT into nothing")
        .oid;
    // The statement has its lock.
    let table = Open::table(relid, LockMode::Held);
    let keys = keys::of(table.rel());
    if !keys.concern_chunks() || does_more_than_insert(table.rel()) {
        return;
    }
    // With arbiters, other keys that are taken are errors.
    let counts = |unique: &&Unique| is_arbiter(unique, &arbiters);
    let asked: Vec<&Unique> = keys.unique.iter().filter(counts).collect();
    // A deferrable key is no arbiter: an error.
    if asked.iter().any(|unique| !unique.immediate) {
        return;
    }
    let found: Vec<i32> = asked
        .iter()
        .filter(|unique| unique.series.is_some())
        .map(|unique| unique.index.to_u32() as i32)
        .collect();
    if !found.is_empty() {
        let relid = Private::Integers(vec![relid.to_u32() as i32]);
        let private = [relid, Private::Integers(found)];
        let path = planner.path_above::<ConflictFilter>(source, cpu_operator_cost(), &private);
        // SAFETY: the node hands on some rows of the source.
        unsafe { insert.set_source(path) };
    }
}

/// Does an INSERT of a row do anything before it looks for the row's keys, or may it end in an error?
fn does_more_than_insert(table: Table<'_>) -> bool {
    let fires = table.triggers().is_some_and(|triggers| {
        triggers.trig_insert_before_row || triggers.trig_insert_instead_row
    });
    let columns = table.descriptor();
    fires || columns.has_checks() || columns.has_generated() || table.class().relispartition
}

/// Has a target list the same volatile expression twice? Its columns are told apart by their expressions, once there is a node
/// above it.
fn repeats_volatile(target: Expressions<'_>) -> bool {
    let volatile = target.iter().filter(|column| column.is_volatile());
    let volatile: Vec<Expression<'_>> = volatile.collect();
    let repeated = |(at, column): (usize, &Expression<'_>)| {
        let before = &volatile[..at];
        before.iter().any(|other| other.equals(*column))
    };
    volatile.iter().enumerate().any(repeated)
}

/// Does a row do nothing if it has a taken key of this index? Of those of which it does, some may not be recognized.
fn is_arbiter(unique: &Unique, arbiters: &Arbiters) -> bool {
    let index = OpenIndex::open(unique.index, LockMode::AccessShare);
    // One that is being built may not be looked at yet.
    if !index.rel().form().indisvalid {
        return false;
    }
    match arbiters {
        Arbiters::All => true,
        Arbiters::Index(index) => *index == unique.index,
        Arbiters::Columns(None) => false,
        Arbiters::Columns(Some(columns)) => {
            let of_index = unique.columns.iter().map(|&column| column as i16 + 1);
            let columns: BTreeSet<i16> = columns.iter().copied().collect();
            columns == of_index.collect()
        }
    }
}
