//! Refreshing: what has been computed from the source, and will hardly change any more, is stored. `varve.refresh_rollup` is made
//! of these steps, each in a transaction of its own (src/schema/60-rollups.sql):
//!
//! 1. `begin` moves the threshold: from now on writers of earlier times mark them.
//! 2. It waits for the transactions that may have seen the old threshold.
//! 3. `step` computes in one snapshot what is marked, and what lies between watermark and threshold; stores it; removes the marks
//!    that the snapshot shows; and moves the watermark. Marks that come later stay, and so their times are computed by readers.
//!    What takes long is done in several steps.

use super::define;
use super::restored;
use super::step;
use crate::compact::progress::{Watch, Work};
use crate::pg::citus;
use crate::pg::error::{self, Code};
use crate::pg::fcinfo::{arg, guarded, null, sql_function};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::owner;
use crate::pg::relation;
use crate::pg::relation_lookup;
use crate::pg::rounds::Rounds;
use crate::pg::snapshot::Snapshot;
use crate::pg::sql;
use crate::pg::transaction;
use crate::pg::types;
use crate::pg::{Datum, Oid};
use crate::rollup::catalog::{self, Limit, Mark, Rollup};
use crate::rollup::exclusion;
use crate::rollup::ranges::Ranges;
use crate::rollup::time::TimeType;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

sql_function! {
    /// `varve.rollup_begin(stored regclass) → bigint`, strict: moves the threshold to the newest time, and tells it.
    fn varve_rollup_begin(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with this argument.
            let stored = unsafe { Oid::from_u32(arg(fcinfo, 0).value() as u32) };
            Datum::from(as_owner(stored, begin))
        })
    }
}

sql_function! {
    /// `varve.rollup_step(stored regclass, threshold bigint) → bool`, strict: stores what is due; is there more?
    fn varve_rollup_step(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with these arguments.
            let (stored, threshold) = unsafe {
                (Oid::from_u32(arg(fcinfo, 0).value() as u32), arg(fcinfo, 1).value() as i64)
            };
            Datum::from(as_owner(stored, |rollup| step::run(rollup, threshold)).has_more)
        })
    }
}

sql_function! {
    /// `varve.rollup_mark_range(stored regclass, first anyelement, last anyelement)`: has times computed again.
    fn varve_rollup_mark_range(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with these arguments.
            unsafe {
                let stored = Oid::from_u32(arg(fcinfo, 0).value() as u32);
                let kind = fcinfo.argument_type(1);
                let (first, last) = (arg(fcinfo, 1), arg(fcinfo, 2));
                as_owner(stored, |rollup| {
                    let time = time_of(rollup);
                    if TimeType::of(kind) != Some(time) {
                        error::raise(
                            Code::ERRCODE_DATATYPE_MISMATCH,
                            "the range is not of the type of the rollup's times",
                            "",
                            "Cast both ends to the type of the source's time column.",
                        );
                    }
                    let mut times = Ranges::default();
                    times.add(time.read(first), time.read(last));
                    catalog::add_marks(stored, Mark::Any, &times);
                });
                null(fcinfo)
            }
        })
    }
}

sql_function! {
    /// `varve.rollup_stored(view regclass) → regclass`, strict
    fn varve_rollup_stored(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe { named(arg(fcinfo, 0)).stored.into() })
    }
}

sql_function! {
    /// `varve.rollup_source(view regclass) → regclass`, strict
    fn varve_rollup_source(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe { named(arg(fcinfo, 0)).source.into() })
    }
}

sql_function! {
    /// `varve.rollup_ignore_late(stored regclass, ignore bool)`, strict: what becomes of rows of times that retention has removed.
    fn varve_rollup_ignore_late(fcinfo) {
        // SAFETY: declared STRICT with these arguments.
        guarded(|| unsafe {
            transaction::prevent_if_read_only(c"varve.alter_rollup()");
            let stored = Oid::from_u32(arg(fcinfo, 0).value() as u32);
            let ignore = arg(fcinfo, 1).value() as u8 != 0;
            as_owner(stored, |rollup| {
                exclusion::take(rollup, true);
                catalog::move_on(stored, Limit::IgnoresLate, ignore.into());
                relation::invalidate(rollup.source);
            });
            null(fcinfo)
        })
    }
}

