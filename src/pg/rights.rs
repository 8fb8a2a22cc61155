//! What the current user may do with a relation.

use super::bare;
use super::relation::{Relation, Table};
use super::relation_lookup::is_owned;
use pgrx::pg_sys;

/// Who the current user is, as SET ROLE and functions of others have it.
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads this backend's memory.
    unsafe { bare::GetUserId() }
}

/// Raises an error unless the current user owns the table.
pub fn check_owner(table: Table<'_>) {
    if !is_owned(table.oid()) {
        let reason = pg_sys::AclResult::ACLCHECK_NOT_OWNER;
        refuse(reason, table.into(), pg_sys::ObjectType::OBJECT_TABLE);
    }
}

/// Raises an error unless the current user may read all columns of the table.
pub fn check_select(table: Table<'_>) {
    let table = table.into();
    let found = right(table, pg_sys::ACL_SELECT);
    if found != pg_sys::AclResult::ACLCHECK_OK {
        refuse(found, table, pg_sys::ObjectType::OBJECT_TABLE);
    }
}

/// Raises an error unless the current user may have triggers on the relation.
pub fn check_trigger(relation: Relation<'_>) {
    let found = right(relation, pg_sys::ACL_TRIGGER);
    if found != pg_sys::AclResult::ACLCHECK_OK {
        // SAFETY: a table of constants.
        let kind = unsafe { pg_sys::get_relkind_objtype(relation.class().relkind) };
        refuse(found, relation, kind);
    }
}

fn right(relation: Relation<'_>, right: u32) -> pg_sys::AclResult::Type {
    // SAFETY: look-ups of a relation and a role that exist.
    unsafe {
        let user = pg_sys::GetUserId();
        pg_sys::pg_class_aclcheck(relation.oid(), user, right as pg_sys::AclMode)
    }
}

fn refuse(reason: pg_sys::AclResult::Type, relation: Relation<'_>, kind: pg_sys::ObjectType::Type) {
    let name = relation.class().relname.data.as_ptr();
    // SAFETY: the relation is open, so its name is there; raises.
    unsafe { pg_sys::aclcheck_error(reason, kind, name) }
}

/// Does a policy hide rows of the table from the current user?
pub fn are_rows_hidden(table: Table<'_>) -> bool {
    let quietly = true;
    // SAFETY: a look-up of a relation that exists.
    let policies = unsafe { pg_sys::check_enable_rls(table.oid(), pg_sys::InvalidOid, quietly) };
    policies as u32 == pg_sys::CheckEnableRlsResult::RLS_ENABLED
}
