//! The table that an administrative function is called for, and whether the caller may.

use crate::catalog::access_method;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{self, Open};
use pgrx::pg_sys;

/// Opens a varve table with `lock`; raises what is wrong with any other relation.
pub fn open(table: pg_sys::Oid, lock: LockMode) -> Open {
    // SAFETY: a syscache look-up; the table is opened before anything of it is read.
    unsafe {
        let kind = pg_sys::get_rel_relkind(table) as u8;
        if kind == pg_sys::RELKIND_PARTITIONED_TABLE {
            error::raise(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                "partitioned tables have no storage of their own",
                "",
                "Name the partitions, one by one.",
            );
        }
        if !matches!(kind, pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW) && kind != 0 {
            error::raise(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                "not a table",
                "",
                "Name a table that uses the access method varve.",
            );
        }
        let open = Open::living_table(table, lock);
        if !access_method::is_varve(open.rel()) {
            error::raise(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("table \"{}\" is not a varve table", open.rel().name()),
                "",
                "Convert it with ALTER TABLE … SET ACCESS METHOD varve, or create it USING varve.",
            );
        }
        let class = open.rel().class();
        if class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
            && !pg_sys::isTempOrTempToastNamespace(class.relnamespace)
        {
            error::raise(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot access temporary tables of other sessions",
                "",
                "",
            );
        }
        open
    }
}

/// Opens a varve table of the current user with `lock`. Nobody else waits for such a lock, nor is in the way of who does.
pub fn open_own(table: pg_sys::Oid, lock: LockMode) -> Open {
    // SAFETY: a syscache look-up.
    let exists = unsafe { pg_sys::get_rel_relkind(table) } != 0;
    if exists && !relation::is_owned(table) {
        check_owner(&open(table, LockMode::AccessShare));
    }
    let open = open(table, lock);
    check_owner(&open);
    open
}

/// Raises an error unless the current user owns the table.
pub fn check_owner(table: &Open) {
    // SAFETY: the table is open.
    unsafe {
        let (oid, user) = (table.rel().oid(), pg_sys::GetUserId());
        #[cfg(feature = "pg15")]
        let owner = pg_sys::pg_class_ownercheck(oid, user);
        #[cfg(feature = "pg17")]
        let owner = pg_sys::object_ownercheck(pg_sys::RelationRelationId, oid, user);
        if !owner {
            refuse(pg_sys::AclResult::ACLCHECK_NOT_OWNER, table);
        }
    }
}

/// Raises an error unless the current user may read the whole table: all columns, and no policy hides a row.
pub fn check_select(table: &Open) {
    // SAFETY: the table is open.
    unsafe {
        let (oid, user) = (table.rel().oid(), pg_sys::GetUserId());
        let result = pg_sys::pg_class_aclcheck(oid, user, pg_sys::ACL_SELECT as pg_sys::AclMode);
        if result != pg_sys::AclResult::ACLCHECK_OK {
            refuse(result, table);
        }
        let quietly = true;
        let policies = pg_sys::check_enable_rls(oid, pg_sys::InvalidOid, quietly);
        if policies as u32 == pg_sys::CheckEnableRlsResult::RLS_ENABLED {
            error::raise(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!(
                    "row-level security policies of table \"{}\" apply to the current user",
                    table.rel().name()
                ),
                "The function tells of all rows, also of those that policies hide.",
                "Call it as a role that may see all rows, such as the table's owner.",
            );
        }
    }
}

unsafe fn refuse(result: pg_sys::AclResult::Type, table: &Open) {
    // SAFETY: the table is open; raises.
    unsafe {
        let name = table.rel().class().relname.data.as_ptr();
        pg_sys::aclcheck_error(result, pg_sys::ObjectType::OBJECT_TABLE, name);
    }
}
