//! CREATE INDEX for what an automatic index already is. A dump makes keys first, and so their automatic indexes, and then all indexes by name.

use super::existing::auto_indexes;
use crate::catalog::{index_options, layout};
use crate::pg::dependencies;
use crate::pg::index_change;
use crate::pg::index_statement::CreateIndex;
use crate::pg::names;
use crate::pg::open::OpenIndex;
use crate::pg::relation::Table;
use crate::pg::relation_lookup;
use crate::pg::transaction;
use crate::pg::Oid;
use std::ffi::{CStr, CString};

/// If the statement wants an automatic index of the table, as a dump does, there it is; if it wants a series index like it, the
/// automatic index becomes that and is tied to its key no more. Either way it gets the name that is wanted, and core finds it there.
/// The statement must be a CREATE INDEX for a series index of the table.
///
/// # Safety
/// As `CreateIndex::accept`.
pub unsafe fn adopt(statement: CreateIndex<'_>, table: Table<'_>) {
    if !relation_lookup::is_owned(table.oid()) {
        return;
    }
    let Some(wanted) = Wanted::by(statement) else {
        return;
    };
    let Some(auto_index) = find(table, &wanted) else {
        return;
    };
    let name = match wanted.name {
        Some(name) => name,
        None => default_name(table, &wanted.columns),
    };
    if !rename(auto_index, &name, table) {
        return;
    }
    if !wanted.of_key {
        release(auto_index, table);
    }
    // SAFETY: the statement is as `accept` wants it, which the caller has seen to.
    unsafe { statement.accept(&name) };
}

/// A series index that is defined by nothing but its columns, and perhaps as an automatic index.
struct Wanted {
    name: Option<CString>,
    columns: Vec<CString>,
    of_key: bool,
}

impl Wanted {
    fn by(statement: CreateIndex<'_>) -> Option<Wanted> {
        let is_more = statement.is_unique()
            || statement.has_more_than_columns()
            || !statement.columns().all(|column| column.is_plain());
        if is_more {
            return None;
        }
        let mut of_key = false;
        for parameter in statement.parameters() {
            if parameter.name() != index_options::OF_KEY {
                return None;
            }
            of_key = parameter.boolean();
        }
        let named = statement.columns().filter_map(|column| column.name());
        Some(Wanted {
            name: statement.name().map(CStr::to_owned),
            columns: named.map(CStr::to_owned).collect(),
            of_key,
        })
    }
}

/// The automatic index of these columns, by name if there are several.
fn find(table: Table<'_>, wanted: &Wanted) -> Option<Oid> {
    let oid = table.oid();
    let number = |column: &CString| relation_lookup::column_named(oid, column) as u16;
    let columns: Vec<u16> = wanted.columns.iter().map(number).collect();
    let mut found = auto_indexes(table);
    found.retain(|index| layout::index_columns(index.rel()) == columns);
    let is_named = |index: &OpenIndex| wanted.name.as_deref() == Some(index.rel().stored_name());
    found.sort_by_key(|index| !is_named(index));
    found.first().map(|index| index.rel().oid())
}

/// The name that core would choose.
fn default_name(table: Table<'_>, columns: &[CString]) -> CString {
    let columns: Vec<_> = columns.iter().map(|column| column.to_bytes()).collect();
    let mut columns = columns.join(&b'_');
    columns.truncate(names::LONGEST);
    let columns = CString::new(columns).expect("BUG: a name has a zero in it");
    let schema = table.class().relnamespace;
    names::free_of_columns(table.stored_name(), &columns, c"idx", schema)
}

/// Gives the automatic index a name; false where something else has it.
fn rename(auto_index: Oid, name: &CStr, table: Table<'_>) -> bool {
    let other = names::relation_in(table.class().relnamespace, name);
    if other.is_none() {
        index_change::rename(auto_index, name);
        transaction::next_command();
    }
    other.is_none_or(|other| other == auto_index)
}

/// Makes an index of its own of an automatic index.
fn release(auto_index: Oid, table: Table<'_>) {
    // Event triggers of others hear of CREATE INDEX, not of this.
    index_change::reset(auto_index, index_options::OF_KEY);
    for key in table.index_oids() {
        dependencies::remove(auto_index, key);
    }
    transaction::next_command();
}
