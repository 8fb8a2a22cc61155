//! CREATE INDEX: what a statement asks for, and indexes that are made without one.

use super::node;
use super::relation_name::RelationName;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, InvalidOid, NodeTag, Oid};
use std::ffi::{CStr, CString};

/// CREATE INDEX.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CreateIndex<'a> {
    statement: NonNull<pg_sys::IndexStmt>,
    kept: PhantomData<&'a pg_sys::IndexStmt>,
}

/// What it says of one of the index's columns.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct IndexColumn<'a> {
    element: NonNull<pg_sys::IndexElem>,
    kept: PhantomData<&'a pg_sys::IndexElem>,
}

/// A storage parameter that WITH gives.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Given<'a> {
    definition: NonNull<pg_sys::DefElem>,
    kept: PhantomData<&'a pg_sys::DefElem>,
}

/// A text of a node's; None where there is none.
///
/// # Safety
/// `text` must be null, or NUL-terminated and valid for `'a`.
unsafe fn text<'a>(text: *const core::ffi::c_char) -> Option<&'a CStr> {
    // SAFETY: what is not null is NUL-terminated, which the caller sees to.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

impl<'a> CreateIndex<'a> {
    /// # Safety
    /// `node` must be of that type, and valid as long as the handle is used.
    pub(super) unsafe fn of(node: NonNull<pg_sys::Node>) -> CreateIndex<'a> {
        CreateIndex {
            statement: node.cast(),
            kept: PhantomData,
        }
    }

    fn fields(&self) -> &pg_sys::IndexStmt {
        // SAFETY: the handle's statement is valid.
        unsafe { self.statement.as_ref() }
    }

    /// The table's name.
    pub fn table(self) -> Option<RelationName<'a>> {
        // SAFETY: the statement's name is valid as long as the statement.
        unsafe { RelationName::existing(self.fields().relation) }
    }

    /// The index's name, if it says which.
    pub fn name(self) -> Option<&'a CStr> {
        // SAFETY: names of a statement are valid as long as the statement.
        unsafe { text(self.fields().idxname) }
    }

    /// The name of the access method.
    pub fn method(self) -> Option<&'a CStr> {
        // SAFETY: as above.
        unsafe { text(self.fields().accessMethod) }
    }

    pub fn is_unique(self) -> bool {
        self.fields().unique
    }

    pub fn is_concurrent(self) -> bool {
        self.fields().concurrent
    }

    /// Has it WHERE, INCLUDE or TABLESPACE?
    pub fn has_more_than_columns(self) -> bool {
        let fields = self.fields();
        !fields.whereClause.is_null()
            || !fields.indexIncludingParams.is_null()
            || !fields.tableSpace.is_null()
    }

    /// The columns of the key.
    pub fn columns(self) -> impl Iterator<Item = IndexColumn<'a>> {
        // SAFETY: the statement's columns are of this type.
        let all = unsafe { node::items::<pg_sys::IndexElem>(self.fields().indexParams) };
        all.filter_map(NonNull::new).map(|element| IndexColumn {
            element,
            kept: PhantomData,
        })
    }

    /// What WITH gives.
    pub fn parameters(self) -> impl Iterator<Item = Given<'a>> {
        // SAFETY: the statement's options are of this type.
        let all = unsafe { node::items::<pg_sys::DefElem>(self.fields().options) };
        all.filter_map(NonNull::new).map(|definition| Given {
            definition,
            kept: PhantomData,
        })
    }

    /// It asks for another access method from now on. The statement must be the running command's own copy, as event triggers get it.
    pub fn set_method(self, method: &'static CStr) {
        // SAFETY: the statement is valid, and nothing refers into it; the name is a constant.
        unsafe { (*self.statement.as_ptr()).accessMethod = method.as_ptr().cast_mut() }
    }

    /// It asks for an index of this name from now on, unless there is one.
    ///
    /// # Safety
    /// The statement must be the running command's own copy, as event triggers get it: it is gone when the transaction ends.
    pub unsafe fn accept(self, name: &CStr) {
        let statement = self.statement.as_ptr();
        // SAFETY: the name lives as long as the transaction, and so as long as the statement; nothing refers into it.
        unsafe {
            (*statement).idxname =
                pg_sys::MemoryContextStrdup(pg_sys::TopTransactionContext, name.as_ptr());
            (*statement).if_not_exists = true;
        }
    }
}

