//! Some rows of a block without the others: who wants a short series of a block with many does not decode them all.

use super::block::{check, floats_of, ints_of};
use super::directory::BlockEntry;
use super::header::ColumnHeader;
use crate::codec::{float, id, int};
use crate::column::{Column, Kind};
use crate::error::Result;
use crate::wire::Reader;
use std::ops::Range;

/// Decodes rows of a block, counted from its first, into `out`, whose buffers are used again; returns which, `rows` among them. None where there are nulls,
/// where the codec does not tell them without the others, and of kinds other than 64-bit integers and doubles: what is in `out` then is nothing. `bytes` is as
/// for `decode_block`.
pub fn decode_part(
    column: &ColumnHeader,
    entry: &BlockEntry,
    bytes: &[u8],
    rows: Range<usize>,
    out: &mut Column,
) -> Result<Option<Range<usize>>> {
    decode(column, entry, bytes, rows, out)
        .map_err(|e| e.in_column(column.index).in_block(entry.index))
}

fn decode(
    column: &ColumnHeader,
    entry: &BlockEntry,
    bytes: &[u8],
    rows: Range<usize>,
    out: &mut Column,
) -> Result<Option<Range<usize>>> {
    let count = entry.rows.len();
    let is_plain = entry.nulls == 0 && entry.codec != id::CONST && entry.codec != id::ALL_NULL;
    let has_parts = matches!(column.kind, Kind::I64 | Kind::F64);
    if !is_plain || !has_parts || rows.is_empty() || rows.end > count {
        return Ok(None);
    }
    check(column, entry, bytes)?;
    let (reader, part) = (Reader::new(bytes), int::around(&rows, count));
    let is_told = match column.kind {
        Kind::I64 => {
            let values = ints_of(&mut out.values);
            int::decode_part(entry.codec, reader, count, part.clone(), values)?
        }
        Kind::F64 => {
            let values = floats_of(&mut out.values);
            float::decode_part_f64(entry.codec, reader, count, part.clone(), values)?
        }
        _ => false,
    };
    out.kind = column.kind;
    out.validity = None;
    Ok(is_told.then_some(part))
}
