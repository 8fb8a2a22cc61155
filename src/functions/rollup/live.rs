//! Which buckets a rollup's view computes from its source, and which it takes from what is stored: the functions in the view's
//! definition. Both halves of the view ask here, at execution and by the query's snapshot, so they always agree.

use super::restored;
use crate::pg::citus;
use crate::pg::error::{self, Code};
use crate::pg::fcinfo::{arg, guarded, raw_arg, sql_function, Fcinfo};
use crate::pg::memory;
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::{CommandId, Datum, Oid, TransactionId};
use crate::rollup::catalog::{self, Rollup};
use crate::rollup::ranges::Ranges;
use crate::rollup::time::TimeType;
use crate::rollup::watch;
use pgrx::prelude::*;
use pgrx::AnyElement;
use std::rc::Rc;

/// Ranges of marks that a view computes one by one before it closes gaps between them.
const MOST_RANGES: usize = 16;

/// What one snapshot shows of a rollup. All ranges are of starts of buckets.
struct Shown {
    rollup: Option<Rollup>,
    watermark: i64,
    live: Ranges,
}

/// A snapshot, as far as it can be told from others of this process, and what was known then: marks of DDL show at once, and triggers of one
/// statement see more of its rows by snapshots of one command.
#[derive(PartialEq)]
struct Moment {
    stored: Oid,
    transaction: u32,
    command: CommandId,
    xmax: TransactionId,
    /// By their ids: as many may be others.
    running: Box<[TransactionId]>,
    news: u64,
    noted: u64,
}

/// What executions of queries have been told, each by the memory that it ends with.
type Told = Vec<(usize, Oid, Rc<Shown>)>;

thread_local! {
    /// The two halves of a view must get the same, whenever they ask: a cursor may stand between them.
    static TOLD: PerTransaction<Told> = PerTransaction::default();
    /// The answers given last.
    static RECENT: PerTransaction<Vec<(Moment, Rc<Shown>)>> = PerTransaction::default();
}

/// Answers that are kept: a query reads few rollups, stacked ones included.
const MOST_RECENT: usize = 16;

/// What the active snapshot shows of a rollup, the same at any time of an execution.
///
/// # Safety
/// Called as a function of SQL.
unsafe fn shown(fcinfo: Fcinfo, stored: Oid) -> Rc<Shown> {
    // SAFETY: the expression's memory is that of its execution.
    let memory = unsafe { fcinfo.memory() };
    let key = memory.as_ptr() as usize;
    let known = TOLD.with_borrow(|all| {
        let mut all = all.iter();
        let found = all.find(|(of, rollup, _)| *of == key && *rollup == stored);
        found.map(|(_, _, shown)| Rc::clone(shown))
    });
    known.unwrap_or_else(|| {
        let shown = at_this_moment(stored);
        let is_new = TOLD.with_borrow_mut(|all| {
            let is_new = all.iter().all(|(of, _, _)| *of != key);
            all.push((key, stored, Rc::clone(&shown)));
            is_new
        });
        if is_new {
            // SAFETY: the callback lives as long as the memory that it is for.
            unsafe {
                memory::at_end(memory, end_execution, memory.as_ptr().cast());
            }
        }
        shown
    })
}

#[pg_guard]
unsafe extern "C-unwind" fn end_execution(memory: *mut core::ffi::c_void) {
    let key = memory as usize;
    if TOLD.with_borrow(|all| all.iter().any(|(of, _, _)| *of == key)) {
        TOLD.with_borrow_mut(|all| all.retain(|(of, _, _)| *of != key));
    }
}

fn at_this_moment(stored: Oid) -> Rc<Shown> {
    // SAFETY: functions are called with an active snapshot.
    unsafe {
        let snapshot = Snapshot::active();
        let (running, of_parts) = snapshot.running();
        let moment = Moment {
            stored,
            transaction: transaction::local_id(),
            command: snapshot.command(),
            xmax: snapshot.xmax(),
            running: [running, of_parts].concat().into(),
            news: watch::news(),
            noted: watch::noted(),
        };
        let known = RECENT.with_borrow(|all| {
            let found = all.iter().find(|(then, _)| *then == moment);
            found.map(|(_, shown)| Rc::clone(shown))
        });
        known.unwrap_or_else(|| {
            let shown = Rc::new(look(stored, snapshot));
            RECENT.with_borrow_mut(|all| {
                if all.len() >= MOST_RECENT {
                    all.remove(0);
                }
                all.push((moment, Rc::clone(&shown)));
            });
            shown
        })
    }
}

