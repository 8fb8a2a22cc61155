//! Building a series index with nbtree's own build.

use super::validate;
use crate::catalog::chunk_marker;
use crate::pg::nbtree;
use crate::pg::relation::{Index, Table};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Lets an index pass for a btree index, on which nbtree's sort insists.
pub struct AsBtree {
    class: pg_sys::Form_pg_class,
    relam: pg_sys::Oid,
}

impl AsBtree {
    pub fn begin(index: Index<'_>) -> AsBtree {
        // SAFETY: rd_rel is this backend's copy of the catalog row.
        unsafe {
            let class = (*index.as_ptr()).rd_rel;
            let relam = (*class).relam;
            (*class).relam = pg_sys::BTREE_AM_OID;
            AsBtree { class, relam }
        }
    }
}

impl Drop for AsBtree {
    fn drop(&mut self) {
        // SAFETY: relcache entries of open relations keep their rd_rel in place.
        unsafe { (*self.class).relam = self.relam }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn build(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: open, or valid, until core's call returns.
    let table = unsafe { Table::from_ptr(table) };
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: called by core with open relations. Entries come from `index_build_range_scan`.
    unsafe {
        validate::check(table, index, info);
        chunk_marker::mark_if_alone(table);
        let _guise = AsBtree::begin(index);
        nbtree::build(table, index, info)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn build_empty(index: pg_sys::Relation) {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    nbtree::build_empty(index)
}

type Build = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::Relation,
    *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult;

/// Is this open index one of ours? Looks at the routine: `relam` changes while an index is built.
pub fn is_series_index(index: Index<'_>) -> bool {
    // SAFETY: the index is open.
    unsafe {
        (*(*index.as_ptr()).rd_indam)
            .ambuild
            .is_some_and(|own| core::ptr::fn_addr_eq(own, build as Build))
    }
}
