//! `varve.create_rollup`: a table for what is stored, a view that gives stored and computed buckets, and their entry.

use super::partitions;
use super::query::{self, Column, Defined};
use crate::catalog::access_method;
use crate::catalog::layout;
use crate::functions::errors::{raise, Code};
use crate::pg::citus;
use crate::pg::error;
use crate::pg::fcinfo::{arg_opt, guarded, null, sql_function, text_bytes};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation::{self, Kind};
use crate::pg::sql;
use crate::pg::{names, rights, types};
use crate::pg::{Datum, InvalidOid, Oid};
use crate::rollup::catalog::{self, Rollup};
use crate::rollup::label::Label;
use crate::rollup::series;
use core::ffi::CStr;
use std::ffi::CString;

sql_function! {
    /// `varve.create_rollup(name text, query text)`
    fn varve_create_rollup(fcinfo) {
        guarded(|| {
            // SAFETY: declared with these arguments.
            unsafe {
                let (Some(name), Some(query)) = (arg_opt(fcinfo, 0), arg_opt(fcinfo, 1)) else {
                    raise(
                        Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                        "a rollup needs a name and a query",
                        "",
                        "SELECT varve.create_rollup('a_name', 'SELECT time_bucket(…) …').",
                    );
                };
                let query = String::from_utf8_lossy(text_bytes(query)).into_owned();
                create(name, &query);
                null(fcinfo)
            }
        })
    }
}

/// Where the rows of a rollup come from.
pub struct Source {
    /// The varve table, in the end.
    pub root: Oid,
    /// Its time column.
    pub time_column: i16,
    /// The stored table of the rollup in between, if there is one, and its buckets.
    pub below: Oid,
    pub width: i64,
    pub over: i64,
    /// The column that tells series apart, in the varve table and in the relation in between; 0: there is none yet.
    pub key_column: i16,
    pub key_below: i16,
}

fn create(name: Datum, text: &str) {
    // SAFETY: called by a statement, with its snapshot active.
    unsafe {
        let text = query::text(text);
        let defined = query::define(&text);
        let source = source_of(defined.from, defined.time);
        check_names(&defined.columns);
        let (schema, name) = place(name);
        if names::is_temporary(schema) {
            refuse_temporary();
        }
        let stored = names::free(&name, c"stored", schema);
        let qualified = |name: &CStr| names::qualified(schema, name);
        make_table(&qualified(&stored), &defined);
        let table = names::relation_in(schema, &stored).unwrap_or(InvalidOid);
        sql::execute(&view(&qualified(&name), &qualified(&stored), &defined), &[]);
        let view = names::relation_in(schema, &name).unwrap_or(InvalidOid);
        let rollup = rollup(table, view, &defined, &source);
        enter(&rollup);
        Label::of(&rollup).write(view);
        // Who may not read the columns could never refresh it, and would keep retention of the source waiting.
        let nothing = format!("SELECT FROM {} WHERE false", qualified(&name));
        sql::execute(&nothing, &[]);
        error::notice(
            "the rollup computes everything until it is refreshed",
            "CALL varve.refresh_rollup(…) stores what is settled.",
        );
    }
}

/// Schema and name of the new view.
///
/// # Safety
/// Within a statement; `name` must be a text.
unsafe fn place(name: Datum) -> (Oid, CString) {
    // SAFETY: the name is parsed as SQL parses one; the schema is one that the user may create in.
    unsafe {
        let (schema, found) = names::of_new_relation(name);
        if names::relation_in(schema, &found).is_some() {
            raise(
                Code::ERRCODE_DUPLICATE_TABLE,
                format!("relation \"{}\" already exists", found.to_string_lossy()),
                "",
                "Choose another name, or drop what has it.",
            );
        }
        (schema, found)
    }
}

/// What is temporary goes without a word to event triggers. An entry would stay, and keep retention of the source, and TRUNCATE, from their work.
pub fn refuse_temporary() -> ! {
    raise(
        Code::ERRCODE_FEATURE_NOT_SUPPORTED,
        "rollups cannot be temporary, nor be of temporary tables",
        "Those who write to the source, and its retention, see to a rollup as long as it is there.",
        "Create it in a schema that stays.",
    )
}

