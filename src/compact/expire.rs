//! Retention: rows that are older than a rule allows are deleted, in rounds. Chunks of which every row has expired go by their
//! headers alone, without a value being decoded. The other rows, of the tail and of chunks at the edge, are deleted as
//! DELETE does it, and so is everything where single deletes matter to somebody: triggers, foreign keys, subscribers. Rollups keep the
//! buckets of rows that go, so what they have not stored yet stays.
//!
//! Nobody is waited for: what others have locked stays until the next run.

use super::filter;
use super::header_delete::delete_header;
use super::progress::{Watch, Work};
use crate::catalog::layout::{self, Layout};
use crate::chunk::chunk_cache;
use crate::chunk::read::Chunk;
use crate::chunk::write::{self, Target};
use crate::pg::clock;
use crate::pg::departure;
use crate::pg::error::{self, Code};
use crate::pg::owner;
use crate::pg::relation::{self, Kind, Table};
use crate::pg::replication;
use crate::pg::rounds::Rounds;
use crate::pg::snapshot::Snapshot;
use crate::pg::sql;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::types;
use crate::pg::{Datum, FormData_pg_attribute, Interval};
use crate::rollup::removal;
use crate::scan::headers;
use crate::table::next_version;
use varve_columns::tuple::header::{FLAG_SORTED, FLAG_TOMBSTONE};

/// Storage tuples that a round deletes at most, about: 56 bytes of WAL each.
const ROUND_TUPLES: u64 = 65_536;
/// Rows that a round deletes one by one.
const ROUND_ROWS: u64 = 20_000;

const DAY_US: i64 = 86_400_000_000;
/// From 1970, where epochs begin, to 2000, where timestamps do.
const EPOCH_US: i64 = 10_957 * DAY_US;

/// A span of time, as an interval stores it. Nothing of it is negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

/// What the numbers of an integer time column count, since 1970.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    const NAMES: [(&'static str, Unit); 4] = [
        ("s", Unit::Seconds),
        ("ms", Unit::Milliseconds),
        ("us", Unit::Microseconds),
        ("ns", Unit::Nanoseconds),
    ];

    pub fn name(self) -> &'static str {
        let mut names = Unit::NAMES.iter();
        names
            .find(|known| known.1 == self)
            .map_or("s", |known| known.0)
    }

    pub fn named(name: &str) -> Option<Unit> {
        let mut names = Unit::NAMES.iter();
        names.find(|known| known.0 == name).map(|known| known.1)
    }

    /// The first number that is not before a point in time.
    fn ceiling(self, epoch_us: i64) -> i64 {
        match self {
            Unit::Seconds => ceiling(epoch_us, 1_000_000),
            Unit::Milliseconds => ceiling(epoch_us, 1_000),
            Unit::Microseconds => epoch_us,
            Unit::Nanoseconds => epoch_us.saturating_mul(1_000),
        }
    }
}

fn ceiling(value: i64, unit: i64) -> i64 {
    value.div_euclid(unit) + i64::from(value.rem_euclid(unit) > 0)
}

/// How long rows are kept, and which.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub keep: Span,
    /// A condition on the series key; None: all rows.
    pub filter: Option<String>,
    pub unit: Option<Unit>,
    /// The time column that it was made for; None: whichever the table has.
    pub column: Option<TimeColumn>,
}

/// The time column of a table when a rule was made. What is the time column may change with an index, and a dump brings rows before
/// indexes; no rule goes on with another column.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeColumn {
    /// Its number, from 1, by which it is known when it gets another name.
    pub number: u16,
    pub name: String,
}

impl TimeColumn {
    fn is(&self, table: Table<'_>, number: u16) -> bool {
        let all = table.attributes().iter();
        let mut living = all.filter(|attribute| !attribute.attisdropped);
        let named = living.find(|attribute| relation::attribute_name(attribute) == self.name);
        named.map_or(self.number, |named| named.attnum as u16) == number
    }
}

/// The rows of a table that a rule lets go.
struct Expired<'a> {
    layout: Layout,
    time: u16,
    /// Rows before this value of the time column go.
    cutoff: i64,
    rule: &'a Rule,
}

/// Raises what is in the way of a rule for a table; returns the time column that it goes by.
///
/// `table` must be open with a lock, in a transaction with an active snapshot.
pub fn check(table: Table<'_>, rule: &Rule) -> TimeColumn {
    let number = owner::as_owner(table.owner(), || {
        Expired::of(table, rule, clock::now()).time
    });
    TimeColumn {
        number,
        name: relation::attribute_name(attribute(table, number)),
    }
}

