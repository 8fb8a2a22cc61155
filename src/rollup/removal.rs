//! Retention and rollups: rollups keep the buckets of rows that retention takes, so it takes what they have stored, and rows that come later to
//! those times are refused or not counted (docs/design/0016).

use super::catalog::{self, Limit, Rollup};
use super::{exclusion, partition};
use crate::pg::relation;
use crate::pg::{InvalidOid, Oid};

/// Rows of earlier times have been removed from the source itself, not from a rollup in between. A dump may have rows that
/// retention was about to remove.
pub fn removed_before(rollups: &[Rollup], ignored: bool) -> Option<i64> {
    furthest_removed(rollups, ignored).map(|rollup| rollup.removed)
}

fn furthest_removed(rollups: &[Rollup], ignored: bool) -> Option<&Rollup> {
    let direct = rollups
        .iter()
        .filter(|rollup| rollup.below == InvalidOid && !rollup.is_restored());
    direct
        .filter(|rollup| rollup.ignores_late == ignored)
        .max_by_key(|rollup| rollup.removed)
}

/// Rows of earlier times than this are refused, for the sake of that one of the rollups of a source.
pub fn refused_before(rollups: &[Rollup]) -> Option<(&Rollup, i64)> {
    furthest_removed(rollups, false).map(|rollup| (rollup, rollup.removed))
}

/// Keeps refreshes of what depends on a table out, and partitions from coming to it, until the transaction ends: before retention
/// removes rows. False where it would have to wait, and may not.
pub fn keep_for_removal(table: Oid, wait: bool) -> bool {
    let dependents = dependents(table);
    dependents.iter().all(|rollup| {
        exclusion::take(rollup, wait) && exclusion::keep_late_rows(rollup.source, wait)
    })
}

/// How far retention may remove rows of a table: rollups that are computed from it must have stored what it takes.
pub fn removable(table: Oid, until: i64) -> i64 {
    // Who removes rows keeps refreshes out, and rows that are marked later from being committed.
    dependents(table).iter().fold(until, |until, rollup| {
        let marked = catalog::marked_by_anybody(rollup.stored);
        let mut waiting = marked
            .iter()
            .map(|(first, last)| rollup.starts(first, last))
            .filter(|&(_, last)| last >= rollup.first_computable());
        let first_waiting = waiting.next().map_or(rollup.watermark, |(first, _)| first);
        let settled = first_waiting.min(rollup.watermark);
        until.min(settled.saturating_sub(rollup.over_max))
    })
}

/// Retention removes rows of times before `until` from a table, in this transaction.
pub fn note_removal(table: Oid, until: i64) {
    for rollup in dependents(table) {
        // What removes rows of a partition leaves those of others.
        let is_above = rollup.source != table && rollup.below == InvalidOid;
        let until = match is_above {
            true => {
                let times = partition::times(table, rollup.source, rollup.time_column);
                until.min(times.1.saturating_add(1))
            }
            false => until,
        };
        if until > rollup.removed {
            catalog::move_on(rollup.stored, Limit::Removed, until);
            relation::invalidate(rollup.source);
        }
    }
}

/// The rollups that are computed from what a table itself has, or what it is a partition of.
pub fn dependents(table: Oid) -> Vec<Rollup> {
    let mut found: Vec<_> = partition::lineage(table)
        .into_iter()
        .flat_map(catalog::of_source)
        .collect();
    found.retain(|rollup| rollup.below == InvalidOid);
    found.extend(catalog::of_stored(table));
    found
}