/// Finds what a query of the column `time` of a relation is computed from, and whether a rollup of it can be right.
///
/// # Safety
/// Within a statement; the relation must be locked.
pub unsafe fn source_of(relation: Oid, time: i16) -> Source {
    // SAFETY: the relation was locked when the query was analysed.
    unsafe {
        let from = Open::table(relation, LockMode::AccessShare);
        // Others who write to the table do something about a rollup, as about triggers: they mark times, refuse late rows and keep
        // retention waiting.
        rights::check_trigger(from.rel().into());
        if from.rel().is_temporary() {
            refuse_temporary();
        }
        if let Some(below) = catalog::of_view(relation) {
            return stacked(&below, time);
        }
        let name = from.rel().name();
        let class = from.rel().class();
        if from.rel().kind() == Kind::Partitioned {
            partitions::await_writers(relation);
            partitions::check(relation, relation);
        } else if !access_method::is_varve(from.rel()) {
            raise(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{name}\" is neither a varve table nor a rollup"),
                "",
                "Convert it with ALTER TABLE … SET ACCESS METHOD varve.",
            );
        } else {
            partitions::await_writers(relation);
        }
        if from.rel().kind() == Kind::Table && class.relhassubclass {
            raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot make a rollup of \"{name}\""),
                "Other tables inherit from it.",
                "Make the rollup of a table of its own, or of a partitioned table.",
            );
        }
        if !from.rel().is_permanent() {
            raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot make a rollup of \"{name}\", which is temporary or unlogged"),
                "What is stored would outlast its rows.",
                "Make the rollup of a table that lasts.",
            );
        }
        if class.relrowsecurity {
            raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot make a rollup of \"{name}\", which has row-level security"),
                "The rollup would show what its owner may see.",
                "Use a view with a condition of its own on the rollup of a table without policies.",
            );
        }
        if citus::is_distributed(relation) {
            distributed(&name);
        }
        let attribute = &from.rel().attributes()[time as usize - 1];
        if !attribute.attnotnull {
            raise(
                Code::ERRCODE_NOT_NULL_VIOLATION,
                format!(
                    "time column \"{}\" of \"{name}\" is not declared NOT NULL",
                    relation::attribute_name(attribute)
                ),
                "A row without time belongs to no bucket.",
                "ALTER TABLE … ALTER COLUMN … SET NOT NULL.",
            );
        }
        Source {
            root: relation,
            time_column: time,
            below: InvalidOid,
            width: 0,
            over: 0,
            key_column: 0,
            key_below: 0,
        }
    }
}

/// Refuses a rollup of a table that Citus has distributed.
pub fn distributed(name: &str) -> ! {
    raise(
        Code::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("a rollup of \"{name}\", which Citus has distributed, cannot store anything"),
        "Writers of its shards do not tell the rollup what they change.",
        "Query the table itself.",
    )
}

/// A rollup of a rollup is computed from that one's source, in the end.
///
/// # Safety
/// As `source_of`, of the view of `below`.
unsafe fn stacked(below: &Rollup, time: i16) -> Source {
    // The bucket of a view has the number that it has in the stored table.
    if time != below.bucket_column {
        raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a rollup of a rollup must bucket its bucket",
            "",
            "Give the other rollup's bucket column to time_bucket.",
        );
    }
    // SAFETY: the source of a rollup is there as long as that is.
    unsafe { partitions::await_writers(below.source) };
    Source {
        root: below.source,
        time_column: below.time_column,
        below: below.stored,
        width: below.width_max,
        over: below.over_max,
        key_column: below.key_column,
        key_below: below.key_stored,
    }
}

fn check_names(columns: &[Column]) {
    for column in columns {
        if column.name == "?column?" || columns.iter().filter(|c| c.name == column.name).count() > 1
        {
            raise(
                Code::ERRCODE_DUPLICATE_COLUMN,
                format!(
                    "column name \"{}\" is not the name of one column",
                    column.name
                ),
                "",
                "Give each column a name of its own with AS.",
            );
        }
    }
}

/// The table of stored buckets, with a series index of the groups that can be its key.
///
/// # Safety
/// Within a statement, with its snapshot active.
unsafe fn make_table(name: &str, defined: &Defined) {
    // SAFETY: the types and collations are those of the query.
    unsafe {
        let mut columns: Vec<_> = defined.columns.iter().map(declaration).collect();
        columns[defined.bucket] += " NOT NULL";
        sql::execute(
            &format!("CREATE TABLE {name} ({}) USING varve", columns.join(", ")),
            &[],
        );
        let bucket = sql::identifier(&defined.columns[defined.bucket].name);
        let groups = defined.columns.iter().enumerate();
        let mut key: Vec<_> = groups
            .filter(|(at, column)| *at != defined.bucket && column.is_group && can_be_key(column))
            .map(|(_, column)| sql::identifier(&column.name))
            .collect();
        key.push(bucket);
        sql::execute(
            &format!("CREATE INDEX ON {name} USING varve ({})", key.join(", ")),
            &[],
        );
    }
}

