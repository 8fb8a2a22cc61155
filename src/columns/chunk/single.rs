//! One value of a block without the others: who looks for a row here and a row there does not decode what lies between.

use super::block::check;
use super::directory::BlockEntry;
use super::header::{int_range, ColumnHeader};
use crate::codec::{float, id, int};
use crate::column::Kind;
use crate::error::{Corrupt, Result};
use crate::summary::Bound;
use crate::wire::Reader;

/// May a block of a column tell one value alone?
pub fn may_tell_value(column: &ColumnHeader) -> bool {
    use Kind::*;
    matches!(column.kind, Bool | I16 | I32 | I64 | F64)
}

/// The value of row `at` of a block, counted from its first, without decoding the block. None where there are nulls, where the codec does not
/// tell one value alone, and of kinds other than integers and doubles. `bytes` is as for `decode_block`.
pub fn value_at(
    column: &ColumnHeader,
    entry: &BlockEntry,
    bytes: &[u8],
    at: usize,
) -> Result<Option<Bound>> {
    find(column, entry, bytes, at).map_err(|e| e.in_column(column.index).in_block(entry.index))
}

fn find(
    column: &ColumnHeader,
    entry: &BlockEntry,
    bytes: &[u8],
    at: usize,
) -> Result<Option<Bound>> {
    let rows = entry.rows.len();
    let is_plain = entry.nulls == 0 && entry.codec != id::CONST && entry.codec != id::ALL_NULL;
    if !is_plain || at >= rows {
        return Ok(None);
    }
    check(column, entry, bytes)?;
    let reader = Reader::new(bytes);
    match column.kind {
        Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64 => {
            let value = int::value_of_body(entry.codec, reader, rows, at)?;
            let (low, high) = int_range(column.kind);
            if value.is_some_and(|value| !(low..=high).contains(&value)) {
                return Err(Corrupt::new("a value is out of the range of its kind"));
            }
            Ok(value.map(Bound::Int))
        }
        Kind::F64 => Ok(float::value_f64(entry.codec, reader, rows, at)?.map(Bound::Float)),
        _ => Ok(None),
    }
}
