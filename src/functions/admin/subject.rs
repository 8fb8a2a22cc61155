//! The table that an administrative function is called for, and whether the caller may.

use crate::catalog::access_method;
use crate::pg::error::{self, Code};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation::Kind;
use crate::pg::relation_lookup;
use crate::pg::rights;
use crate::pg::Oid;

/// Opens a varve table with `lock`; raises what is wrong with any other relation.
pub fn open(table: Oid, lock: LockMode) -> Open {
    let kind = relation_lookup::kind(table);
    if kind == Some(Kind::Partitioned) {
        error::raise(
            Code::ERRCODE_WRONG_OBJECT_TYPE,
            "partitioned tables have no storage of their own",
            "",
            "Name the partitions, one by one.",
        );
    }
    if kind.is_some_and(|kind| !kind.has_rows()) {
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
    if open.rel().is_of_other_session() {
        error::raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot access temporary tables of other sessions",
            "",
            "",
        );
    }
    open
}

/// Opens a varve table of the current user with `lock`. Nobody else waits for such a lock, nor is in the way of who does.
pub fn open_own(table: Oid, lock: LockMode) -> Open {
    if relation_lookup::kind(table).is_some() && !relation_lookup::is_owned(table) {
        check_owner(&open(table, LockMode::AccessShare));
    }
    let open = open(table, lock);
    check_owner(&open);
    open
}

/// Raises an error unless the current user owns the table.
pub fn check_owner(table: &Open) {
    rights::check_owner(table.rel());
}

/// Raises an error unless the current user may read the whole table: all columns, and no policy hides a row.
pub fn check_select(table: &Open) {
    rights::check_select(table.rel());
    if rights::are_rows_hidden(table.rel()) {
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
