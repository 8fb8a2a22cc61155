//! What a tuple of a varve table is: a row of the tail, the header of a chunk, or a piece of one.

use super::read::{check_snapshot_age, Damage};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use pgrx::pg_sys;
use varve_columns::tuple::header::{self, BodyKind};
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// What kind of tuple a heap scan came upon.
#[derive(PartialEq)]
pub enum TupleKind {
    Row,
    /// Or what cannot be told: whoever opens it is told what is wrong.
    Header,
    /// A piece, a note, or a header that was given up because of its line pointer.
    Skip,
}

/// # Safety
/// `data` must point to a pinned tuple of `len` bytes.
#[inline]
pub unsafe fn classify(data: pg_sys::HeapTupleHeader, len: u32, offset: u16) -> TupleKind {
    // SAFETY: by contract.
    unsafe {
        if tuple::attribute_count(data) != 0 {
            return TupleKind::Row;
        }
        match header::body_kind(tuple::body(data, len)) {
            BodyKind::Row => TupleKind::Row,
            BodyKind::Piece | BodyKind::Note => TupleKind::Skip,
            BodyKind::Header if offset > MAX_HEADER_OFFSET => TupleKind::Skip,
            BodyKind::Header | BodyKind::Damaged => TupleKind::Header,
        }
    }
}

/// Raises what is wrong with a header tuple.
///
/// # Safety
/// `table` must be open and the tuple pinned.
pub unsafe fn raise(
    table: Table<'_>,
    at: Tid,
    data: pg_sys::HeapTupleHeader,
    len: u32,
    damage: &Damage,
) -> ! {
    // SAFETY: by contract.
    let (name, body) = unsafe {
        check_snapshot_age(table);
        (table.name(), tuple::body(data, len))
    };
    damage.raise(&name, header::chunk_id(body), at)
}
