//! Filters of jobs: conditions on the columns of a series key, kept as text. They are read anew each time, as the table's
//! owner and with a fixed search_path, so what they name is what it names at that time.

use crate::catalog::layout::Layout;
use crate::pg::condition_text::{self, Fault};
use crate::pg::error::{self, Code};
use crate::pg::expression::columns_of;
use crate::pg::relation::{self, Table};

/// Raises what is wrong with a filter on rows of an open table. To be called by `as_owner`.
pub fn check(table: Table<'_>, layout: &Layout, filter: &str) {
    // SAFETY: nobody uses the condition when this has returned.
    let read = unsafe { condition_text::read(table, filter, c"series filter") };
    let condition = read.unwrap_or_else(|fault| refuse_text(fault));
    if condition.is_volatile() {
        refuse(
            "a series filter cannot use volatile functions",
            "It must say the same of a series whenever it is asked.",
        );
    }
    for column in columns_of(condition_text::ITS_TABLE, [condition]) {
        let is_key = u16::try_from(column).is_ok_and(|column| layout.keys.contains(&column));
        if !is_key {
            refuse_column(table, layout, column);
        }
    }
}

fn refuse_text(fault: Fault) -> ! {
    match fault {
        Fault::ZeroByte => refuse("a series filter cannot contain a zero byte", ""),
        Fault::NotOne => refuse(
            "a series filter must be one condition",
            "Write what would stand behind WHERE, such as host LIKE 'test-%'.",
        ),
        Fault::Subquery => refuse(
            "a series filter cannot use subqueries",
            "It may look at the columns of the series key only.",
        ),
    }
}

fn refuse_column(table: Table<'_>, layout: &Layout, column: i16) -> ! {
    let attributes = table.attributes();
    let name = |at: usize| relation::attribute_name(&attributes[at]);
    let used = match usize::try_from(column) {
        Ok(0) => "the whole row".to_string(),
        Ok(column) => format!("column \"{}\"", name(column - 1)),
        Err(_) => "a system column".to_string(),
    };
    let keys: Vec<String> = layout
        .keys
        .iter()
        .map(|&key| name(usize::from(key) - 1))
        .collect();
    let hint = if keys.is_empty() {
        "The table has no series key; CREATE INDEX … USING varve (key, time) states one."
            .to_string()
    } else {
        format!("The series key is ({}).", keys.join(", "))
    };
    error::raise(
        Code::ERRCODE_INVALID_COLUMN_REFERENCE,
        format!("a series filter cannot use {used}, which is not of the series key"),
        "",
        &hint,
    )
}

fn refuse(message: &str, hint: &str) -> ! {
    error::raise(Code::ERRCODE_FEATURE_NOT_SUPPORTED, message, "", hint)
}