sql_function! {
    /// `varve.rollup_remove(stored regclass)`, strict: for the event trigger that sees the rollup go.
    fn varve_rollup_remove(fcinfo) {
        // SAFETY: declared STRICT with this argument.
        guarded(|| unsafe {
            catalog::remove(Oid::from_u32(arg(fcinfo, 0).value() as u32));
            null(fcinfo)
        })
    }
}

/// The rollup whose view somebody has named.
fn named(view: Datum) -> Rollup {
    let view = Oid::from_u32(view.value() as u32);
    catalog::of_view(view).unwrap_or_else(|| {
        error::raise(
            Code::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a rollup", relation::name_of(view)),
            "",
            "The view varve.rollups shows those that there are.",
        )
    })
}

/// A refresh that has begun, and waits for the transactions that were writing then.
struct Begun {
    threshold: i64,
    writers: Vec<String>,
    at: Instant,
}

thread_local! {
    /// Refreshes of this process that have made way for other jobs, by the stored table.
    static BEGUN: RefCell<BTreeMap<u32, Begun>> = const { RefCell::new(BTreeMap::new()) };
}

/// A refresh by the background worker, in rounds on the stored table. It gives way between them. While it waits for others' transactions
/// the worker's other jobs get their turns.
///
/// # Safety
/// As `Rounds::run`.
pub unsafe fn run(rounds: &Rounds, stored: Oid, watch: &impl Watch) -> Work {
    const PATIENCE: Duration = Duration::from_secs(60);
    const TURN: Duration = Duration::from_secs(2);
    const NAP: Duration = Duration::from_millis(20);
    let mut work = Work::default();
    // SAFETY: by contract.
    unsafe {
        let begun = BEGUN.with_borrow_mut(|all| all.remove(&stored.to_u32()));
        let begun = begun.unwrap_or_else(|| {
            let (threshold, source) = rounds.run(|_, _| as_owner(stored, |r| (begin(r), r.source)));
            Begun {
                threshold,
                writers: rounds.run(|_, _| writers_of(source)),
                at: Instant::now(),
            }
        });
        let threshold = begun.threshold;
        let start = Instant::now();
        while rounds.run(|_, _| are_running(&begun.writers)) {
            if rounds.is_in_the_way() {
                work.gave_way = true;
                return work;
            }
            if start.elapsed() > TURN && begun.at.elapsed() <= PATIENCE {
                BEGUN.with_borrow_mut(|all| all.insert(stored.to_u32(), begun));
                work.gave_way = true;
                return work;
            }
            if begun.at.elapsed() > PATIENCE {
                error::raise(
                    Code::ERRCODE_LOCK_NOT_AVAILABLE,
                    "refresh gave up waiting for transactions that write to the source of the rollup",
                    "What has not been stored is computed by whoever reads the rollup.",
                    "It is tried again later; pg_locks shows the transactions.",
                );
            }
            std::thread::sleep(NAP);
        }
        loop {
            let stepped = rounds.run(|_, _| {
                let stepped = as_owner(stored, |rollup| step::run(rollup, threshold));
                work.rows += stepped.rows as u64;
                watch.progress("refresh", work.rows, 0);
                stepped
            });
            if !stepped.has_more {
                return work;
            }
            if rounds.is_in_the_way() {
                work.gave_way = true;
                return work;
            }
        }
    }
}

/// The transactions that can write to a table or its partitions now, by their virtual ids; prepared ones have marked what they changed.
///
/// # Safety
/// Inside a transaction with an active snapshot, as in a round.
unsafe fn writers_of(source: Oid) -> Vec<String> {
    // SAFETY: within a round.
    let rows = unsafe {
        sql::query(
            "SELECT pg_catalog.unnest(varve.rollup_writers($1))",
            &[(types::OIDOID, Some(Datum::from(source)))],
        )
    };
    rows.into_iter().flatten().flatten().collect()
}

