//! What the catalogs say of a relation that is not open, by its OID.

use super::relation::Kind;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The access method of any relation; None where there is no relation of that OID.
pub fn access_method(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache look-up, of any OID; the row is read before it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
        let row = pg_sys::SearchSysCache1(cache, relation.into());
        if row.is_null() {
            return None;
        }
        let class: pg_sys::Form_pg_class = pg_sys::GETSTRUCT(row).cast();
        let method = (*class).relam;
        pg_sys::ReleaseSysCache(row);
        Some(method)
    }
}

/// What a relation is; None where there is none of that OID.
pub fn kind(relation: pg_sys::Oid) -> Option<Kind> {
    // SAFETY: a syscache look-up, of any OID.
    let kind = unsafe { pg_sys::get_rel_relkind(relation) };
    (kind != 0).then(|| Kind::of(kind))
}

/// The name of a relation; None where there is none of that OID.
pub fn name(relation: pg_sys::Oid) -> Option<String> {
    // SAFETY: a syscache look-up, of any OID; the result is null or palloc'd.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// The table of an index; None where there is no index of that OID.
pub fn table_of_index(index: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache look-up, of any OID.
    let table = unsafe { pg_sys::IndexGetRelation(index, true) };
    (table != pg_sys::InvalidOid).then_some(table)
}

/// The index that a constraint is kept by.
pub fn index_of_constraint(constraint: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache look-up, of any OID.
    let index = unsafe { pg_sys::get_constraint_index(constraint) };
    (index != pg_sys::InvalidOid).then_some(index)
}

/// The number that the column of a table has in another one, which has a column of its name.
pub fn column_of_same_name(other: pg_sys::Oid, table: pg_sys::Oid, column: i16) -> i16 {
    // SAFETY: look-ups in caches; the name is palloc'd.
    unsafe {
        let name = pg_sys::get_attname(table, column, false);
        let found = pg_sys::get_attnum(other, name);
        pg_sys::pfree(name.cast());
        found
    }
}

/// The number of the column of a name; 0 where there is none, less for a system column.
pub fn column_named(table: pg_sys::Oid, name: &CStr) -> i16 {
    // SAFETY: a syscache look-up, of any OID.
    unsafe { pg_sys::get_attnum(table, name.as_ptr()) }
}

/// The type of a column; InvalidOid where there is no such column.
pub fn column_type(table: pg_sys::Oid, column: i16) -> pg_sys::Oid {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_atttype(table, column) }
}

/// Is it a partition?
pub fn is_partition(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up, of any OID.
    unsafe { pg_sys::get_rel_relispartition(relation) }
}

/// Is it a relation of heap's own?
pub fn is_heap(relation: pg_sys::Oid) -> bool {
    access_method(relation) == Some(pg_sys::HEAP_TABLE_AM_OID)
}

/// Is it a btree of nbtree's own?
pub fn is_btree(relation: pg_sys::Oid) -> bool {
    access_method(relation) == Some(pg_sys::BTREE_AM_OID)
}

/// Is it a table or a materialized view, and not one of partitions?
pub fn has_rows(relation: pg_sys::Oid) -> bool {
    kind(relation).is_some_and(Kind::has_rows)
}

/// Is it a view?
pub fn is_view(relation: pg_sys::Oid) -> bool {
    kind(relation) == Some(Kind::View)
}

/// Is it a partitioned table?
pub fn is_partitioned(relation: pg_sys::Oid) -> bool {
    kind(relation) == Some(Kind::Partitioned)
}

/// Does the current user own the relation?
pub fn is_owned(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relation, pg_sys::GetUserId());
        #[cfg(feature = "pg17")]
        return pg_sys::object_ownercheck(
            pg_sys::RelationRelationId,
            relation,
            pg_sys::GetUserId(),
        );
    }
}
