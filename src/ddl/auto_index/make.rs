//! Making the automatic index of a key, or of an ordinary index.

use super::existing::open_varve;
use crate::catalog::auto_index_columns;
use crate::catalog::{index_options, layout};
use crate::pg::dependencies;
use crate::pg::error;
use crate::pg::index_statement::NewIndex;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags;
use crate::pg::names;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{self, Index, Table};
use crate::pg::relation_lookup;
use crate::pg::sql;
use crate::pg::transaction;
use crate::pg::Oid;
use std::ffi::CString;

/// Makes one where an index of a varve table is a key that needs one, or an ordinary one that says what the only series index should be.
/// The statement must have locked both.
pub fn auto_index(table: Oid, key: Oid) {
    // The plan closes what it has opened: core insists that nobody uses the table.
    if Plan::of(table, key).is_none() {
        return;
    }
    // Somebody else may be making an index of the table, and its automatic index.
    lock_tags::lock_as_object(table, LockMode::Exclusive);
    let Some(plan) = Plan::of(table, key) else {
        return;
    };
    plan.announce();
    let made = plan.make(table);
    transaction::next_command();
    if plan.is_of_key {
        dependencies::record(made, key);
        transaction::next_command();
    }
}

/// Tells who made a key, or an index like a series index, CONCURRENTLY, and so wants nobody to wait for an index to be built, what it takes to compress its table.
/// Is there anything to tell?
pub fn advise(table: Oid) -> bool {
    let Some(open) = open_varve(table) else {
        return false;
    };
    let keys = open.rel().index_oids().into_iter();
    let plans: Vec<_> = keys.filter_map(|key| Plan::of(table, key)).collect();
    for plan in &plans {
        let (kind, so) = match plan.is_of_key {
            true => ("unique index", ", so its rows stay uncompressed"),
            false => ("index", " beside it, which queries of its chunks could use"),
        };
        error::notice(
            format!(
                "{kind} \"{}\" of varve table \"{}\" has no series index{so}",
                plan.key, plan.table
            ),
            &format!(
                "CREATE INDEX CONCURRENTLY ON {} USING varve ({});",
                plan.quoted_table,
                plan.list()
            ),
        );
    }
    !plans.is_empty()
}

struct Plan {
    is_of_key: bool,
    key: String,
    table: String,
    quoted_table: String,
    name: CString,
    tablespace: CString,
    columns: Vec<CString>,
}

impl Plan {
    fn of(table: Oid, key: Oid) -> Option<Plan> {
        let open = open_varve(table)?;
        if !relation_lookup::is_btree(key) {
            return None;
        }
        let unique = OpenIndex::open(key, LockMode::AccessShare);
        let (rel, unique) = (open.rel(), unique.rel());
        let is_of_key = layout::is_plain_key(unique);
        let columns = match unique.form().indisvalid {
            true if is_of_key => Self::columns_of_key(rel, unique),
            true => Self::columns_of_ordinary(rel, unique),
            false => None,
        }?;
        let attributes = rel.attributes();
        let name_of = |column: u16| {
            let attribute = &attributes[usize::from(column) - 1];
            relation::stored_attribute_name(attribute).to_owned()
        };
        let class = unique.class();
        Some(Plan {
            is_of_key,
            key: unique.name(),
            table: rel.name(),
            quoted_table: rel.qualified_name(),
            name: names::free(unique.stored_name(), c"series", class.relnamespace),
            tablespace: names::tablespace(class.reltablespace),
            columns: columns.into_iter().map(name_of).collect(),
        })
    }

    /// Of a key that no series index finds in chunks.
    fn columns_of_key(table: Table<'_>, unique: Index<'_>) -> Option<Vec<u16>> {
        // SAFETY: table and index are open.
        unsafe {
            let series = layout::series_indexes(table);
            match layout::series_index_of_key(unique, &series) {
                Some(_) => None,
                None => auto_index_columns::of(table, unique),
            }
        }
    }

    /// Of an index of a table that is compressed, and without any series index.
    fn columns_of_ordinary(table: Table<'_>, index: Index<'_>) -> Option<Vec<u16>> {
        let columns = auto_index_columns::of_ordinary(table, index)?;
        let is_wanted = !layout::has_series_index(table) && !layout::keeps_rows_in_tail(table);
        is_wanted.then_some(columns)
    }

    fn announce(&self) {
        let kind = if self.is_of_key { "key" } else { "index" };
        error::notice(
            format!(
                "{kind} \"{}\" of varve table \"{}\" brings series index \"{}\" on ({})",
                self.key,
                self.table,
                self.name.to_string_lossy(),
                self.list()
            ),
            "",
        );
    }

    /// The columns as SQL.
    fn list(&self) -> String {
        let quoted = |column: &CString| sql::identifier(&column.to_string_lossy());
        self.columns
            .iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Makes the index, and returns its OID. Whether the user may make one is not asked: he may make the key.
    fn make(&self, table: Oid) -> Oid {
        let index = NewIndex {
            name: &self.name,
            method: layout::INDEX_AM,
            tablespace: &self.tablespace,
            columns: &self.columns,
            parameter: (index_options::OF_KEY, c"on"),
        };
        index.make(table)
    }
}

/// Drops an automatic index, which depends on its key and nothing on it.
pub fn unmake(index: Oid) {
    dependencies::drop_internally(index);
    transaction::next_command();
}
