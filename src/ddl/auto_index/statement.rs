//! What a statement that has just ended did to keys and series indexes and `seen` does not know of. The statement of some event triggers
//! is missing.

use crate::catalog::layout;
use crate::pg::alter_table::{AlterTable, Change, ColumnType};
use crate::pg::index_statement::CreateIndex;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags;
use crate::pg::relation::{self, Kind as RelationKind};
use crate::pg::relation_lookup;
use crate::pg::statement::{Kind, Statement};
use crate::pg::Oid;

/// Is it DROP?
pub fn is_drop(statement: Option<Statement<'_>>) -> bool {
    matches!(statement.map(Statement::kind), Some(Kind::Drop))
}

fn alter_table(statement: Option<Statement<'_>>) -> Option<AlterTable<'_>> {
    match statement?.kind() {
        Kind::AlterTable(alter) => Some(alter),
        _ => None,
    }
}

fn create_index(statement: Option<Statement<'_>>) -> Option<CreateIndex<'_>> {
    match statement?.kind() {
        Kind::CreateIndex(index) => Some(index),
        _ => None,
    }
}

/// The table that has become a varve table, or may have.
pub fn converted(statement: Option<Statement<'_>>) -> Option<Oid> {
    let alter = alter_table(statement)?;
    let is_it = |change| matches!(change, Change::AccessMethod);
    let name = alter.name().filter(|_| alter.changes().any(is_it));
    name?.find()
}

/// The tables whose series indexes may have been attached to a partitioned index, or got another storage parameter.
pub fn reattached(statement: Option<Statement<'_>>) -> Vec<Oid> {
    let alter = alter_table(statement);
    let attached = alter.and_then(|alter| {
        alter.changes().find_map(|change| match change {
            Change::Attach(part) => Some(part),
            _ => None,
        })
    });
    let (name, is_of_parts) = if let Some(part) = attached {
        (Some(part), true)
    } else if let Some(alter) = alter {
        (alter.name(), false)
    } else if let Some(index) = create_index(statement).filter(|&index| is_for_series(index)) {
        (index.table(), true)
    } else {
        return Vec::new();
    };
    let Some(found) = name.and_then(|name| name.find()) else {
        return Vec::new();
    };
    match relation_lookup::kind(found) {
        Some(RelationKind::Index) => relation_lookup::table_of_index(found).into_iter().collect(),
        // SAFETY: a table that is there.
        Some(RelationKind::Partitioned) if is_of_parts => unsafe {
            relation::inheritors(found, LockMode::AccessShare)
        },
        Some(RelationKind::Table) if attached.is_some() => vec![found],
        _ => Vec::new(),
    }
}

/// Is it a CREATE INDEX for a series index? The name was translated when the statement began.
pub fn is_for_series(index: CreateIndex<'_>) -> bool {
    index.method() == Some(layout::INDEX_AM)
}

/// The tables that are going to lose constraints, if their owner says so, locked as core will lock them.
pub fn stripped(statement: Statement<'_>) -> Vec<Oid> {
    let is_it = |change| matches!(change, Change::DropConstraint);
    match alter_table(Some(statement)) {
        Some(alter) if alter.changes().any(is_it) => altered(statement),
        _ => Vec::new(),
    }
}

/// The tables of an ALTER TABLE of the current user's, locked as core will lock them.
pub fn altered(statement: Statement<'_>) -> Vec<Oid> {
    let name = alter_table(Some(statement)).and_then(AlterTable::name);
    let Some((name, table)) = name.and_then(|name| Some((name, name.find()?))) else {
        return Vec::new();
    };
    if !relation_lookup::is_owned(table) {
        return Vec::new();
    }
    let lock = LockMode::AccessExclusive;
    if name.has_inheritors() {
        // SAFETY: a table that is there.
        unsafe { relation::inheritors(table, lock) }
    } else {
        lock_tags::lock_relation(table, lock);
        vec![table]
    }
}

/// A CREATE INDEX CONCURRENTLY, and its table.
pub fn indexed_concurrently(statement: Option<Statement<'_>>) -> Option<(CreateIndex<'_>, Oid)> {
    let index = create_index(statement).filter(|index| index.is_concurrent())?;
    Some((index, index.table()?.find()?))
}

/// The columns that an ALTER TABLE gives another type.
pub fn retyped(statement: Option<Statement<'_>>) -> Vec<ColumnType<'_>> {
    let Some(alter) = alter_table(statement) else {
        return Vec::new();
    };
    let types = alter.changes().filter_map(|change| match change {
        Change::ColumnType(retyped) => Some(retyped),
        _ => None,
    });
    types.collect()
}
