//! What users may do: the current one with a relation, and any with a function.

use super::bare;
use super::relation::{Relation, Table};
use super::relation_lookup::is_owned;
use pgrx::pg_sys::{self, Oid};

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

/// Raises an error unless the current user may call the aggregate, and its owner the functions that it is computed by; tells whoever wants to know of
/// calls. Within a guarded entry point.
///
/// # Safety
/// All of them must exist.
pub unsafe fn check_aggregate(aggregate: Oid, functions: impl IntoIterator<Item = Oid>) {
    use pg_sys::ObjectType::{OBJECT_AGGREGATE, OBJECT_FUNCTION};
    // SAFETY: by contract.
    unsafe {
        check_call(aggregate, current_user(), OBJECT_AGGREGATE);
        let owner = owner_of_function(aggregate);
        for function in functions {
            check_call(function, owner, OBJECT_FUNCTION);
        }
    }
}

/// Raises an error unless a user may call a function.
///
/// # Safety
/// As `check_aggregate`.
unsafe fn check_call(function: Oid, user: Oid, kind: pg_sys::ObjectType::Type) {
    // SAFETY: look-ups of a function and a role that exist; raises.
    unsafe {
        let right = pg_sys::ACL_EXECUTE as pg_sys::AclMode;
        #[cfg(feature = "pg15")]
        let found = pg_sys::pg_proc_aclcheck(function, user, right);
        #[cfg(feature = "pg17")]
        let found = {
            let class = pg_sys::ProcedureRelationId;
            pg_sys::object_aclcheck(class, function, user, right)
        };
        if found != pg_sys::AclResult::ACLCHECK_OK {
            pg_sys::aclcheck_error(found, kind, pg_sys::get_func_name(function));
        }
        let hook = pg_sys::object_access_hook;
        if hook.is_some() {
            pg_sys::RunFunctionExecuteHook(function);
        }
    }
}

/// # Safety
/// As `check_aggregate`.
unsafe fn owner_of_function(function: Oid) -> Oid {
    // SAFETY: a syscache look-up.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let row = pg_sys::SearchSysCache1(cache, function.into());
        assert!(!row.is_null(), "BUG: an aggregate is gone");
        let form: pg_sys::Form_pg_proc = pg_sys::GETSTRUCT(row).cast();
        let owner = (*form).proowner;
        pg_sys::ReleaseSysCache(row);
        owner
    }
}