/// Are any of these transactions still in progress?
///
/// # Safety
/// As `writers_of`, from which `writers` must come: they become part of a query's text.
unsafe fn are_running(writers: &[String]) -> bool {
    if writers.is_empty() {
        return false;
    }
    // Virtual ids are digits and a slash.
    let list = writers.join(",");
    // SAFETY: within a round.
    let found = unsafe {
        sql::query(
            &format!(
                "SELECT 1 FROM pg_catalog.pg_locks
                 WHERE virtualtransaction = ANY ('{{{list}}}') AND pid IS NOT NULL LIMIT 1"
            ),
            &[],
        )
    };
    !found.is_empty()
}

/// Runs `body` with the rights of the rollup's owner, and no others, if the caller has those of the owner.
fn as_owner<R>(stored: Oid, body: impl FnOnce(&Rollup) -> R) -> R {
    // SAFETY: an error ends the (sub)transaction, which puts back user and context.
    unsafe {
        transaction::prevent_in_recovery(c"varve.refresh_rollup");
        let Some(rollup) = catalog::find(stored, Snapshot::latest()) else {
            error::raise(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "no such rollup",
                "",
                "The view varve.rollups shows those that there are.",
            );
        };
        let view = Open::table(rollup.view, LockMode::AccessShare);
        if !relation_lookup::is_owned(rollup.view) {
            error::raise(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of rollup \"{}\"", view.rel().name()),
                "",
                "",
            );
        }
        owner::as_owner(view.rel().owner(), || body(&rollup))
    }
}

fn time_of(rollup: &Rollup) -> TimeType {
    let source = Open::living_table(rollup.source, LockMode::AccessShare);
    let kind = {
        let attributes = source.rel().attributes();
        let column = attributes.get(rollup.time_column as usize - 1);
        column.and_then(|column| TimeType::of(column.atttypid))
    };
    kind.unwrap_or_else(|| {
        error::raise(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the source of the rollup has lost its time column",
            "",
            "Drop the rollup and create it again.",
        )
    })
}

fn begin(rollup: &Rollup) -> i64 {
    exclusion::take(rollup, true);
    // The row may have been changed while we waited.
    // SAFETY: a snapshot of this moment.
    let rollup = unsafe { catalog::find(rollup.stored, Snapshot::latest()) };
    let Some(rollup) = rollup else {
        return i64::MIN;
    };
    // SAFETY: within a transaction.
    if unsafe { citus::is_distributed(rollup.source) } {
        define::distributed(&relation::name_of(rollup.source));
    }
    // SAFETY: within a statement or a round, which have a snapshot.
    let newest = unsafe { restored::begin(&rollup, newest_time(&rollup)) };
    if newest <= rollup.threshold {
        return rollup.threshold;
    }
    catalog::move_on(rollup.stored, Limit::Threshold, newest);
    relation::invalidate(rollup.source);
    newest
}

/// The newest time in the source, but not the future; the threshold where nothing is newer.
fn newest_time(rollup: &Rollup) -> i64 {
    let time = time_of(rollup);
    let source = Open::living_table(rollup.source, LockMode::AccessShare);
    let (name, column, kind) = {
        let attribute = &source.rel().attributes()[rollup.time_column as usize - 1];
        (
            source.rel().qualified_name(),
            relation::quoted_attribute_name(attribute),
            attribute.atttypid,
        )
    };
    // A clock of a zone may be ahead of ours.
    let now = match types::base(kind) {
        types::TIMESTAMPTZOID => "pg_catalog.now()",
        types::TIMESTAMPOID => "(pg_catalog.now() AT TIME ZONE 'UTC' + interval '1 day')",
        types::DATEOID => "((pg_catalog.now() AT TIME ZONE 'UTC')::date + 1)",
        types::INT2OID => "32767",
        types::INT4OID => "2147483647",
        _ => "9223372036854775807",
    };
    let only = match relation_lookup::is_partitioned(rollup.source) {
        true => "",
        false => "ONLY ",
    };
    let query = format!(
        "SELECT pg_catalog.max({column}) FROM {only}{name} WHERE {column} >= $1 AND {column} <= {now}"
    );
    let from = time.write(rollup.threshold);
    // SAFETY: within a statement or a round, which have a snapshot.
    let found = unsafe { sql::value(&query, &[(kind, Some(from))]) };
    found.map_or(rollup.threshold, |newest| time.read(newest))
}
