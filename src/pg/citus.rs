//! Citus: is a table one that it distributes? The rows of such a table are in shards; the table itself stays empty.

use super::lock_mode::LockMode;
use super::open::Open;
use pgrx::pg_sys;

/// Has Citus's catalog an entry for the table?
///
/// # Safety
/// Within a transaction.
pub unsafe fn is_distributed(table: pg_sys::Oid) -> bool {
    const PARTITIONS: &core::ffi::CStr = c"pg_dist_partition";
    let catalog = pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE);
    // SAFETY: by contract; the scan is by an OID column, whatever else the catalog has.
    unsafe {
        let oid = pg_sys::get_relname_relid(PARTITIONS.as_ptr(), catalog);
        if oid == pg_sys::InvalidOid {
            return false;
        }
        let column = pg_sys::get_attnum(oid, c"logicalrelid".as_ptr());
        let Some(catalog) = Open::existing_table(oid, LockMode::AccessShare).filter(|_| column > 0)
        else {
            return false;
        };
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            column,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_OIDEQ),
            table.into(),
        );
        let (none, no_index) = (core::ptr::null_mut(), pg_sys::InvalidOid);
        let scan =
            pg_sys::systable_beginscan(catalog.rel().as_ptr(), no_index, false, none, 1, &mut key);
        let found = !pg_sys::systable_getnext(scan).is_null();
        pg_sys::systable_endscan(scan);
        found
    }
}
