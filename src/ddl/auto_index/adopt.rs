//! CREATE INDEX for what an automatic index already is. A dump makes keys first, and so their automatic indexes, and then all indexes by name.

use super::existing::auto_indexes;
use crate::catalog::{index_options, layout};
use crate::pg::dependencies;
use crate::pg::node;
use crate::pg::relation::{OpenIndex, Table};
use crate::pg::relation_lookup;
use crate::pg::transaction;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag;
use std::ffi::{CStr, CString};

/// If the statement wants an automatic index of the table, as a dump does, there it is; if it wants a series index like it, the
/// automatic index becomes that and is tied to its key no more. Either way it gets the name that is wanted, and core finds it there.
///
/// # Safety
/// `statement` must be a CREATE INDEX for a series index of `table`, which must be open.
pub unsafe fn adopt(statement: *mut pg_sys::IndexStmt, table: Table<'_>) {
    // SAFETY: by contract.
    unsafe {
        let oid = table.oid();
        if !relation_lookup::is_owned(oid) {
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
        // The statement outlives the event trigger's memory.
        (*statement).idxname =
            pg_sys::MemoryContextStrdup(pg_sys::TopTransactionContext, name.as_ptr());
        (*statement).if_not_exists = true;
    }
}

/// A series index that is defined by nothing but its columns, and perhaps as an automatic index.
struct Wanted {
    name: Option<CString>,
    columns: Vec<CString>,
    of_key: bool,
}

impl Wanted {
    unsafe fn by(statement: *mut pg_sys::IndexStmt) -> Option<Wanted> {
        // SAFETY: the caller's contract.
        unsafe {
            let statement = &*statement;
            let elements = node::of_list::<pg_sys::IndexElem>(statement.indexParams);
            let is_more = statement.unique
                || !statement.whereClause.is_null()
                || !statement.indexIncludingParams.is_null()
                || !statement.tableSpace.is_null()
                || !elements.iter().all(|&element| is_plain(element));
            if is_more {
                return None;
            }
            let mut of_key = false;
            for option in node::of_list::<pg_sys::DefElem>(statement.options) {
                if CStr::from_ptr((*option).defname) != index_options::OF_KEY {
                    return None;
                }
                of_key = pg_sys::defGetBoolean(option);
            }
            let name = statement.idxname;
            Some(Wanted {
                name: (!name.is_null()).then(|| node::owned(name)),
                columns: elements
                    .iter()
                    .map(|&element| node::owned((*element).name))
                    .collect(),
                of_key,
            })
        }
    }
}

unsafe fn is_plain(element: *mut pg_sys::IndexElem) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let element = &*element;
        !element.name.is_null()
            && element.collation.is_null()
            && element.opclass.is_null()
            && element.ordering == pg_sys::SortByDir::SORTBY_DEFAULT
            && element.nulls_ordering == pg_sys::SortByNulls::SORTBY_NULLS_DEFAULT
    }
}

/// The automatic index of these columns, by name if there are several.
fn find(table: Table<'_>, wanted: &Wanted) -> Option<pg_sys::Oid> {
    // SAFETY: the table is open.
    unsafe {
        let oid = table.oid();
        let number = |column: &CString| pg_sys::get_attnum(oid, column.as_ptr()) as u16;
        let columns: Vec<u16> = wanted.columns.iter().map(number).collect();
        let mut found = auto_indexes(table);
        found.retain(|index| layout::index_columns(index.rel()) == columns);
        let is_named = |index: &OpenIndex| {
            let name = CStr::from_ptr(index.rel().class().relname.data.as_ptr());
            wanted.name.as_deref() == Some(name)
        };
        found.sort_by_key(|index| !is_named(index));
        found.first().map(|index| index.rel().oid())
    }
}

/// The name that core would choose.
fn default_name(table: Table<'_>, columns: &[CString]) -> CString {
    let columns: Vec<_> = columns.iter().map(|column| column.to_bytes()).collect();
    let mut columns = columns.join(&b'_');
    columns.truncate(pg_sys::NAMEDATALEN as usize);
    let columns = CString::new(columns).expect("BUG: a name has a zero in it");
    // SAFETY: the table is open.
    unsafe {
        let class = table.class();
        node::owned(pg_sys::ChooseRelationName(
            class.relname.data.as_ptr(),
            columns.as_ptr(),
            c"idx".as_ptr(),
            class.relnamespace,
            false,
        ))
    }
}

/// Gives the automatic index a name; false where something else has it.
fn rename(auto_index: pg_sys::Oid, name: &CStr, table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    unsafe {
        let other = pg_sys::get_relname_relid(name.as_ptr(), table.class().relnamespace);
        if other == pg_sys::InvalidOid {
            pg_sys::RenameRelationInternal(auto_index, name.as_ptr(), false, true);
            transaction::next_command();
        }
        other == pg_sys::InvalidOid || other == auto_index
    }
}

/// Makes an index of its own of an automatic index.
fn release(auto_index: pg_sys::Oid, table: Table<'_>) {
    // SAFETY: the table is open. Event triggers of others hear of CREATE INDEX, not of this.
    unsafe {
        let command: *mut pg_sys::AlterTableCmd = node::make(NodeTag::T_AlterTableCmd);
        (*command).subtype = pg_sys::AlterTableType::AT_ResetRelOptions;
        let mark =
            pg_sys::makeDefElem(node::name(index_options::OF_KEY), core::ptr::null_mut(), -1);
        (*command).def = node::list([mark]).cast();
        pg_sys::EventTriggerInhibitCommandCollection();
        pg_sys::AlterTableInternal(auto_index, node::list([command]), false);
        pg_sys::EventTriggerUndoInhibitCommandCollection();
        for key in table.index_oids() {
            dependencies::remove(auto_index, key);
        }
        transaction::next_command();
    }
}
