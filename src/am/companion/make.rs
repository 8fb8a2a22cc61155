//! Making the companion of a key.

use super::{columns, open_varve, tie};
use crate::pg::error;
use crate::pg::node;
use crate::pg::relation::{self, Open};
use crate::storage::{index_options, layout};
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// Makes one where a unique index of a varve table is a key that needs one.
///
/// # Safety
/// Both must be OIDs of relations that the statement has locked.
pub unsafe fn companion(table: pg_sys::Oid, key: pg_sys::Oid) {
    // SAFETY: the plan closes what it has opened: core insists that nobody uses the table.
    unsafe {
        if Plan::of(table, key).is_none() {
            return;
        }
        // Somebody else may be making an index of the table, and its companion.
        let lock = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::RelationRelationId, table, 0, lock);
        let Some(plan) = Plan::of(table, key) else {
            return;
        };
        plan.announce();
        let made = define(table, plan.statement());
        pg_sys::CommandCounterIncrement();
        tie::record(made, key);
        pg_sys::CommandCounterIncrement();
    }
}

/// Tells who made a key CONCURRENTLY, and so wants nobody to wait for an index to be built, what it takes to compress its table.
///
/// # Safety
/// `table` must be the OID of a relation.
pub unsafe fn advise(table: pg_sys::Oid) {
    let Some(open) = open_varve(table) else {
        return;
    };
    // SAFETY: the table is open, and these are its indexes.
    let plans: Vec<_> = unsafe {
        let keys = relation::index_oids(open.rel()).into_iter();
        keys.filter_map(|key| Plan::of(table, key)).collect()
    };
    for plan in plans {
        error::notice(
            format!(
                "unique index \"{}\" of varve table \"{}\" has no series index, so its rows stay uncompressed",
                plan.key, plan.table
            ),
            &format!(
                "CREATE INDEX CONCURRENTLY ON {} USING varve ({});",
                plan.quoted_table,
                plan.list()
            ),
        );
    }
}

struct Plan {
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
            if relation::access_method(key) != Some(pg_sys::BTREE_AM_OID) {
                return None;
            }
            let unique = Open::index(key, pg_sys::AccessShareLock);
            let (rel, unique) = (open.rel(), unique.rel());
            let is_key = layout::is_plain_key(unique) && (*(*unique).rd_index).indisvalid;
            let series = layout::series_indexes(rel);
            if !is_key || layout::series_index_of_key(unique, &series).is_some() {
                return None;
            }
            let columns = columns::of(rel, unique)?;
            let attributes = relation::attributes((*rel).rd_att);
            let name_of = |column: u16| {
                let attribute = &attributes[usize::from(column) - 1];
                CStr::from_ptr(attribute.attname.data.as_ptr()).to_owned()
            };
            let tablespace = match (*(*unique).rd_rel).reltablespace {
                pg_sys::InvalidOid => pg_sys::MyDatabaseTableSpace,
                own => own,
            };
            let class = &*(*unique).rd_rel;
            Some(Plan {
                key: relation::name(unique),
                table: relation::name(rel),
                quoted_table: relation::qualified_name(rel),
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

    fn announce(&self) {
        error::notice(
            format!(
                "key \"{}\" of varve table \"{}\" brings series index \"{}\" on ({})",
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
        #[cfg(any(feature = "pg14", feature = "pg15"))]
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
        #[cfg(not(any(feature = "pg14", feature = "pg15")))]
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

/// Drops a companion, which depends on its key and nothing on it.
///
/// # Safety
/// `index` must be the OID of a companion.
pub unsafe fn unmake(index: pg_sys::Oid) {
    let internal = pg_sys::PERFORM_DELETION_INTERNAL as i32;
    // SAFETY: by contract.
    unsafe {
        let restrict = pg_sys::DropBehavior::DROP_RESTRICT;
        pg_sys::performDeletion(&tie::address(index), restrict, internal);
        pg_sys::CommandCounterIncrement();
    }
}
