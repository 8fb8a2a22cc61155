//! Of which columns of a key, or of an ordinary index, a series index can be made.

use crate::catalog::layout;
use crate::pg::relation::{Index, Table};
use crate::pg::types;
use crate::pg::{FormData_pg_attribute, InvalidOid};

/// The key's last calendar column as time, behind its other columns in their order. Integers are not taken for times here: a
/// key of ids would become a series index. None where there is no such column, or a type that a series index does not take.
///
/// # Safety
/// Both must be open, and `unique` a plain key of `table`.
pub unsafe fn of(table: Table<'_>, unique: Index<'_>) -> Option<Vec<u16>> {
    let attributes = table.attributes();
    let mut columns = layout::index_columns(unique);
    let all = columns.iter().enumerate();
    let attribute = |column: u16| attributes.get(usize::from(column).checked_sub(1)?);
    for (at, &column) in all.clone() {
        if !can_be_indexed(unique, at, attribute(column)?) {
            return None;
        }
    }
    let time = all
        .rev()
        .find(|&(_, &column)| {
            attribute(column)
                .is_some_and(|found| layout::is_calendar_type(types::base(found.atttypid)))
        })?
        .0;
    let time = columns.remove(time);
    columns.push(time);
    Some(columns)
}

/// The columns of an ordinary btree that says what a series index says: a calendar column at its end, and others before it. Its order
/// may be a descending one, which a series index is read in as well. None for any other index.
///
/// Both must be open, and `index` one of `table`.
pub fn of_ordinary(table: Table<'_>, index: Index<'_>) -> Option<Vec<u16>> {
    if !layout::is_ordinary_btree(index) {
        return None;
    }
    let attributes = table.attributes();
    let columns = layout::index_columns(index);
    let (&time, keys) = columns.split_last()?;
    let distinct = columns
        .iter()
        .enumerate()
        .all(|(at, column)| !columns[..at].contains(column));
    let is_taken = |(at, &column): (usize, &u16)| {
        let attribute = attributes.get(usize::from(column).wrapping_sub(1));
        attribute.is_some_and(|attribute| can_be_indexed(index, at, attribute))
    };
    let is_time = layout::is_calendar_type(types::base(
        attributes.get(usize::from(time).wrapping_sub(1))?.atttypid,
    ));
    let fits = !keys.is_empty() && distinct && is_time;
    (fits && columns.iter().enumerate().all(is_taken)).then_some(columns)
}

/// Does a series index take the column of a key, from 0, and mean the same by "equal"?
fn can_be_indexed(unique: Index<'_>, at: usize, attribute: &FormData_pg_attribute) -> bool {
    let class = types::default_class(attribute.atttypid, layout::index_am());
    let collation = attribute.attcollation;
    class != InvalidOid
        && (collation == InvalidOid || types::is_deterministic(collation))
        && !layout::has_equal_values_that_differ(attribute)
        && layout::equality_is(unique, at, class)
}

/// The columns of the series index that an index would bring, if nothing else stood for it.
///
/// Both must be open, and `index` one of `table`.
pub fn columns_to_bring(table: Table<'_>, index: Index<'_>) -> Option<Vec<u16>> {
    // SAFETY: table and index are open.
    unsafe {
        match layout::is_plain_key(index) {
            true => of(table, index),
            false => of_ordinary(table, index),
        }
    }
}
