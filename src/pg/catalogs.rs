//! What PostgreSQL's catalogs say of relations, read row by row.

use super::catalog_scan::{self, Key};
use super::lock_mode::LockMode;
use super::open::Open;
use super::relation::Table;
use super::snapshot::Snapshot;
use pgrx::pg_sys;

/// pg_class.
pub fn open_classes() -> Open {
    Open::table(pg_sys::RelationRelationId, LockMode::AccessShare)
}

/// Has any relation of `pg_class` a file, or another one of its number?
pub fn has_file(classes: Table<'_>, tablespace: pg_sys::Oid, number: pg_sys::Oid) -> bool {
    let index = pg_sys::Oid::from(pg_sys::ClassTblspcRelfilenodeIndexId);
    let keys = [
        Key::oid(pg_sys::Anum_pg_class_reltablespace as i32, tablespace),
        Key::oid(pg_sys::Anum_pg_class_relfilenode as i32, number),
    ];
    catalog_scan::any(classes, index, &keys)
}

/// Has the table an index, by the catalog? So nobody is waited for.
pub fn has_index(table: pg_sys::Oid) -> bool {
    let catalog = Open::table(pg_sys::IndexRelationId, LockMode::AccessShare);
    let index = pg_sys::Oid::from(pg_sys::IndexIndrelidIndexId);
    let key = Key::oid(pg_sys::Anum_pg_index_indrelid as i32, table);
    catalog_scan::any(catalog.rel(), index, &[key])
}

/// Shows the rows of `pg_index` that a table's indexes have, those too that are about to go.
pub fn each_index(table: pg_sys::Oid, mut show: impl FnMut(&pg_sys::FormData_pg_index)) {
    let catalog = Open::table(pg_sys::IndexRelationId, LockMode::AccessShare);
    let index = pg_sys::Oid::from(pg_sys::IndexIndrelidIndexId);
    let key = Key::oid(pg_sys::Anum_pg_index_indrelid as i32, table);
    let now = Snapshot::NONE;
    catalog_scan::each(catalog.rel(), Some(index), &[key], now, |row| {
        // SAFETY: a row of pg_index.
        show(unsafe { row.form() });
        true
    });
}