impl<'a> IndexColumn<'a> {
    fn fields(&self) -> &pg_sys::IndexElem {
        // SAFETY: the handle's node is valid.
        unsafe { self.element.as_ref() }
    }

    /// None for an expression.
    pub fn name(self) -> Option<&'a CStr> {
        // SAFETY: names of a statement are valid as long as the statement.
        unsafe { text(self.fields().name) }
    }

    /// Is an operator class asked for?
    pub fn has_class(self) -> bool {
        !self.fields().opclass.is_null()
    }

    /// Is it nothing but a column of the table?
    pub fn is_plain(self) -> bool {
        let fields = self.fields();
        !fields.name.is_null()
            && fields.collation.is_null()
            && fields.opclass.is_null()
            && fields.ordering == pg_sys::SortByDir::SORTBY_DEFAULT
            && fields.nulls_ordering == pg_sys::SortByNulls::SORTBY_NULLS_DEFAULT
    }
}

impl<'a> Given<'a> {
    /// The parameter's name.
    pub fn name(self) -> &'a CStr {
        // SAFETY: the handle's node is valid, and has a name.
        unsafe { CStr::from_ptr(self.definition.as_ref().defname) }
    }

    /// What a boolean parameter is set to. Raises an error where that is no truth value.
    pub fn boolean(self) -> bool {
        // SAFETY: the handle's node is valid.
        unsafe { pg_sys::defGetBoolean(self.definition.as_ptr()) }
    }
}

/// An index to be made.
pub struct NewIndex<'a> {
    pub name: &'a CStr,
    pub method: &'a CStr,
    pub tablespace: &'a CStr,
    pub columns: &'a [CString],
    /// A storage parameter and what it is set to.
    pub parameter: (&'a CStr, &'a CStr),
}

impl NewIndex<'_> {
    /// Makes the index and returns its OID, without asking whether the user may make one. Nobody may have the table open.
    pub fn make(&self, table: Oid) -> Oid {
        define(table, self.statement())
    }

    /// CREATE INDEX, as the parser would have made it.
    fn statement(&self) -> *mut pg_sys::IndexStmt {
        // SAFETY: nodes of these types.
        unsafe {
            let element = |column: &CString| {
                let element: *mut pg_sys::IndexElem = node::make(NodeTag::T_IndexElem);
                (*element).name = node::name(column);
                element
            };
            let (parameter, value) = self.parameter;
            let value = pg_sys::makeString(node::name(value));
            let given = pg_sys::makeDefElem(node::name(parameter), value.cast(), -1);
            let statement: *mut pg_sys::IndexStmt = node::make(NodeTag::T_IndexStmt);
            (*statement).idxname = node::name(self.name);
            (*statement).accessMethod = node::name(self.method);
            (*statement).tableSpace = node::name(self.tablespace);
            (*statement).indexParams = node::list(self.columns.iter().map(element));
            (*statement).options = node::list([given]);
            (*statement).transformed = true;
            statement
        }
    }
}

fn define(table: Oid, statement: *mut pg_sys::IndexStmt) -> Oid {
    let none = InvalidOid;
    let (is_alter_table, check_rights, check_not_in_use, skip_build, quiet) =
        (false, false, true, false, true);
    // SAFETY: a statement that is complete; an error is raised where there is no such table.
    unsafe {
        #[cfg(feature = "pg15")]
        let made = pg_sys::DefineIndex(
            table,
            statement,
            none,
            none,
            none,
            is_alter_table,
            check_rights,
            check_not_in_use,
            skip_build,
            quiet,
        );
        #[cfg(feature = "pg17")]
        let made = pg_sys::DefineIndex(
            table,
            statement,
            none,
            none,
            none,
            -1,
            is_alter_table,
            check_rights,
            check_not_in_use,
            skip_build,
            quiet,
        );
        made.objectId
    }
}
