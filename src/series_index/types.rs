//! Types of the columns that CREATE INDEX names: an error that says which column cannot be in a series index, why, and what to do.

use crate::catalog::layout;
use crate::pg::error::{self, Code};
use crate::pg::index_statement::{CreateIndex, IndexColumn};
use crate::pg::relation::{self, Table};
use crate::pg::types;
use crate::pg::{FormData_pg_attribute, InvalidOid};

pub const SHAPE: &str = "A series index names the columns of the series key, then the time column: CREATE INDEX ON t USING varve (key, time).";
const TIMES: &str = "Times are of type timestamptz, timestamp, date, bigint, integer or smallint.";
const KEYS: &str = "Leave the column out, or keep its value in a generated column of type text. Types of keys are boolean, \"char\", name, smallint, integer, bigint, oid, text, varchar, char(n), bytea, uuid, inet, cidr, macaddr, macaddr8, date, timestamp, timestamptz and enums.";

/// Raises the error of what no series index can be.
pub fn refuse(message: impl Into<String>, detail: &str, hint: &str) -> ! {
    error::raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, detail, hint)
}

/// Raises an error where a column is of a type without an operator class for series indexes, before core does. The statement must be a
/// CREATE INDEX for a series index of the table.
pub fn check(statement: CreateIndex<'_>, table: Table<'_>) {
    let elements = statement.columns();
    let columns: Option<Vec<&FormData_pg_attribute>> = elements
        .map(|element| attribute_of(table, element))
        .collect();
    let Some((last, keys)) = columns.as_deref().and_then(|columns| columns.split_last()) else {
        // Expressions, and columns that are not there, are found by others.
        return;
    };
    if let Some(key) = keys.iter().find(|key| !has_class(key)) {
        refuse_key(key);
    }
    if !has_class(last) {
        let numbers: Vec<i16> = keys
            .iter()
            .chain([last])
            .map(|column| column.attnum)
            .collect();
        refuse_time(table, &numbers, last);
    }
}

/// The column that an element names, if it is one, and no operator class is asked for.
fn attribute_of<'a>(
    table: Table<'a>,
    element: IndexColumn<'_>,
) -> Option<&'a FormData_pg_attribute> {
    let name = element.name().filter(|_| !element.has_class())?;
    let is_it = |attribute: &&FormData_pg_attribute| {
        !attribute.attisdropped && relation::stored_attribute_name(attribute) == name
    };
    table.attributes().iter().find(is_it)
}

fn has_class(attribute: &FormData_pg_attribute) -> bool {
    types::default_class(attribute.atttypid, layout::index_am()) != InvalidOid
}

fn refuse_key(attribute: &FormData_pg_attribute) -> ! {
    let name = relation::attribute_name(attribute);
    let type_name = types::name_of(attribute.atttypid);
    let example = match types::base(attribute.atttypid) {
        types::NUMERICOID => "1.0 and 1.00 are equal, but not the same bytes.",
        types::FLOAT4OID | types::FLOAT8OID => "0 and -0 are equal, but not the same bytes.",
        types::JSONBOID => "[1.0] and [1.00] are equal, but not the same bytes.",
        types::INTERVALOID => "24 hours and 1 day are equal, but not the same bytes.",
        _ => "nothing says of this type that equal values are the same bytes.",
    };
    refuse(
        format!("key column \"{name}\" of a series index is of type {type_name}"),
        &format!("Series are told apart by the bytes of their keys, and {example}"),
        KEYS,
    )
}

/// Raises an error for a last column that is not a time, and says how the table's time can be named.
/// `columns` are numbers of its columns, 0 for an expression.
pub fn refuse_time(table: Table<'_>, columns: &[i16], last: &FormData_pg_attribute) -> ! {
    let attributes = table.attributes();
    let is_time = |attribute: &&FormData_pg_attribute| {
        let base = types::base(attribute.atttypid);
        !attribute.attisdropped && layout::is_calendar_type(base)
    };
    let of = |number: &i16| attributes.get((*number as usize).checked_sub(1)?);
    let named: Vec<_> = columns.iter().filter_map(of).collect();
    let time = named.iter().copied().find(is_time);
    let hint = match time.or_else(|| attributes.iter().find(is_time)) {
            Some(time) => {
                let keys = named
                    .iter()
                    .filter(|key| key.attnum != time.attnum && has_class(key));
                let list: Vec<_> = keys.copied().chain([time]).map(relation::quoted_attribute_name).collect();
                format!(
                    "Name the time column last: CREATE INDEX ON {} USING varve ({}).",
                    table.qualified_name(),
                    list.join(", ")
                )
            }
            None => format!(
                "{SHAPE} ALTER TABLE … ALTER COLUMN … TYPE timestamptz USING to_timestamp(…) makes a time of seconds."
            ),
        };
    refuse(
        format!(
            "last column \"{}\" of a series index is not a time",
            relation::attribute_name(last)
        ),
        TIMES,
        &hint,
    )
}
