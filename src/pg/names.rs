//! Names of relations: look-ups by schema and name, and names as SQL.

use super::node::{self, list};
use pgrx::pg_sys::{self, Datum, InvalidOid, Oid};
use std::ffi::{CStr, CString};

/// The relation of a name in a schema.
pub fn relation_in(schema: Oid, name: &CStr) -> Option<Oid> {
    // SAFETY: a syscache look-up of any schema.
    let found = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    (found != InvalidOid).then_some(found)
}

/// A table of a schema and an index, both by name.
pub fn table_and_index(schema: &CStr, table: &CStr, index: &CStr) -> Option<(Oid, Oid)> {
    // SAFETY: a syscache look-up.
    let schema = unsafe { pg_sys::get_namespace_oid(schema.as_ptr(), true) };
    relation_in(schema, table).zip(relation_in(schema, index))
}

/// An access method; InvalidOid where there is none of that name.
pub fn access_method(name: &CStr) -> Oid {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_am_oid(name.as_ptr(), true) }
}

/// A name with that of its schema, which must exist, as SQL.
pub fn qualified(schema: Oid, name: &CStr) -> String {
    // SAFETY: NUL-terminated texts; the results are palloc'd.
    unsafe {
        let schema = pg_sys::get_namespace_name(schema);
        let quoted = pg_sys::quote_qualified_identifier(schema, name.as_ptr());
        CStr::from_ptr(quoted).to_string_lossy().into_owned()
    }
}

/// The function of the name and schema of another one that takes arguments of these types.
pub fn function_beside(function: Oid, types: &[Oid]) -> Option<Oid> {
    // SAFETY: look-ups in the catalog; names and lists are palloc'd.
    unsafe {
        let schema = pg_sys::get_namespace_name(pg_sys::get_func_namespace(function));
        let name = pg_sys::get_func_name(function);
        if schema.is_null() || name.is_null() {
            return None;
        }
        let names = list([pg_sys::makeString(schema), pg_sys::makeString(name)]);
        let missing_ok = true;
        let count = types.len() as i32;
        let found = pg_sys::LookupFuncName(names, count, types.as_ptr(), missing_ok);
        (found != InvalidOid).then_some(found)
    }
}

/// Schema and name of a relation that is to be made, as SQL parses its name. It raises an error where the current user may not create
/// there.
///
/// # Safety
/// `name` must be a text.
pub unsafe fn of_new_relation(name: Datum) -> (Oid, CString) {
    // SAFETY: by contract; lists and nodes are palloc'd.
    unsafe {
        let names = pg_sys::textToQualifiedNameList(name.cast_mut_ptr());
        let range = pg_sys::makeRangeVarFromNameList(names);
        let schema = pg_sys::RangeVarGetCreationNamespace(range);
        (schema, CStr::from_ptr((*range).relname).to_owned())
    }
}

/// Is a schema a session's own?
pub fn is_temporary(schema: Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::isAnyTempNamespace(schema) }
}

/// A name that no relation of the schema has, made of two parts.
pub fn free(name: &CStr, label: &CStr, schema: Oid) -> CString {
    // SAFETY: NUL-terminated texts; the result is palloc'd.
    unsafe {
        let none = core::ptr::null();
        let chosen = pg_sys::ChooseRelationName(name.as_ptr(), none, label.as_ptr(), schema, false);
        CStr::from_ptr(chosen).to_owned()
    }
}

/// The name of a relation and those of some of its columns make one that no relation of the schema has, as core makes that of an index.
pub fn free_of_columns(name: &CStr, columns: &CStr, label: &CStr, schema: Oid) -> CString {
    let (name, columns, label) = (name.as_ptr(), columns.as_ptr(), label.as_ptr());
    // SAFETY: NUL-terminated texts; the result is palloc'd.
    unsafe {
        let chosen = pg_sys::ChooseRelationName(name, columns, label, schema, false);
        CStr::from_ptr(chosen).to_owned()
    }
}

/// How many bytes a name has at most, with the zero behind it.
pub const LONGEST: usize = pg_sys::NAMEDATALEN as usize;

/// The tablespace of a relation that is in this one by `pg_class`, where InvalidOid stands for that of the database.
pub fn tablespace(of_class: Oid) -> CString {
    // SAFETY: the database's is set when a backend connects; the result is null or palloc'd.
    unsafe {
        let tablespace = if of_class == InvalidOid {
            pg_sys::MyDatabaseTableSpace
        } else {
            of_class
        };
        node::owned(pg_sys::get_tablespace_name(tablespace))
    }
}

/// A function; None where there is none of that OID.
pub fn function(oid: Oid) -> Option<String> {
    // SAFETY: a syscache look-up; the result is null or palloc'd.
    unsafe {
        let name = pg_sys::get_func_name(oid);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Is a function one of this schema and name?
pub fn is_function(oid: Oid, schema: &CStr, name: &CStr) -> bool {
    // SAFETY: look-ups in caches; the name is null or palloc'd.
    unsafe {
        let own = pg_sys::get_func_name(oid);
        !own.is_null()
            && CStr::from_ptr(own) == name
            && pg_sys::get_func_namespace(oid) == pg_sys::get_namespace_oid(schema.as_ptr(), true)
    }
}