fn declaration(column: &Column) -> String {
    if types::is_pseudo(column.kind) {
        raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("column \"{}\" has no type that can be stored", column.name),
            "",
            "Cast it to a type of its own.",
        );
    }
    let kind = types::full_name_of(column.kind, column.typmod);
    let mut text = format!("{} {kind}", sql::identifier(&column.name));
    if column.collation != InvalidOid {
        let name = types::collation_name(column.collation);
        text += &format!(" COLLATE {name}");
    }
    text
}

/// Has the column a type, and a collation, that a series index takes?
fn can_be_key(column: &Column) -> bool {
    types::default_class(column.kind, layout::index_am()) != InvalidOid
        && !layout::type_has_equal_values_that_differ(column.kind, column.typmod)
        && (column.collation == InvalidOid || types::is_deterministic(column.collation))
}

/// The view: stored buckets below the watermark that nothing has touched, and the query for all others.
///
/// # Safety
/// Within a statement.
unsafe fn view(name: &str, stored: &str, defined: &Defined) -> String {
    let bucket = &defined.columns[defined.bucket];
    let start = sql::identifier(&bucket.name);
    let all: Vec<_> = defined
        .columns
        .iter()
        .map(|c| sql::identifier(&c.name))
        .collect();
    let of = |prefix: &str| -> String {
        let columns: Vec<_> = all.iter().map(|c| format!("{prefix}.{c}")).collect();
        columns.join(", ")
    };
    // SAFETY: the caller's contract.
    let query = unsafe { defined.select("live.low", "live.high", "live.first", "live.last") };
    let kind = types::name_of(bucket.kind);
    let literal = stored.replace('\'', "''");
    format!(
        "CREATE VIEW {name} AS \
         SELECT {kept} FROM {stored} kept \
         WHERE kept.{start} OPERATOR(pg_catalog.<) varve.rollup_watermark('{literal}'::pg_catalog.regclass, NULL::{kind}) \
         AND NOT varve.rollup_is_live('{literal}'::pg_catalog.regclass, kept.{start}) \
         UNION ALL \
         SELECT {computed} FROM varve.rollup_live('{literal}'::pg_catalog.regclass, NULL::{kind}) live, \
         LATERAL ({query}) computed",
        kept = of("kept"),
        computed = of("computed"),
    )
}

/// A rollup of which nothing is stored.
pub fn rollup(stored: Oid, view: Oid, defined: &Defined, source: &Source) -> Rollup {
    let (key_column, key_stored) = key(defined, source);
    Rollup {
        stored,
        view,
        source: source.root,
        time_column: source.time_column,
        width_max: defined.width.saturating_add(source.width),
        over_max: defined.over.saturating_add(source.over),
        threshold: i64::MIN,
        watermark: i64::MIN,
        bucket_column: defined.bucket as i16 + 1,
        removed: i64::MIN,
        below: source.below,
        key_column,
        key_stored,
        ignores_late: false,
    }
}

/// The column that tells series apart: of the source, and of the rollup; 0 where no group does.
fn key(defined: &Defined, source: &Source) -> (i16, i16) {
    let groups = defined.columns.iter().enumerate();
    let mut keys = groups.filter(|(_, column)| {
        column.is_group && column.attribute > 0 && series::can_tell(column.kind, column.collation)
    });
    let is_direct = source.below == InvalidOid;
    let found = keys.find(|(_, column)| is_direct || column.attribute == source.key_below);
    found.map_or((0, 0), |(at, column)| {
        let of_source = if is_direct {
            column.attribute
        } else {
            source.key_column
        };
        (of_source, at as i16 + 1)
    })
}

/// Enters a rollup.
///
/// # Safety
/// Within a statement; what is stored no writer may have to know of yet.
pub unsafe fn enter(rollup: &Rollup) {
    let mut values: [Datum; 14] = [
        rollup.stored.into(),
        rollup.view.into(),
        rollup.source.into(),
        rollup.time_column.into(),
        rollup.width_max.into(),
        rollup.over_max.into(),
        rollup.threshold.into(),
        rollup.watermark.into(),
        rollup.bucket_column.into(),
        rollup.removed.into(),
        rollup.below.into(),
        rollup.key_column.into(),
        rollup.key_stored.into(),
        rollup.ignores_late.into(),
    ];
    catalog::add(&mut values, &mut [false; 14]);
    relation::invalidate(rollup.source);
}
