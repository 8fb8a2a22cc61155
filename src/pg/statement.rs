//! Utility statements, as the parser has made them.

use super::node::{self, items};
use super::relation_lookup;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Oid};

/// A utility statement.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Statement<'a> {
    node: NonNull<pg_sys::Node>,
    kept: PhantomData<&'a pg_sys::Node>,
}

impl Statement<'_> {
    /// A statement that PostgreSQL hands out.
    ///
    /// # Safety
    /// `node` must be a utility statement's parse tree, and valid as long as the handle is used.
    pub unsafe fn from_ptr<'a>(node: *mut pg_sys::Node) -> Statement<'a> {
        Statement {
            // SAFETY: by contract: what is a node is not null.
            node: unsafe { NonNull::new_unchecked(node) },
            kept: PhantomData,
        }
    }

    /// Is it COPY … FROM?
    pub fn is_copy_from(self) -> bool {
        let tag = pg_sys::NodeTag::T_CopyStmt;
        // SAFETY: a node's tag says what it is.
        unsafe {
            node::cast::<pg_sys::CopyStmt>(self.node.as_ptr(), tag)
                .is_some_and(|copy| (*copy).is_from)
        }
    }

    /// The tables that ALTER TABLE … DETACH PARTITION … CONCURRENTLY names, as far as they exist.
    pub fn detached_concurrently(self) -> Vec<Oid> {
        let mut tables = Vec::new();
        // SAFETY: a node's tag says what it is; names are looked up, and may be of anything.
        unsafe {
            let tag = pg_sys::NodeTag::T_AlterTableStmt;
            let Some(alter) = node::cast::<pg_sys::AlterTableStmt>(self.node.as_ptr(), tag) else {
                return tables;
            };
            for command in items::<pg_sys::AlterTableCmd>((*alter).cmds) {
                if (*command).subtype != pg_sys::AlterTableType::AT_DetachPartition {
                    continue;
                }
                let part: *mut pg_sys::PartitionCmd = (*command).def.cast();
                let table = relation_lookup::named((*part).name);
                if (*part).concurrent && table != pg_sys::InvalidOid {
                    tables.push(table);
                }
            }
        }
        tables
    }
}
