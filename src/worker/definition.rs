//! Definitions of jobs. What somebody has set for a table is kept in the table's security label of provider `varve`, as JSON:
//! there it goes with the table, follows its name, is dumped with it by whoever may dump it, is restored by its owner, and no
//! publication asks for it (docs/design/0015). That a table is compacted needs no saying.

use super::run;
use crate::catalog::access_method;
use crate::chunk::job_states;
use crate::compact::expire::{Rule, Span, TimeColumn, Unit};
use crate::compact::windows::{self, Kept};
use crate::functions::rollup::restored;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::names;
use crate::pg::open::Open;
use crate::pg::relation_lookup;
use crate::pg::security_label::{self, Provider};
use crate::pg::transaction;
use crate::pg::Oid;
use crate::rollup::catalog;
use serde_json::{json, Value};
use std::ffi::{CStr, CString};

const PROVIDER: &CStr = c"varve";
const TABLE_AM: &CStr = c"varve";

/// Jobs of one table are numbered from 0; so many can have numbers.
pub const NUMBERS: i64 = job_states::OF_A_TABLE;
/// The number of a rollup's refresh. Rules of retention have those below.
pub const REFRESH: i64 = NUMBERS - 1;

/// What a job does: compaction, number 0; a rule of retention; or the refresh of a rollup, on the table that stores its buckets.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    Compact,
    Expire(Rule),
    Refresh,
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Compact => "compact",
            Kind::Expire(_) => "expire",
            Kind::Refresh => "refresh",
        }
    }

    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Kind::Compact | Kind::Refresh => None,
            Kind::Expire(rule) => Some(rule),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    pub table: Oid,
    pub number: i64,
    pub kind: Kind,
    /// How often it runs; None: when there is something to do.
    pub every: Option<Span>,
    pub enabled: bool,
}

impl Job {
    /// The compaction of a table as it is when nobody has said anything.
    pub fn compaction(table: Oid) -> Job {
        Job {
            table,
            number: 0,
            kind: Kind::Compact,
            every: None,
            enabled: true,
        }
    }

    /// The refresh of a rollup as it is when nobody has said anything.
    pub fn refreshing(stored: Oid) -> Job {
        Job {
            number: REFRESH,
            kind: Kind::Refresh,
            ..Job::compaction(stored)
        }
    }

    /// The number by which users call it: the table's OID and the job's own number.
    pub fn id(&self) -> i64 {
        i64::from(self.table.to_u32()) * NUMBERS + self.number
    }

    /// The job of that id, if there is one.
    pub fn find(id: i64) -> Option<Job> {
        let table = u32::try_from(id / NUMBERS).ok()?;
        let jobs = of(Oid::from(table));
        jobs.into_iter().find(|job| job.id() == id)
    }
}

/// The jobs of a varve table; none of anything else.
pub fn of(table: Oid) -> Vec<Job> {
    if !is_varve(table) {
        return Vec::new();
    }
    let mut jobs = stored(table);
    if !jobs.iter().any(|job| job.number == 0) {
        jobs.insert(0, Job::compaction(table));
    }
    let is_stored = catalog::source_of(table).is_some();
    if is_stored && !jobs.iter().any(|job| job.kind == Kind::Refresh) {
        jobs.push(Job::refreshing(table));
    }
    jobs.retain(|job| is_stored || job.kind != Kind::Refresh);
    jobs
}

fn is_varve(table: Oid) -> bool {
    let method = names::access_method(TABLE_AM);
    relation_lookup::has_rows(table) && relation_lookup::access_method(table) == Some(method)
}

fn stored(table: Oid) -> Vec<Job> {
    let text = security_label::read(table, PROVIDER);
    text.and_then(|text| parse(table, &text))
        .unwrap_or_default()
}

/// Stores the jobs of a table that differ from what needs no saying.
///
/// # Safety
/// Inside a transaction that holds the lock of compact on the table.
pub unsafe fn store(table: Oid, jobs: &[Job]) {
    let said: Vec<Value> = jobs
        .iter()
        .filter(|job| **job != Job::compaction(table) && **job != Job::refreshing(table))
        .map(to_json)
        .collect();
    let label = CString::new(Value::Array(said.clone()).to_string()).unwrap_or_default();
    security_label::write(
        table,
        PROVIDER,
        Some(&label)
            .filter(|_| !said.is_empty())
            .map(|label| &**label),
    );
    transaction::next_command();
}

