//! Dependencies of relations on one another: what goes when another goes.

use pgrx::pg_sys::{self, Oid};

/// The relation as core's dependencies name it.
fn address(relation: Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::RelationRelationId,
        objectId: relation,
        objectSubId: 0,
    }
}

/// A relation goes with another from now on.
pub fn record(relation: Oid, with: Oid) {
    let (relation, with) = (address(relation), address(with));
    // SAFETY: inside a transaction.
    unsafe {
        let kind = pg_sys::DependencyType::DEPENDENCY_AUTO;
        pg_sys::recordDependencyOn(&relation, &with, kind);
    }
}

/// A relation does not go with another any more.
pub fn remove(relation: Oid, with: Oid) {
    // SAFETY: inside a transaction.
    unsafe {
        pg_sys::deleteDependencyRecordsForSpecific(
            pg_sys::RelationRelationId,
            relation,
            pg_sys::DependencyType::DEPENDENCY_AUTO as core::ffi::c_char,
            pg_sys::RelationRelationId,
            with,
        );
    }
}

/// Drops a relation with what depends on it and goes with it; raises an error where something else does. It is no statement of the user's.
pub fn drop_internally(relation: Oid) {
    let object = address(relation);
    // SAFETY: inside a transaction.
    unsafe {
        pg_sys::performDeletion(
            &object,
            pg_sys::DropBehavior::DROP_RESTRICT,
            pg_sys::PERFORM_DELETION_INTERNAL as i32,
        );
    }
}