/// Deletes what has expired.
///
/// # Safety
/// As `Rounds::run`.
pub unsafe fn run(rounds: &mut Rounds, rule: &Rule, watch: &dyn Watch) -> Work {
    let mut work = Work::default();
    let now = clock::now();
    // SAFETY: a round's table and snapshot, in each of the rounds.
    unsafe {
        let whole = rounds.run(|table, snapshot| {
            let expired = Expired::due(table, rule, now);
            watch.progress("expire chunks", 0, 0);
            if expired.goes_whole(table) {
                expired.whole_chunks(table, snapshot)
            } else {
                Vec::new()
            }
        });
        let (mut at, count) = (0, whole.len() as u64);
        while at < whole.len() {
            if rounds.is_in_the_way() {
                work.gave_way = true;
                return work;
            }
            rounds.run(|table, snapshot| {
                let expired = Expired::due(table, rule, now);
                if !expired.goes_whole(table) {
                    at = whole.len();
                    return;
                }
                at += expired.delete_chunks(table, snapshot, &whole[at..], &mut work);
                watch.progress("expire chunks", at as u64, count);
            });
        }
        loop {
            if rounds.is_in_the_way() {
                work.gave_way = true;
                return work;
            }
            let more = rounds.run(|table, _| {
                let expired = Expired::due(table, rule, now);
                let (deleted, more) = expired.delete_rows(table);
                work.rows += deleted;
                watch.progress("expire rows", work.rows, 0);
                more
            });
            if !more {
                return work;
            }
        }
    }
}

/// What a run would delete.
#[derive(Default, Debug)]
pub struct Preview {
    pub rows: i64,
    /// Chunks that would go as a whole, and their bytes.
    pub chunks: i64,
    pub bytes: i64,
    pub oldest: Option<String>,
    pub newest: Option<String>,
}

/// Says what a run would delete.
///
/// `table` must be open with a lock, `snapshot` the active one.
pub fn preview(table: Table<'_>, snapshot: Snapshot<'_>, rule: &Rule) -> Preview {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        owner::as_owner(table.owner(), || {
            let expired = Expired::of(table, rule, clock::now());
            let mut out = Preview::default();
            if expired.goes_whole(table) {
                for (at, _) in expired.whole_chunks(table, snapshot) {
                    if let Some(Ok(reader)) = chunk_cache::try_reader_at(table, at, snapshot) {
                        if expired.has_whole(&reader.chunk) {
                            out.chunks += 1;
                            out.bytes += chunk_bytes(&reader.chunk) as i64;
                        }
                    }
                }
            }
            let name = expired.time_name(table);
            let rows = sql::query(
                &format!(
                    "SELECT count(*), min({name}), max({name}) FROM ONLY {} WHERE {}",
                    table.qualified_name(),
                    expired.condition(table),
                ),
                &[expired.parameter(table)],
            );
            if let Some([count, oldest, newest]) = rows.into_iter().next().as_deref_mut() {
                out.rows = count.as_deref().and_then(|n| n.parse().ok()).unwrap_or(0);
                (out.oldest, out.newest) = (oldest.take(), newest.take());
            }
            out
        })
    }
}

fn chunk_bytes(chunk: &Chunk) -> u64 {
    u64::from(chunk.statics.payload.len) + write::DELETE_MAP_ROOM as u64
}

