//! What a tuple of a varve table is: a row of the tail, the header of a chunk, or a piece of one.

use super::read::Damage;
use crate::pg::page::PageTuple;
use crate::pg::relation::Table;
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

#[inline]
pub fn classify(item: &PageTuple<'_>) -> TupleKind {
    if item.attribute_count() != 0 {
        return TupleKind::Row;
    }
    match header::body_kind(item.body()) {
        BodyKind::Row => TupleKind::Row,
        BodyKind::Piece | BodyKind::Note => TupleKind::Skip,
        BodyKind::Header if item.tid.offset > MAX_HEADER_OFFSET => TupleKind::Skip,
        BodyKind::Header | BodyKind::Damaged => TupleKind::Header,
    }
}

/// Raises what is wrong with a header tuple of `table`.
pub fn raise(table: Table<'_>, item: &PageTuple<'_>, damage: &Damage) -> ! {
    table.check_snapshot_age();
    let (name, body) = (table.name(), item.body());
    damage.raise(&name, header::chunk_id(body), item.tid)
}