fn look(stored: Oid, snapshot: Snapshot<'_>) -> Shown {
    // SAFETY: the caller's snapshot is active.
    unsafe {
        let Some(rollup) = catalog::find(stored, snapshot) else {
            // Restored without its label, or not committed for this snapshot: all is computed.
            let mut live = Ranges::default();
            live.add(i64::MIN, i64::MAX);
            return Shown {
                rollup: None,
                watermark: i64::MIN,
                live,
            };
        };
        let rollup = restored::with_what_is_kept(rollup);
        let marked = catalog::marks(stored, snapshot).times;
        let own = watch::touched(&rollup);
        let mut live = Ranges::default();
        live.add(rollup.watermark, i64::MAX);
        for (first, last) in marked.iter().chain(own.iter()) {
            let (first, last) = rollup.starts(first, last);
            live.add(first, last);
        }
        if citus::is_distributed(rollup.source) {
            // Nobody marks what is changed in shards.
            live.add(i64::MIN, i64::MAX);
        }
        live.start_at(rollup.first_computable());
        live.limit(MOST_RANGES);
        Shown {
            watermark: rollup.watermark,
            rollup: Some(rollup),
            live,
        }
    }
}

/// The kind of time that the call's second argument has.
///
/// # Safety
/// `fcinfo` is the current call's; must run inside a guarded entry point.
unsafe fn time_of(fcinfo: Fcinfo) -> (TimeType, Oid) {
    // SAFETY: the current call's.
    let oid = unsafe { fcinfo.argument_type(1) };
    match TimeType::of(oid) {
        Some(time) => (time, oid),
        None => error::raise(
            Code::ERRCODE_DATATYPE_MISMATCH,
            "not a type of times",
            "",
            "This function is for the views that varve.create_rollup makes.",
        ),
    }
}

/// The table that the call's first argument names; where that is NULL, what its bits name.
///
/// # Safety
/// `fcinfo` is the current call's, and its first argument a regclass.
unsafe fn stored_of(fcinfo: Fcinfo) -> Oid {
    // SAFETY: by contract; any bits are an OID.
    unsafe { Oid::from_u32(arg(fcinfo, 0).value() as u32) }
}

sql_function! {
    /// `varve.rollup_watermark(stored regclass, like anyelement) → anyelement`: buckets that start earlier are stored.
    fn varve_rollup_watermark(fcinfo) {
        guarded(|| {
            // SAFETY: declared with these arguments; the first is never NULL in a view.
            unsafe {
                let (time, _) = time_of(fcinfo);
                time.write(shown(fcinfo, stored_of(fcinfo)).watermark)
            }
        })
    }
}

sql_function! {
    /// `varve.rollup_is_live(stored regclass, start anyelement) → bool`, strict: is the bucket computed?
    fn varve_rollup_is_live(fcinfo) {
        guarded(|| {
            // SAFETY: declared STRICT with these arguments.
            unsafe {
                let (time, _) = time_of(fcinfo);
                let start = time.read(raw_arg(fcinfo, 1).value);
                Datum::from(shown(fcinfo, stored_of(fcinfo)).live.contains(start))
            }
        })
    }
}

/// `varve.rollup_live(stored regclass, like anyelement)`: what a view computes, as starts of buckets (`first`, `last`), and the
/// times that rows of such buckets can have (`low`, `high`), all included.
#[pg_extern(sql = false)]
fn varve_rollup_live(
    stored: Oid,
    _like: Option<AnyElement>,
    fcinfo: Fcinfo,
) -> TableIterator<
    'static,
    (
        name!(low, AnyElement),
        name!(high, AnyElement),
        name!(first, AnyElement),
        name!(last, AnyElement),
    ),
> {
    // SAFETY: the current call's.
    let (time, oid, shown) = unsafe {
        let (time, oid) = time_of(fcinfo);
        (time, oid, shown(fcinfo, stored))
    };
    let rows: Vec<_> = shown
        .live
        .iter()
        .map(|(first, last)| {
            let (low, high) = match &shown.rollup {
                Some(rollup) => rollup.times(first, last),
                None => (i64::MIN, i64::MAX),
            };
            // SAFETY: values of the type that `oid` names, none of them null.
            let element = |value: i64| unsafe {
                AnyElement::from_polymorphic_datum(time.write(value), false, oid)
            };
            Some((
                element(low)?,
                element(high)?,
                element(first)?,
                element(last)?,
            ))
        })
        .collect::<Option<_>>()
        .unwrap_or_default();
    TableIterator::new(rows)
}
