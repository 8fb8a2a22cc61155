//! Making the automatic index of a key, or of an ordinary index.

use super::existing::open_varve;
use crate::catalog::auto_index_columns;
use crate::catalog::{index_options, layout};
use crate::pg::dependencies;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::node;
use crate::pg::relation::{Index, OpenIndex, Table};
use crate::pg::relation_lookup;
use crate::pg::transaction;
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// Makes one where an index of a varve table is a key that needs one, or an ordinary one that says what the only series index should be.
///
/// # Safety
/// Both must be OIDs of relations that the statement has locked.
pub unsafe fn auto_index(table: pg_sys::Oid, key: pg_sys::Oid) {
    // SAFETY: the plan closes what it has opened: core insists that nobody uses the table.
    unsafe {
        if Plan::of(table, key).is_none() {
            return;
        }
        // Somebody else may be making an index of the table, and its automatic index.
        let lock = LockMode::Exclusive as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::RelationRelationId, table, 0, lock);
        let Some(plan) = Plan::of(table, key) else {
            return;
        };
        plan.announce();
        let made = define(table, plan.statement());
        transaction::next_command();
        if plan.is_of_key {
            dependencies::record(made, key);
            transaction::next_command();
        }
    }
}

/// Tells who made a key, or an index like a series index, CONCURRENTLY, and so wants nobody to wait for an index to be built, what it takes to compress its table.
/// Is there anything to tell?
///
/// # Safety
/// `table` must be the OID of a relation.
pub unsafe fn advise(table: pg_sys::Oid) -> bool {
    let Some(open) = open_varve(table) else {
        return false;
    };
    // SAFETY: the table is open, and these are its indexes.
    let plans: Vec<_> = unsafe {
        let keys = open.rel().index_oids().into_iter();
        keys.filter_map(|key| Plan::of(table, key)).collect()
    };
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
    unsafe fn of(table: pg_sys::Oid, key: pg_sys::Oid) -> Option<Plan> {
        // SAFETY: the caller's contract; the names are NUL-terminated.
        unsafe {
            let open = open_varve(table)?;
            if relation_lookup::access_method(key) != Some(pg_sys::BTREE_AM_OID) {
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
                CStr::from_ptr(attribute.attname.data.as_ptr()).to_owned()
            };
            let tablespace = match unique.class().reltablespace {
                pg_sys::InvalidOid => pg_sys::MyDatabaseTableSpace,
                own => own,
            };
            let class = unique.class();
            Some(Plan {
                is_of_key,
                key: unique.name(),
                table: rel.name(),
                quoted_table: rel.qualified_name(),
                name: node::owned(pg_sys::ChooseRelationName(
                    class.relname.data.as_ptr(),
                    core::ptr::null(),
                    c"series".as_ptr(),
                    class.relnamespace,
                    false,
                )),
                tablespace: node::owned(pg_sys::get_tablespace_name(tablespace)),
                columns: columns.into_iter().map(name_of).collect(),
            })
        }
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
        let quoted = |column: &CString| {
            // SAFETY: a NUL-terminated name; the result is palloc'd, or the name itself.
            let quoted = unsafe { CStr::from_ptr(pg_sys::quote_identifier(column.as_ptr())) };
            quoted.to_string_lossy().into_owned()
        };
        self.columns
            .iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// CREATE INDEX, as the parser would have made it.
    fn statement(&self) -> *mut pg_sys::IndexStmt {
        // SAFETY: nodes of these types.
        unsafe {
            let element = |column: &CString| {
                let element: *mut pg_sys::IndexElem = node::make(pg_sys::NodeTag::T_IndexElem);
                (*element).name = node::name(column);
                element
            };
            let mark = pg_sys::makeDefElem(
                node::name(index_options::OF_KEY),
                pg_sys::makeString(node::name(c"on")).cast(),
                -1,
            );
            let statement: *mut pg_sys::IndexStmt = node::make(pg_sys::NodeTag::T_IndexStmt);
            (*statement).idxname = node::name(&self.name);
            (*statement).accessMethod = node::name(layout::INDEX_AM);
            (*statement).tableSpace = node::name(&self.tablespace);
            (*statement).indexParams = node::list(self.columns.iter().map(element));
            (*statement).options = node::list([mark]);
            (*statement).transformed = true;
            statement
        }
    }
}

/// Makes the index without asking whether the user may make one: he may make the key.
unsafe fn define(table: pg_sys::Oid, statement: *mut pg_sys::IndexStmt) -> pg_sys::Oid {
    let none = pg_sys::InvalidOid;
    let (is_alter_table, check_rights, check_not_in_use, skip_build, quiet) =
        (false, false, true, false, true);
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(feature = "pg15")]
        let made = pg_sys::DefineIndex(
            table,
            statement,
            none,
            none,
            none,
            is_alter_table,
            check_rights,
            check_not_in_use,
            skip_build,
            quiet,
        );
        #[cfg(feature = "pg17")]
        let made = pg_sys::DefineIndex(
            table,
            statement,
            none,
            none,
            none,
            -1,
            is_alter_table,
            check_rights,
            check_not_in_use,
            skip_build,
            quiet,
        );
        made.objectId
    }
}

/// Drops an automatic index, which depends on its key and nothing on it.
///
/// # Safety
/// `index` must be the OID of an automatic index.
pub unsafe fn unmake(index: pg_sys::Oid) {
    dependencies::drop_internally(index);
    transaction::next_command();
}
