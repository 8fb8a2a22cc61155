//! Summaries of columns and bounds of strings to bytes and back. Bytes: FORMAT.md, "Header".

use crate::column::Kind;
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Prefix, Sum, Summary, PREFIX_BYTES};
use crate::wire::{put_float, put_varint, put_zigzag, put_zigzag128, Reader};

/// Minimum and maximum as offset, sum as offset to count * minimum, so that small numbers stay small.
pub(super) fn write(summary: &Summary, out: &mut Vec<u8>) {
    let Summary {
        count,
        min,
        max,
        sum,
        squares,
        first,
        last,
    } = *summary;
    match (min, max, sum) {
        (Bound::Int(low), Bound::Int(high), Sum::Int(sum)) => {
            put_zigzag(out, low);
            put_varint(out, high.wrapping_sub(low) as u64);
            put_zigzag128(out, sum - i128::from(low) * i128::from(count));
            if let Sum::Int(squares) = squares {
                put_zigzag128(out, squares);
            }
            put_int_bound(first, low, out);
            put_int_bound(last, low, out);
        }
        (Bound::Float(low), Bound::Float(high), Sum::Float(sum)) => {
            let Sum::Float(squares) = squares else {
                unreachable!("BUG: floats without squares")
            };
            for value in [low, high, sum, squares] {
                put_float(out, value);
            }
            put_float_bound(first, out);
            put_float_bound(last, out);
        }
        (
            Bound::Decimal {
                unscaled: low,
                scale,
            },
            Bound::Decimal { unscaled: high, .. },
            sum,
        ) => {
            let Sum::Decimal { unscaled: sum, .. } = sum else {
                unreachable!("BUG: decimals without sum")
            };
            out.push(scale as u8);
            put_zigzag(out, low);
            put_varint(out, high.wrapping_sub(low) as u64);
            put_zigzag128(out, sum - i128::from(low) * i128::from(count));
            put_int_bound(first, low, out);
            put_int_bound(last, low, out);
        }
        _ => [min, max, first, last]
            .into_iter()
            .for_each(|bound| put_prefix(bound, out)),
    }
}

/// The summary of `count` values.
pub(super) fn parse(reader: &mut Reader, kind: Kind, count: u32) -> Result<Summary> {
    let mut summary = Summary {
        count,
        ..Summary::EMPTY
    };
    match kind {
        Kind::Absent => return Err(Corrupt::new("a column without rows has values")),
        Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64 => {
            let (low, high, sum) = parse_ints(reader, count)?;
            summary.min = Bound::Int(low);
            summary.max = Bound::Int(high);
            summary.sum = Sum::Int(sum);
            if has_int_squares(low, high) {
                summary.squares = Sum::Int(reader.zigzag128()?);
            }
            summary.first = Bound::Int(take_int_bound(reader, low)?);
            summary.last = Bound::Int(take_int_bound(reader, low)?);
        }
        Kind::F32 | Kind::F64 => {
            summary.min = Bound::Float(reader.float()?);
            summary.max = Bound::Float(reader.float()?);
            summary.sum = Sum::Float(reader.float()?);
            summary.squares = Sum::Float(reader.float()?);
            summary.first = Bound::Float(reader.float()?);
            summary.last = Bound::Float(reader.float()?);
        }
        Kind::Numeric => {
            let scale = u16::from(reader.u8()?);
            if scale == u16::from(NO_PREFIX) {
                for _ in 0..3 {
                    reader.u8()?;
                }
                return Ok(summary);
            }
            let (low, high, unscaled) = parse_ints(reader, count)?;
            summary.min = Bound::Decimal {
                unscaled: low,
                scale,
            };
            summary.max = Bound::Decimal {
                unscaled: high,
                scale,
            };
            summary.sum = Sum::Decimal { unscaled, scale };
            summary.first = Bound::Decimal {
                unscaled: take_int_bound(reader, low)?,
                scale,
            };
            summary.last = Bound::Decimal {
                unscaled: take_int_bound(reader, low)?,
                scale,
            };
        }
        Kind::Fixed(_) | Kind::Bytes => {
            summary.min = parse_prefix(reader)?;
            summary.max = parse_prefix(reader)?;
            summary.first = parse_prefix(reader)?;
            summary.last = parse_prefix(reader)?;
        }
    }
    Ok(summary)
}

/// Sums of squares are kept where they are exact: values of 32 bits.
fn has_int_squares(min: i64, max: i64) -> bool {
    i32::try_from(min).is_ok() && i32::try_from(max).is_ok()
}

fn parse_ints(reader: &mut Reader, count: u32) -> Result<(i64, i64, i128)> {
    let low = reader.zigzag()?;
    let high = low.wrapping_add(reader.varint()? as i64);
    if high < low {
        return Err(Corrupt::new("a maximum is below its minimum"));
    }
    let sum = reader
        .zigzag128()?
        .checked_add(i128::from(low) * i128::from(count));
    Ok((low, high, sum.ok_or(Corrupt::new("a sum is out of range"))?))
}

fn put_int_bound(bound: Bound, low: i64, out: &mut Vec<u8>) {
    match bound {
        Bound::Int(value)
        | Bound::Decimal {
            unscaled: value, ..
        } => {
            put_varint(out, value.wrapping_sub(low) as u64);
        }
        _ => unreachable!("BUG: first and last of integers are integers"),
    }
}

fn take_int_bound(reader: &mut Reader, low: i64) -> Result<i64> {
    Ok(low.wrapping_add(reader.varint()? as i64))
}

fn put_float_bound(bound: Bound, out: &mut Vec<u8>) {
    match bound {
        Bound::Float(value) => put_float(out, value),
        _ => unreachable!("BUG: first and last of floats are floats"),
    }
}

const ROUNDED: u8 = 0x80;
const NO_PREFIX: u8 = 0xFF;

/// Length (bit 7: rounded; 0xFF: no bound), bytes.
pub(super) fn put_prefix(bound: Bound, out: &mut Vec<u8>) {
    match bound {
        Bound::Prefix(prefix) => {
            let rounded = if prefix.rounded { ROUNDED } else { 0 };
            out.push(prefix.as_bytes().len() as u8 | rounded);
            out.extend_from_slice(prefix.as_bytes());
        }
        _ => out.push(NO_PREFIX),
    }
}

pub(super) fn parse_prefix(reader: &mut Reader) -> Result<Bound> {
    let tag = reader.u8()?;
    if tag == NO_PREFIX {
        return Ok(Bound::None);
    }
    let length = (tag & !ROUNDED) as usize;
    if length > PREFIX_BYTES {
        return Err(Corrupt::new("a bound is too long"));
    }
    Ok(Bound::Prefix(Prefix::stored(
        reader.take(length)?,
        tag & ROUNDED != 0,
    )))
}