fn to_json(job: &Job) -> Value {
    let span = |span: &Span| json!([span.months, span.days, span.us]);
    let mut out = json!({"n": job.number, "kind": job.kind.name(), "enabled": job.enabled});
    if let Some(every) = &job.every {
        out["every"] = span(every);
    }
    if let Some(rule) = job.kind.rule() {
        out["keep"] = span(&rule.keep);
        if let Some(filter) = &rule.filter {
            out["filter"] = json!(filter);
        }
        if let Some(unit) = rule.unit {
            out["unit"] = json!(unit.name());
        }
        if let Some(column) = &rule.column {
            out["column"] = json!([column.number, column.name]);
        }
    }
    out
}

fn parse(table: Oid, text: &str) -> Option<Vec<Job>> {
    let all: Value = serde_json::from_str(text).ok()?;
    all.as_array()?
        .iter()
        .map(|job| job_of(table, job))
        .collect()
}

fn job_of(table: Oid, value: &Value) -> Option<Job> {
    let number = value["n"].as_i64().filter(|n| (0..NUMBERS).contains(n))?;
    let text = |name: &str| match &value[name] {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone())),
        _ => None,
    };
    let kind = match value["kind"].as_str()? {
        "compact" if number == 0 => Kind::Compact,
        "refresh" if number == REFRESH => Kind::Refresh,
        "expire" if number > 0 && number < REFRESH => Kind::Expire(Rule {
            keep: span_of(&value["keep"])?,
            filter: text("filter")?,
            unit: match text("unit")? {
                None => None,
                Some(name) => Some(Unit::named(&name)?),
            },
            column: match &value["column"] {
                Value::Null => None,
                column => Some(column_of(column)?),
            },
        }),
        _ => return None,
    };
    let every = match &value["every"] {
        Value::Null => None,
        every => Some(span_of(every)?),
    };
    Some(Job {
        table,
        number,
        kind,
        every,
        enabled: value["enabled"].as_bool()?,
    })
}

fn column_of(value: &Value) -> Option<TimeColumn> {
    let [number, name] = value.as_array()?.as_slice() else {
        return None;
    };
    Some(TimeColumn {
        number: u16::try_from(number.as_u64()?).ok()?,
        name: name.as_str()?.to_string(),
    })
}

fn span_of(value: &Value) -> Option<Span> {
    let [months, days, us] = value.as_array()?.as_slice() else {
        return None;
    };
    let span = Span {
        months: i32::try_from(months.as_i64()?).ok()?,
        days: i32::try_from(days.as_i64()?).ok()?,
        us: us.as_i64()?,
    };
    (span.months >= 0 && span.days >= 0 && span.us >= 0).then_some(span)
}

pub fn init() {
    security_label::register::<Labels>();
    windows::ask_for_retention(kept);
}

/// What the retention rules of a table keep.
fn kept(table: Oid) -> Vec<Kept> {
    let jobs = stored(table);
    let rules = jobs.iter().filter(|job| job.enabled);
    rules
        .filter_map(|job| job.kind.rule())
        .map(|rule| (rule.keep, rule.unit))
        .collect()
}

/// The labels of provider `varve`.
struct Labels;

impl Provider for Labels {
    const NAME: &'static CStr = PROVIDER;

    fn check(relation: Option<Oid>, label: Option<String>) {
        check_label(relation, label);
    }
}

/// SECURITY LABEL FOR varve, as a dump has it. The owner's right to it core has checked.
fn check_label(relation: Option<Oid>, label: Option<String>) {
    if let Some(view) = relation.filter(|&relation| relation_lookup::is_view(relation)) {
        // pg_upgrade brings the files of our catalogs afterwards, with what is in them.
        if let (Some(label), false) = (label, transaction::is_binary_upgrade()) {
            // SAFETY: core has locked the view.
            unsafe { restored::attach(view, &label) };
        }
        return;
    }
    let table = relation.filter(|&relation| relation_lookup::has_rows(relation));
    let Some(open) = table.and_then(|table| Open::existing_table(table, LockMode::AccessShare))
    else {
        error::raise(
            Code::ERRCODE_WRONG_OBJECT_TYPE,
            "security labels of provider \"varve\" are for varve tables",
            "They hold the definitions of a table's jobs.",
            "Use varve.set_retention and varve.alter_job.",
        );
    };
    let Some(label) = label else {
        return;
    };
    let table = open.rel();
    let Some(jobs) = parse(table.oid(), &label) else {
        error::raise(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "invalid definitions of jobs",
            "",
            "Use varve.set_retention and varve.alter_job, which write this label.",
        );
    };
    // A table that has become a heap keeps its label, and a dump has it. pg_upgrade brings what is known of jobs afterwards.
    if access_method::is_varve(table) && !transaction::is_binary_upgrade() {
        // SAFETY: core has locked the table as compact does.
        jobs.iter().for_each(|job| unsafe { run::put_off(job) });
    }
}
