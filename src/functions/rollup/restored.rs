//! Rollups that come out of a dump: view and stored table are restored as such, and then the view gets its label, which says how far
//! the table had been stored. With that the rollup is entered again. What the marks were nobody knows any more, so all buckets are
//! computed again but for those of rows that retention has taken: those stay as they were.

use super::define;
use super::query::{self, Defined};
use crate::functions::errors::{raise, Code};
use crate::pg::departure;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::owner;
use crate::pg::relation::{self, Table};
use crate::pg::sql;
use crate::pg::Oid;
use crate::rollup::catalog::{self, Limit, Mark, Rollup};
use crate::rollup::label::Label;
use crate::rollup::labels;
use crate::rollup::ranges::Ranges;
use crate::rollup::time::TimeType;

/// SECURITY LABEL FOR varve ON VIEW, as a dump has it. The right of the view's owner core has checked.
///
/// # Safety
/// `view` must be locked.
pub unsafe fn attach(view: Oid, text: &str) {
    let Some(label) = Label::parse(text) else {
        raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "invalid label of a rollup",
            "",
            "Refreshes of a rollup write this label; it is for dumps alone.",
        );
    };
    if catalog::of_view(view).is_some() {
        raise(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("\"{}\" is a rollup already", relation::name_of(view)),
            "",
            "Refreshes of a rollup write its label; it is for dumps alone.",
        );
    }
    // SAFETY: by contract.
    unsafe {
        let open = Open::table(view, LockMode::AccessShare);
        if open.rel().is_temporary() {
            define::refuse_temporary();
        }
        let Some((stored, defined)) = query::of_view(open.rel()) else {
            not_a_rollup(view);
        };
        check_stored(open.rel(), stored, &defined);
        let source = define::source_of(defined.from, defined.time);
        let rollup = Rollup {
            watermark: label.watermark,
            removed: label.removed,
            ignores_late: label.ignores_late,
            ..define::rollup(stored, view, &defined, &source)
        };
        define::enter(&rollup);
        if label.watermark > i64::MIN {
            let mut all = Ranges::default();
            all.add(i64::MIN, i64::MAX);
            catalog::add_marks(stored, Mark::Any, &all);
        }
    }
}

fn not_a_rollup(view: Oid) -> ! {
    raise(
        Code::ERRCODE_WRONG_OBJECT_TYPE,
        format!(
            "\"{}\" is not the view of a rollup",
            relation::name_of(view)
        ),
        "",
        "varve.create_rollup makes rollups.",
    )
}

/// The rollup owns its table: it is emptied, written and dropped with it. The table has the query's columns.
fn check_stored(view: Table<'_>, stored: Oid, defined: &Defined) {
    let table = Open::living_table(stored, LockMode::AccessShare);
    let attributes = table.rel().attributes();
    let has_columns = defined.columns.iter().enumerate().all(|(at, column)| {
        let attribute = attributes.get(at);
        attribute.is_some_and(|a| !a.attisdropped && a.atttypid == column.kind)
    });
    let is_fit = crate::catalog::access_method::is_varve(table.rel())
        && has_columns
        && table.rel().class().relowner == view.class().relowner
        && catalog::source_of(stored).is_none();
    if !is_fit {
        raise(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!(
                    "table \"{}\" cannot store a rollup",
                    table.rel().name()
                ),
                "It must be a varve table of the view's owner with the columns of the query, and store no other rollup.",
                "",
            );
    }
}

/// The rollup as it is to be read, or refreshed: one that was restored without its rows has nothing to keep.
///
/// # Safety
/// Inside a statement or a round, with an active snapshot.
pub unsafe fn with_what_is_kept(mut rollup: Rollup) -> Rollup {
    // SAFETY: by contract.
    unsafe {
        let first = rollup.first_computable();
        if rollup.is_restored() && rollup.removed > i64::MIN && !has_buckets(&rollup, first) {
            rollup.removed = i64::MIN;
        }
    }
    rollup
}

/// Does the stored table have buckets that start before a time? Those before the first that can be computed are kept.
///
/// # Safety
/// As `with_what_is_kept`.
unsafe fn has_buckets(rollup: &Rollup, before: i64) -> bool {
    // SAFETY: by contract.
    unsafe { has_rows(rollup.stored, rollup.bucket_column, before) }
}

/// Has a table rows of which a column, from 1, has a time before this one?
///
/// # Safety
/// As `with_what_is_kept`; where there is the table, it must have the column.
unsafe fn has_rows(table: Oid, column: i16, before: i64) -> bool {
    let Some(table) = Open::existing_table(table, LockMode::AccessShare) else {
        return false;
    };
    // SAFETY: the table is open, and has the column; readers of the view need no right on it.
    unsafe {
        let (name, kind) = {
            let all = table.rel().attributes();
            let time = &all[column as usize - 1];
            (relation::attribute_name(time), time.atttypid)
        };
        // Somebody may have altered the table.
        let Some(time) = TimeType::of(kind) else {
            return false;
        };
        let statement = format!(
            "SELECT 1 FROM {} WHERE {} OPERATOR(pg_catalog.<) $1 LIMIT 1",
            table.rel().qualified_name(),
            sql::identifier(&name)
        );
        let before = [(kind, Some(time.write(before)))];
        owner::locally_as(table.rel().owner(), || {
            !sql::query(&statement, &before).is_empty()
        })
    }
}

/// Gets a restored rollup ready for its first refresh: from `threshold` on writers mark what they change, so that has to be past all
/// that is stored. Raises an error where the restore is not through.
///
/// # Safety
/// As `with_what_is_kept`, with refreshes of the rollup excluded.
pub unsafe fn begin(rollup: &Rollup, threshold: i64) -> i64 {
    if !rollup.is_restored() {
        return threshold;
    }
    let being_restored = |detail: &str, hint: &str| {
        raise(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "rollup \"{}\" is being restored from a dump",
                relation::name_of(rollup.view)
            ),
            detail,
            hint,
        )
    };
    if labels::is_being_restored(rollup) {
        being_restored(
            "Its stored table and its source have no indexes yet.",
            "Refresh it when the restore is through, or create the indexes.",
        );
    }
    // Rows that come after the refresh would come on top of what it has stored.
    // SAFETY: by contract.
    let awaits_rows = || unsafe {
        has_rows(rollup.source, rollup.time_column, rollup.watermark)
            && !has_buckets(rollup, i64::MAX)
    };
    if departure::is_worker() && awaits_rows() {
        being_restored(
            "Its stored table has no rows yet.",
            "Refresh it by CALL when the restore is through.",
        );
    }
    // SAFETY: by contract.
    if unsafe { with_what_is_kept(rollup.clone()) }.removed < rollup.removed {
        catalog::move_on(rollup.stored, Limit::Removed, i64::MIN);
    }
    threshold.max(rollup.watermark.saturating_add(rollup.width_max))
}
