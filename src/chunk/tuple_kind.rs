//! What a tuple of a varve table is: a row of the tail, the header of a chunk, or a piece of one.

use super::read::Damage;
use crate::pg::page::PageTuple;
use crate::pg::relation::Table;
use crate::pg::tuple;
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
/// The tuple must be pinned.
#[inline]
pub unsafe fn classify(item: &PageTuple) -> TupleKind {
    // SAFETY: by contract.
    unsafe {
        if tuple::attribute_count(item.header) != 0 {
            return TupleKind::Row;
        }
        match header::body_kind(tuple::body(item.header, item.len)) {
            BodyKind::Row => TupleKind::Row,
            BodyKind::Piece | BodyKind::Note => TupleKind::Skip,
            BodyKind::Header if item.tid.offset > MAX_HEADER_OFFSET => TupleKind::Skip,
            BodyKind::Header | BodyKind::Damaged => TupleKind::Header,
        }
    }
}

/// Raises what is wrong with a header tuple.
///
/// # Safety
/// `table` must be open and the tuple pinned.
pub unsafe fn raise(table: Table<'_>, item: &PageTuple, damage: &Damage) -> ! {
    // SAFETY: by contract.
    let (name, body) = unsafe {
        table.check_snapshot_age();
        (table.name(), tuple::body(item.header, item.len))
    };
    damage.raise(&name, header::chunk_id(body), item.tid)
}
