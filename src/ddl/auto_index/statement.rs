//! What a statement that has just ended did to keys and series indexes and `seen` does not know of.

use crate::catalog::layout;
use crate::pg::lock_mode::LockMode;
use crate::pg::node;
use crate::pg::relation;
use crate::pg::relation_lookup;
use pgrx::pg_sys;
use pgrx::pg_sys::{AlterTableType, NodeTag};
use std::ffi::CStr;

/// # Safety
/// Here and below: `statement` must be null or a statement's parse tree.
pub unsafe fn is_drop(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: by contract.
    unsafe { node::is(statement, NodeTag::T_DropStmt) }
}

/// The table that has become a varve table, or may have.
pub unsafe fn converted(statement: *mut pg_sys::Node) -> impl Iterator<Item = pg_sys::Oid> {
    // SAFETY: by contract.
    let found = unsafe {
        match command(statement, AlterTableType::AT_SetAccessMethod) {
            Some(_) => named((*statement.cast::<pg_sys::AlterTableStmt>()).relation),
            None => None,
        }
    };
    found.into_iter()
}

/// The tables whose series indexes may have been attached to a partitioned index, or got another storage parameter.
pub unsafe fn reattached(statement: *mut pg_sys::Node) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe {
        let attach = command(statement, AlterTableType::AT_AttachPartition);
        let (name, is_of_parts) = if let Some(attach) = attach {
            ((*(*attach).def.cast::<pg_sys::PartitionCmd>()).name, true)
        } else if node::is(statement, NodeTag::T_AlterTableStmt) {
            (
                (*statement.cast::<pg_sys::AlterTableStmt>()).relation,
                false,
            )
        } else if is_for_series(statement) {
            ((*statement.cast::<pg_sys::IndexStmt>()).relation, true)
        } else {
            return Vec::new();
        };
        let Some(found) = named(name) else {
            return Vec::new();
        };
        match pg_sys::get_rel_relkind(found) as u8 {
            pg_sys::RELKIND_INDEX => vec![pg_sys::IndexGetRelation(found, true)],
            pg_sys::RELKIND_PARTITIONED_TABLE if is_of_parts => {
                relation::inheritors(found, LockMode::AccessShare)
            }
            pg_sys::RELKIND_RELATION if attach.is_some() => vec![found],
            _ => Vec::new(),
        }
    }
}

/// Is it a CREATE INDEX for a series index?
unsafe fn is_for_series(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: the caller's contract; the name was translated when the statement began.
    unsafe {
        node::is(statement, NodeTag::T_IndexStmt) && {
            let method = (*statement.cast::<pg_sys::IndexStmt>()).accessMethod;
            !method.is_null() && CStr::from_ptr(method) == layout::INDEX_AM
        }
    }
}

/// The tables that are going to lose constraints, if their owner says so, locked as core will lock them.
pub unsafe fn stripped(statement: *mut pg_sys::Node) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe {
        match command(statement, AlterTableType::AT_DropConstraint) {
            Some(_) => altered(statement),
            None => Vec::new(),
        }
    }
}

/// The tables of an ALTER TABLE of the current user's, locked as core will lock them.
pub unsafe fn altered(statement: *mut pg_sys::Node) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe {
        let name = (*statement.cast::<pg_sys::AlterTableStmt>()).relation;
        let Some(table) = named(name).filter(|&table| relation_lookup::is_owned(table)) else {
            return Vec::new();
        };
        let lock = LockMode::AccessExclusive;
        if (*name).inh {
            relation::inheritors(table, lock)
        } else {
            pg_sys::LockRelationOid(table, lock.as_raw());
            vec![table]
        }
    }
}

/// The table of a CREATE INDEX CONCURRENTLY.
pub unsafe fn indexed_concurrently(statement: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe {
        if !node::is(statement, NodeTag::T_IndexStmt) {
            return None;
        }
        let statement: *mut pg_sys::IndexStmt = statement.cast();
        if !(*statement).concurrent {
            return None;
        }
        named((*statement).relation)
    }
}

/// The first command of a kind in an ALTER TABLE or ALTER INDEX.
unsafe fn command(
    statement: *mut pg_sys::Node,
    kind: AlterTableType::Type,
) -> Option<*mut pg_sys::AlterTableCmd> {
    // SAFETY: the caller's contract.
    unsafe { commands(statement, kind).into_iter().next() }
}

/// The commands of a kind in an ALTER TABLE or ALTER INDEX.
pub unsafe fn commands(
    statement: *mut pg_sys::Node,
    kind: AlterTableType::Type,
) -> Vec<*mut pg_sys::AlterTableCmd> {
    // SAFETY: the caller's contract.
    unsafe {
        if !node::is(statement, NodeTag::T_AlterTableStmt) {
            return Vec::new();
        }
        let commands = (*statement.cast::<pg_sys::AlterTableStmt>()).cmds;
        let mut commands = node::of_list::<pg_sys::AlterTableCmd>(commands);
        commands.retain(|&found| (*found).subtype == kind);
        commands
    }
}

/// The relation of a name, if there is one.
unsafe fn named(name: *mut pg_sys::RangeVar) -> Option<pg_sys::Oid> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    let found = unsafe { relation_lookup::named(name) };
    (found != pg_sys::InvalidOid).then_some(found)
}