impl Expired<'_> {
    /// What is to be deleted in this round. Nothing, where a worker would have to wait for the refresh of a rollup.
    fn due<'r>(table: Table<'_>, rule: &'r Rule, now: i64) -> Expired<'r> {
        let is_free = removal::keep_for_removal(table.oid(), !departure::is_worker());
        let mut expired = Expired::of(table, rule, now);
        if !is_free {
            expired.cutoff = i64::MIN;
        }
        expired
    }

    fn of<'r>(table: Table<'_>, rule: &'r Rule, now: i64) -> Expired<'r> {
        check_table(table);
        let layout = layout::of(table);
        let Some(time) = layout.time else {
            error::raise(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("table \"{}\" has no time column", table.name()),
                "Retention goes by the time of rows.",
                "CREATE INDEX … USING varve (key, time) states which column it is.",
            );
        };
        if let Some(column) = rule.column.as_ref().filter(|c| !c.is(table, time)) {
            other_column(table, column, time);
        }
        if let Some(filter) = &rule.filter {
            filter::check(table, &layout, filter);
        }
        let cutoff = cutoff(table, time, rule, now);
        if rule.filter.is_some() && !removal::dependents(table.oid()).is_empty() {
            error::raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "table \"{}\" has rollups, and cannot have a retention rule with a filter",
                    table.name()
                ),
                "Rollups keep the buckets of rows that go, and a bucket has rows of all series.",
                "Leave the filter out, or drop the rollups.",
            );
        }
        // What rollups have not stored yet stays until they have.
        let cutoff = removal::removable(table.oid(), cutoff);
        Expired {
            layout,
            time,
            cutoff,
            rule,
        }
    }

    fn time_name(&self, table: Table<'_>) -> String {
        sql::identifier(&relation::attribute_name(attribute(table, self.time)))
    }

    /// As SQL; $1 is the `parameter`.
    fn condition(&self, table: Table<'_>) -> String {
        let name = self.time_name(table);
        match &self.rule.filter {
            // A line of its own ends a comment at the filter's end.
            Some(filter) => format!("{name} < $1 AND ({filter}\n)"),
            None => format!("{name} < $1"),
        }
    }

    fn parameter(&self, table: Table<'_>) -> sql::Parameter {
        let base = types::base(attribute(table, self.time).atttypid);
        match base {
            types::DATEOID => {
                let days = self.cutoff.clamp(i32::MIN.into(), i32::MAX.into());
                (base, Some(Datum::from(days as i32)))
            }
            types::TIMESTAMPOID | types::TIMESTAMPTZOID => (base, Some(Datum::from(self.cutoff))),
            _ => (types::INT8OID, Some(Datum::from(self.cutoff))),
        }
    }

    /// May chunks be deleted by their headers, without anybody who wants to know of each row?
    fn goes_whole(&self, table: Table<'_>) -> bool {
        if self.rule.filter.is_some() || has_delete_triggers(table) {
            return false;
        }
        // With a transaction id, the answer about subscribers stays good.
        transaction::id();
        !replication::is_streamed(table)
    }

    /// The chunks whose headers say that every row has expired, by their places and ids.
    fn whole_chunks(&self, table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<(Tid, u64)> {
        let mut found = Vec::new();
        {
            headers::each_header(table, snapshot, |at, result| {
                // A chunk that cannot be read is the business of compact and verify.
                if let Ok(header) = result {
                    if headers::times(&header).is_some_and(|times| times.1 < self.cutoff) {
                        found.push((at, header.chunk));
                    }
                }
            });
        }
        found
    }

    /// Has every row of a chunk expired, and is no more to it than its rows?
    fn has_whole(&self, chunk: &Chunk) -> bool {
        let header = &chunk.header;
        let at = usize::from(self.time) - 1;
        header.has(FLAG_SORTED)
            && !header.has(FLAG_TOMBSTONE)
            && !chunk.map.has_successors()
            && chunk.statics.time == self.layout.time
            && at < chunk.columns.columns().len()
            && chunk.columns.column(at).count() == header.rows
            && header.max_time < self.cutoff
    }

    /// Deletes the first of these chunks, a round's worth; returns how many it has looked at.
    ///
    /// # Safety
    /// `table` must be open with the lock of compact, and `snapshot` be active.
    unsafe fn delete_chunks(
        &self,
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        chunks: &[(Tid, u64)],
        work: &mut Work,
    ) -> usize {
        let mut tuples = 0;
        // SAFETY: the caller's contract.
        unsafe {
            removal::note_removal(table.oid(), self.cutoff);
            let target = Target::current(table);
            for (number, &(at, id)) in chunks.iter().enumerate() {
                error::check_interrupts();
                if tuples >= ROUND_TUPLES {
                    return number;
                }
                // It may have got another header since, or been merged.
                let Some(Ok(reader)) = chunk_cache::try_reader_at(table, at, snapshot) else {
                    continue;
                };
                let chunk = &reader.chunk;
                if chunk.header.chunk != id || !self.has_whole(chunk) {
                    continue;
                }
                if !delete_header(table, chunk, target.command, false) {
                    continue;
                }
                next_version::delete_pieces(table, chunk, target.command);
                tuples += chunk.statics.payload.tids.len() as u64 + 1;
                work.rows += u64::from(chunk.header.rows - chunk.header.deleted);
                work.bytes += chunk_bytes(chunk);
            }
        }
        chunks.len()
    }

    /// Deletes a round's worth of rows one by one; returns how many, and whether there may be more.
    ///
    /// # Safety
    /// In a round, which runs as the table's owner with an active snapshot; `table` must be its table.
    unsafe fn delete_rows(&self, table: Table<'_>) -> (u64, bool) {
        // SAFETY: the callers' contract: an active snapshot, the owner's rights.
        unsafe {
            removal::note_removal(table.oid(), self.cutoff);
            owner::set(c"row_security", c"off");
            owner::fire_deferred(table);
            let name = table.qualified_name();
            let condition = self.condition(table);
            // A trigger may leave rows, which would be met again and again.
            let is_filtered = table
                .triggers()
                .is_some_and(|triggers| triggers.trig_delete_before_row);
            let statement = if is_filtered {
                format!("DELETE FROM ONLY {name} WHERE {condition}")
            } else {
                format!(
                    "DELETE FROM ONLY {name} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY {name} WHERE {condition} \
                     LIMIT {ROUND_ROWS} FOR UPDATE SKIP LOCKED))"
                )
            };
            let deleted = sql::execute(&statement, &[self.parameter(table)]);
            (deleted, !is_filtered && deleted == ROUND_ROWS)
        }
    }
}

