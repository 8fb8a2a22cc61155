//! The layout of a table: its series key and time column. Stated by a series index or a key whose last
//! column is a time; otherwise inferred from the column types.

use super::index_options;
use crate::guc;
use crate::pg::catalogs;
use crate::pg::lock_mode::LockMode;
use crate::pg::names;
use crate::pg::nbtree::strategy;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{Index, Table};
use crate::pg::types::{
    self, BPCHAROID, DATEOID, INT2OID, INT4OID, INT8OID, NAMEOID, TEXTOID, TIMESTAMPOID,
    TIMESTAMPTZOID, UUIDOID, VARCHAROID,
};
use crate::pg::{FormData_pg_attribute, InvalidOid, Oid};

/// Name of the index access method; `USING varve` on an index is translated to it.
pub const INDEX_AM: &core::ffi::CStr = c"varve_series";

/// Attribute numbers (from 1). Rows of a chunk are sorted by (keys, time).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    pub keys: Vec<u16>,
    pub time: Option<u16>,
}

/// OID of the index access method, invalid while the extension is being created.
pub fn index_am() -> Oid {
    names::access_method(INDEX_AM)
}

/// Types whose values are stored as integers in the order of their comparison.
pub fn is_time_type(base: Oid) -> bool {
    matches!(
        base,
        TIMESTAMPTZOID | TIMESTAMPOID | DATEOID | INT8OID | INT4OID | INT2OID
    )
}

/// Types that say when, whatever a column is called.
pub fn is_calendar_type(base: Oid) -> bool {
    matches!(base, TIMESTAMPTZOID | TIMESTAMPOID | DATEOID)
}

fn is_inferred_key(base: Oid) -> bool {
    matches!(base, TEXTOID | VARCHAROID | BPCHAROID | NAMEOID | UUIDOID) || types::is_enum(base)
}

/// The table's columns in an index's key, from 1; 0 for an expression.
pub fn index_columns(index: Index<'_>) -> Vec<u16> {
    // SAFETY: the index is open.
    unsafe { entry_columns(index, index.form().indnkeyatts) }
}

/// The same, and the columns that the index includes beyond its key.
pub fn all_index_columns(index: Index<'_>) -> Vec<u16> {
    // SAFETY: the index is open.
    unsafe { entry_columns(index, index.form().indnatts) }
}

/// The first columns of an index, from 1; 0 for an expression.
///
/// # Safety
/// The index must have so many.
unsafe fn entry_columns(index: Index<'_>, count: i16) -> Vec<u16> {
    // SAFETY: the callers' contract; indkey has `indnatts` columns, those of the key first.
    let columns = unsafe {
        let start = index.form().indkey.values.as_ptr();
        core::slice::from_raw_parts(start, count as usize)
    };
    columns.iter().map(|&number| number as u16).collect()
}

/// The layout of an open table.
pub fn of(table: Table<'_>) -> Layout {
    match leading_series_index(table) {
        Some(index) => of_index(index.rel()),
        None => infer(table),
    }
}

/// What a series index states.
pub fn of_index(index: Index<'_>) -> Layout {
    let mut keys = index_columns(index);
    let time = keys.pop();
    Layout { keys, time }
}

/// The series index that states the layout: one that came with a key, which nothing else finds fast; else the oldest.
fn leading_series_index(table: Table<'_>) -> Option<OpenIndex> {
    let series = index_am();
    let mut all: Vec<OpenIndex> = table
        .index_oids()
        .into_iter()
        .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
        .filter(|index| index.rel().class().relam == series)
        .collect();
    // OIDs come in ascending order, which the sort keeps.
    all.sort_by_key(|index| !index_options::is_of_key(index.rel()));
    all.into_iter().next()
}

/// The first calendar column is time; text-like, uuid and enum columns are the key.
fn infer(table: Table<'_>) -> Layout {
    let mut layout = Layout::default();
    let attributes = table.attributes();
    for (at, attribute) in attributes.iter().enumerate() {
        if attribute.attisdropped {
            continue;
        }
        let base = types::base(attribute.atttypid);
        let number = at as u16 + 1;
        if layout.time.is_none() && is_calendar_type(base) {
            layout.time = Some(number);
        } else if is_inferred_key(base) {
            layout.keys.push(number);
        }
    }
    if layout.time.is_none() {
        layout.keys.clear();
    }
    layout
}

/// Must new rows of the table stay in its tail? True with an exclusion constraint, and with a unique index whose keys cannot be
/// found in chunks (docs/design/0023, 0009); in torture mode one looks at all of them.
pub fn keeps_rows_in_tail(table: Table<'_>) -> bool {
    let series = series_indexes(table);
    any_index(table, |index| {
        let form = index.form();
        (form.indisunique || form.indisexclusion)
            && series_index_of_key(index, &series).is_none()
            && !(guc::is_torture() && is_plain_key(index))
    })
}

/// May others write chunks of the table at any time?
pub fn can_get_chunks(table: Table<'_>) -> bool {
    !keeps_rows_in_tail(table) && (guc::is_torture() || of(table).time.is_some())
}

/// The table's series indexes that may be read.
pub fn series_indexes(table: Table<'_>) -> Vec<OpenIndex> {
    series_indexes_that(table, |index| index.form().indisvalid)
}

/// The table's series indexes that rows are entered into.
pub fn written_series_indexes(table: Table<'_>) -> Vec<OpenIndex> {
    series_indexes_that(table, |index| index.form().indisready)
}

