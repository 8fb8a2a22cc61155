//! ALTER TABLE and ALTER INDEX: what a statement names, and what it changes.

use super::node;
use super::relation_name::RelationName;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, AlterTableType, Oid};
use std::ffi::CStr;

/// ALTER TABLE, or the same of an index or a view.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AlterTable<'a> {
    statement: NonNull<pg_sys::AlterTableStmt>,
    kept: PhantomData<&'a pg_sys::AlterTableStmt>,
}

/// One of the commands of an ALTER TABLE, of those that this code tells apart.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// SET ACCESS METHOD.
    AccessMethod,
    /// ATTACH PARTITION.
    Attach(RelationName<'a>),
    /// DETACH PARTITION, `concurrently` or not.
    Detach {
        part: RelationName<'a>,
        concurrently: bool,
    },
    /// DROP CONSTRAINT.
    DropConstraint,
    /// ALTER COLUMN … TYPE.
    ColumnType(ColumnType<'a>),
    Other,
}

/// ALTER COLUMN … TYPE.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ColumnType<'a> {
    command: NonNull<pg_sys::AlterTableCmd>,
    kept: PhantomData<&'a pg_sys::AlterTableCmd>,
}

impl<'a> AlterTable<'a> {
    /// # Safety
    /// `node` must be of that type, and valid as long as the handle is used.
    pub(super) unsafe fn of(node: NonNull<pg_sys::Node>) -> AlterTable<'a> {
        AlterTable {
            statement: node.cast(),
            kept: PhantomData,
        }
    }

    /// What it names.
    pub fn name(self) -> Option<RelationName<'a>> {
        // SAFETY: the handle's statement is valid, and so is what it names.
        unsafe { RelationName::existing(self.statement.as_ref().relation) }
    }

    /// What it changes, in the order of its commands.
    pub fn changes(self) -> impl Iterator<Item = Change<'a>> {
        // SAFETY: the handle's statement is valid, and its commands are of this type.
        unsafe {
            node::items::<pg_sys::AlterTableCmd>(self.statement.as_ref().cmds)
                .filter_map(NonNull::new)
                .map(|command| Change::of(command))
        }
    }
}

impl<'a> Change<'a> {
    /// # Safety
    /// `command` must be valid as long as the view is used.
    unsafe fn of(command: NonNull<pg_sys::AlterTableCmd>) -> Change<'a> {
        // SAFETY: the command is valid, which the caller sees to.
        let kind = unsafe { command.as_ref() }.subtype;
        match kind {
            AlterTableType::AT_SetAccessMethod => Change::AccessMethod,
            AlterTableType::AT_AttachPartition | AlterTableType::AT_DetachPartition => {
                // SAFETY: a command about a partition has its name.
                unsafe {
                    let partition: *mut pg_sys::PartitionCmd = command.as_ref().def.cast();
                    let concurrently = (*partition).concurrent;
                    match RelationName::existing((*partition).name) {
                        None => Change::Other,
                        Some(part) if kind == AlterTableType::AT_AttachPartition => {
                            Change::Attach(part)
                        }
                        Some(part) => Change::Detach { part, concurrently },
                    }
                }
            }
            AlterTableType::AT_DropConstraint => Change::DropConstraint,
            AlterTableType::AT_AlterColumnType => Change::ColumnType(ColumnType {
                command,
                kept: PhantomData,
            }),
            _ => Change::Other,
        }
    }
}

impl<'a> ColumnType<'a> {
    /// The column's name.
    pub fn column(self) -> &'a CStr {
        // SAFETY: the command is valid, and names the column that it changes.
        unsafe { CStr::from_ptr(self.command.as_ref().name) }
    }

    /// The type that it is to have, and what belongs to that, as the n of char(n); None where there is no such type.
    pub fn typ(self) -> Option<(Oid, i32)> {
        let none = core::ptr::null_mut::<pg_sys::ParseState>();
        let mut typmod = -1;
        // SAFETY: the command has the column's new definition; what is found in the cache is released.
        unsafe {
            let name = (*self.definition()).typeName;
            let found = pg_sys::LookupTypeName(none, name, &mut typmod, true);
            if found.is_null() {
                return None;
            }
            let typ = pg_sys::typeTypeId(found);
            pg_sys::ReleaseSysCache(found);
            (typ != pg_sys::InvalidOid).then_some((typ, typmod))
        }
    }

    /// The collation that it is to have, that of `typ` where none is named; None where there is none of that name.
    pub fn collation(self, typ: Oid) -> Option<Oid> {
        // SAFETY: the command has the column's new definition; look-ups in the catalog.
        unsafe {
            let clause = (*self.definition()).collClause;
            let collation = match clause.is_null() {
                true => pg_sys::get_typcollation(typ),
                false => pg_sys::get_collation_oid((*clause).collname, true),
            };
            (collation != pg_sys::InvalidOid).then_some(collation)
        }
    }

    fn definition(self) -> *const pg_sys::ColumnDef {
        // SAFETY: the command is valid, and has the column's new definition.
        unsafe { self.command.as_ref().def.cast() }
    }
}