fn other_column(table: Table<'_>, column: &TimeColumn, time: u16) -> ! {
    let (name, now) = {
        let now = relation::attribute_name(attribute(table, time));
        (table.name(), now)
    };
    error::raise(
        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "the retention rule of table \"{name}\" goes by column \"{}\", and the table's time column is \"{now}\"",
            column.name
        ),
        "An index USING varve states the time column; without one it is the first date, timestamp or timestamptz.",
        "CREATE INDEX … USING varve (key, time) with the column of the rule, or set the rule again.",
    )
}

/// Raises what makes a table unfit for retention.
fn check_table(table: Table<'_>) {
    let name = table.name();
    let refuse = |what: &str, hint: &str| {
        error::raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("table \"{name}\" cannot have a retention rule: {what}"),
            "",
            hint,
        )
    };
    if table.kind() != Kind::Table {
        refuse(
            "it is a materialized view",
            "Give the table that it reads a rule, and refresh it.",
        );
    }
    if table.is_temporary() {
        refuse("it is temporary", "DELETE its rows by a statement.");
    }
    if table.class().relforcerowsecurity {
        refuse(
            "row level security is forced on its owner",
            "Rules run as the owner: ALTER TABLE … NO FORCE ROW LEVEL SECURITY.",
        );
    }
    if table.has_rule_on_delete() {
        refuse(
            "it has a rule ON DELETE",
            "Use a trigger in place of CREATE RULE.",
        );
    }
}

fn has_delete_triggers(table: Table<'_>) -> bool {
    table.triggers().is_some_and(|triggers| {
        triggers.trig_delete_before_row
            || triggers.trig_delete_after_row
            || triggers.trig_delete_before_statement
            || triggers.trig_delete_after_statement
            || triggers.trig_delete_old_table
    })
}

fn attribute<'a>(table: Table<'a>, number: u16) -> &'a FormData_pg_attribute {
    &table.attributes()[usize::from(number) - 1]
}

/// The first value of the time column that a rule keeps.
fn cutoff(table: Table<'_>, time: u16, rule: &Rule, now: i64) -> i64 {
    let attribute = attribute(table, time);
    let base = types::base(attribute.atttypid);
    let is_calendar = layout::is_calendar_type(base);
    let name = relation::attribute_name(attribute);
    match (is_calendar, rule.unit) {
        (true, Some(_)) => error::raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("column \"{name}\" is no integer, so it has no time unit"),
            "",
            "Leave time_unit out.",
        ),
        (false, None) => error::raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("what the integers of time column \"{name}\" count is not known"),
            "",
            "Name the time_unit, counted from 1970: 's', 'ms', 'us' or 'ns'.",
        ),
        _ => {}
    }
    let keep = Interval {
        time: rule.keep.us,
        day: rule.keep.days,
        month: rule.keep.months,
    };
    match (base, rule.unit) {
        (types::TIMESTAMPTZOID, _) => clock::earlier(now, keep),
        (types::TIMESTAMPOID | types::DATEOID, _) => {
            let cutoff = clock::earlier_here(clock::here(now), keep);
            if base == types::DATEOID {
                ceiling(cutoff, DAY_US)
            } else {
                cutoff
            }
        }
        (_, unit) => {
            let cutoff = clock::earlier(now, keep);
            unit.unwrap_or(Unit::Seconds).ceiling(cutoff + EPOCH_US)
        }
    }
}