fn series_indexes_that(table: Table<'_>, wanted: impl Fn(Index<'_>) -> bool) -> Vec<OpenIndex> {
    let series = index_am();
    table
        .index_oids()
        .into_iter()
        .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
        .filter(|index| index.rel().class().relam == series && wanted(index.rel()))
        .collect()
}

/// Is uniqueness a matter of whole keys of columns? Not with a predicate, expressions, or NULLS NOT DISTINCT.
pub fn is_plain_key(unique: Index<'_>) -> bool {
    is_key_of_columns(unique) && !treats_nulls_as_equal(unique)
}

/// The same, but nulls may be equal.
pub fn is_key_of_columns(unique: Index<'_>) -> bool {
    let form = unique.form();
    form.indisunique
        && !form.indisexclusion
        && has_no_predicate(unique)
        && !index_columns(unique).contains(&0)
}

/// Which of the series indexes of a table finds the rows of chunks that have the key of an entry of `unique`, a plain key: one
/// whose columns, time included, are all among the key's, and mean the same by "equal".
pub fn series_index_of_key(unique: Index<'_>, series: &[OpenIndex]) -> Option<Oid> {
    if !is_plain_key(unique) {
        return None;
    }
    let columns = index_columns(unique);
    let found = series.iter().find(|index| {
        let index = index.rel();
        index_columns(index).iter().enumerate().all(|(at, column)| {
            let in_key = columns.iter().position(|other| other == column);
            in_key.is_some_and(|key| means_the_same(index, at, unique, key))
        })
    })?;
    Some(found.rel().oid())
}

/// Has an index an entry for every row of its table?
fn has_no_predicate(index: Index<'_>) -> bool {
    !index.has_predicate()
}

/// Is a unique index made with NULLS NOT DISTINCT?
pub fn treats_nulls_as_equal(unique: Index<'_>) -> bool {
    unique.form().indnullsnotdistinct
}

/// Are values equal for one column of an index, from 0, if and only if they are for one of the other? Series indexes tell keys
/// apart by their bytes, so they have no types whose equal values differ in them.
fn means_the_same(series: Index<'_>, at: usize, unique: Index<'_>, key: usize) -> bool {
    let (family, class) = (series.operator_family(at), series.input_type(at));
    is_equality(unique, key, equality(family, class))
}

/// Does a column of an index, from 0, mean the same by "equal" as an operator class?
pub fn equality_is(unique: Index<'_>, key: usize, class: Oid) -> bool {
    let (family, input) = types::of_class(class);
    is_equality(unique, key, equality(family, input))
}

fn is_equality(unique: Index<'_>, key: usize, operator: Oid) -> bool {
    let (family, class) = (unique.operator_family(key), unique.input_type(key));
    let collation = unique.collation(key);
    operator != InvalidOid
        && operator == equality(family, class)
        && (collation == InvalidOid || types::is_deterministic(collation))
}

fn equality(family: Oid, class: Oid) -> Oid {
    types::operator(family, class, strategy::EQUAL)
}

/// Can values of a column that its type takes for equal have different bytes, as char(n) without its n?
pub fn has_equal_values_that_differ(attribute: &FormData_pg_attribute) -> bool {
    type_has_equal_values_that_differ(attribute.atttypid, attribute.atttypmod)
}

/// The same of a type, which must exist, and what belongs to it.
pub fn type_has_equal_values_that_differ(kind: Oid, typmod: i32) -> bool {
    let base = types::base(kind);
    base == BPCHAROID && typmod < 0
}

/// Has the table a unique, primary key or exclusion index?
pub fn has_constraint_index(table: Table<'_>) -> bool {
    any_index(table, |index| {
        let form = index.form();
        form.indisunique || form.indisexclusion
    })
}

/// Is a unique index about to go by DROP INDEX CONCURRENTLY? Transactions that still believe in it may use
/// other ordinary indexes as if the table could have no chunks.
pub fn loses_unique_index(table: Table<'_>) -> bool {
    let mut loses = false;
    catalogs::each_index(table.oid(), |form| {
        loses |= !form.indislive && (form.indisunique || form.indisexclusion);
    });
    loses
}

/// Are all indexes of the table series indexes?
pub fn has_only_series_indexes(table: Table<'_>) -> bool {
    let series = index_am();
    table.index_oids().into_iter().all(|oid| {
        let index = OpenIndex::open(oid, LockMode::AccessShare);
        index.rel().class().relam == series
    })
}

/// Has the table a series index, valid or not?
pub fn has_series_index(table: Table<'_>) -> bool {
    any_index(table, is_series)
}

/// Has the table an ordinary index?
pub fn has_ordinary_index(table: Table<'_>) -> bool {
    any_index(table, is_ordinary)
}

/// Is it a series index?
pub fn is_series(index: Index<'_>) -> bool {
    index.class().relam == index_am()
}

/// Is the index neither a series index nor unique?
pub fn is_ordinary(index: Index<'_>) -> bool {
    !is_series(index) && !index.form().indisunique
}

/// Is it a btree, neither a series index nor unique, that has an entry of columns, and no expressions, for each row?
pub fn is_ordinary_btree(index: Index<'_>) -> bool {
    index.is_btree()
        && is_ordinary(index)
        && has_no_predicate(index)
        && !index_columns(index).contains(&0)
}

/// Would the table have a time column without any series index?
pub fn has_calendar_column(table: Table<'_>) -> bool {
    infer(table).time.is_some()
}

fn any_index(table: Table<'_>, wanted: impl Fn(Index<'_>) -> bool) -> bool {
    table.index_oids().into_iter().any(|oid| {
        let index = OpenIndex::open(oid, LockMode::AccessShare);
        wanted(index.rel())
    })
}
