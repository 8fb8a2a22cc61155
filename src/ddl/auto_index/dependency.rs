//! The dependency of an automatic index and its key: an automatic dependency on the key's index. It follows from the storage parameter
//! `of_key`, which dumps carry, and is renewed whenever indexes of the table were made or attached.

use crate::catalog::{index_options, layout};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{OpenIndex, Table};
use crate::pg::transaction;
use pgrx::pg_sys;

/// Ties each automatic index of a table to the first key that it serves. One that has become part of a partitioned index goes with that.
pub fn record_all(table: Table<'_>) {
    let series_am = layout::index_am();
    // SAFETY: the table is open.
    unsafe {
        let all = table.index_oids().into_iter();
        let (series, others): (Vec<_>, Vec<_>) = all
            .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
            .partition(|index| index.rel().class().relam == series_am);
        if series.is_empty() {
            return;
        }
        for index in series {
            let oid = index.rel().oid();
            for other in &others {
                remove(oid, other.rel().oid());
            }
            let is_free = !index.rel().class().relispartition;
            if is_free && index_options::is_of_key(index.rel()) {
                let index = core::slice::from_ref(&index);
                let serves =
                    |key: &&OpenIndex| layout::series_index_of_key(key.rel(), index).is_some();
                if let Some(key) = others.iter().find(serves) {
                    record(oid, key.rel().oid());
                }
            }
        }
        transaction::next_command();
    }
}

/// The relation as core's dependencies name it.
pub fn address(relation: pg_sys::Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::RelationRelationId,
        objectId: relation,
        objectSubId: 0,
    }
}

/// # Safety
/// Both must be OIDs of indexes.
pub unsafe fn record(auto_index: pg_sys::Oid, key: pg_sys::Oid) {
    // SAFETY: by contract.
    unsafe {
        pg_sys::recordDependencyOn(
            &address(auto_index),
            &address(key),
            pg_sys::DependencyType::DEPENDENCY_AUTO,
        );
    }
}

/// # Safety
/// Both must be OIDs of indexes.
pub unsafe fn remove(auto_index: pg_sys::Oid, key: pg_sys::Oid) {
    // SAFETY: by contract.
    unsafe {
        pg_sys::deleteDependencyRecordsForSpecific(
            pg_sys::RelationRelationId,
            auto_index,
            pg_sys::DependencyType::DEPENDENCY_AUTO as core::ffi::c_char,
            pg_sys::RelationRelationId,
            key,
        );
    }
}
