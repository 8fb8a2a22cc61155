//! Utility statements, as the parser has made them.

use super::alter_table::{AlterTable, Change};
use super::index_statement::CreateIndex;
use super::node::{self, items};
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, NodeTag, Oid};

/// A utility statement.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Statement<'a> {
    node: NonNull<pg_sys::Node>,
    kept: PhantomData<&'a pg_sys::Node>,
}

/// A statement by its kind.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    CreateIndex(CreateIndex<'a>),
    /// ALTER TABLE, or the same of an index or a view.
    AlterTable(AlterTable<'a>),
    CreateSchema(CreateSchema<'a>),
    CreateTable,
    Drop,
    Other,
}

/// CREATE SCHEMA.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CreateSchema<'a> {
    statement: NonNull<pg_sys::CreateSchemaStmt>,
    kept: PhantomData<&'a pg_sys::CreateSchemaStmt>,
}

impl<'a> Statement<'a> {
    /// A statement that PostgreSQL hands out.
    ///
    /// # Safety
    /// `node` must be a utility statement's parse tree, and valid as long as the handle is used.
    pub unsafe fn from_ptr(node: *mut pg_sys::Node) -> Statement<'a> {
        Statement {
            // SAFETY: by contract: what is a node is not null.
            node: unsafe { NonNull::new_unchecked(node) },
            kept: PhantomData,
        }
    }

    /// The same of one that may be missing.
    ///
    /// # Safety
    /// As `from_ptr`, unless `node` is null.
    pub unsafe fn existing(node: *mut pg_sys::Node) -> Option<Statement<'a>> {
        let kept = PhantomData;
        NonNull::new(node).map(|node| Statement { node, kept })
    }

    /// What it is.
    pub fn kind(self) -> Kind<'a> {
        // SAFETY: the handle's node is valid, and its tag says what it is.
        unsafe {
            match self.node.as_ref().type_ {
                NodeTag::T_IndexStmt => Kind::CreateIndex(CreateIndex::of(self.node)),
                NodeTag::T_AlterTableStmt => Kind::AlterTable(AlterTable::of(self.node)),
                NodeTag::T_CreateSchemaStmt => Kind::CreateSchema(CreateSchema {
                    statement: self.node.cast(),
                    kept: PhantomData,
                }),
                NodeTag::T_CreateStmt => Kind::CreateTable,
                NodeTag::T_DropStmt => Kind::Drop,
                _ => Kind::Other,
            }
        }
    }

    /// Is it COPY … FROM?
    pub fn is_copy_from(self) -> bool {
        // SAFETY: a node's tag says what it is.
        unsafe {
            node::cast::<pg_sys::CopyStmt>(self.node.as_ptr(), NodeTag::T_CopyStmt)
                .is_some_and(|copy| (*copy).is_from)
        }
    }

    /// The tables that ALTER TABLE … DETACH PARTITION … CONCURRENTLY names, as far as they exist.
    pub fn detached_concurrently(self) -> Vec<Oid> {
        let Kind::AlterTable(alter) = self.kind() else {
            return Vec::new();
        };
        let detached = alter.changes().filter_map(|change| match change {
            Change::Detach {
                part,
                concurrently: true,
            } => part.find(),
            _ => None,
        });
        detached.collect()
    }
}

impl<'a> CreateSchema<'a> {
    /// The statements that make what is to be in it.
    pub fn elements(self) -> impl Iterator<Item = Statement<'a>> {
        // SAFETY: the handle's statement is valid, and its elements are statements.
        unsafe {
            items::<pg_sys::Node>(self.statement.as_ref().schemaElts)
                .filter_map(|element| Statement::existing(element))
        }
    }
}
