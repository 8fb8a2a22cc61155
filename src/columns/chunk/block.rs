//! One block of one column: validity, then the body that its codec describes. Bytes: FORMAT.md, "Block".

use std::cell::RefCell;
use std::ops::Range;

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::directory::BlockEntry;
use super::header::{int_range, ColumnHeader, Constant, Layout};
use super::values::Dense;
use super::{checksum, Tier};
use crate::codec::bytes::Strings;
use crate::codec::{bits, bytes, fixed, float, id, int, numeric, Guess};
use crate::column::{Column, Kind, Values};
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Summary};
use crate::wire::Reader;

/// Appends the block of `rows` to `out` (the payload from `origin` on) and describes it.
pub(super) fn encode(
    column: &Column,
    place: (u32, u32),
    rows: Range<usize>,
    tier: Tier,
    guess: &mut Guess,
    out: &mut Vec<u8>,
) -> (BlockEntry, Dense, Summary) {
    let (column_index, index) = place;
    let start = out.len();
    let dense = Dense::gather(column, rows.clone());
    let nulls = rows.len() - dense.len();
    let mut summary = Summary::EMPTY;
    let mut codec = id::ALL_NULL;
    if dense.len() > 0 {
        summary = dense.summarize(column.kind);
        if let (Some(valid), 1..) = (&column.validity, nulls) {
            bits::encode(&valid[rows.clone()], out);
        }
        codec = if is_constant(&dense, &summary) {
            id::CONST
        } else {
            encode_body(&dense, tier, guess, out)
        };
    }
    let entry = BlockEntry {
        index,
        rows: rows.start as u32..rows.end as u32,
        bytes: start as u32..out.len() as u32,
        codec,
        nulls: nulls as u32,
        min: summary.min,
        max: summary.max,
        sum: summary.sum,
        checksum: block_checksum(&out[start..], column_index, index),
    };
    (entry, dense, summary)
}

/// Bound to its place, so that a block read from elsewhere is noticed.
fn block_checksum(bytes: &[u8], column: u32, block: u32) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    checksum(bytes, column << 16 ^ block ^ 0xB10C_0000)
}

/// All values are the minimum, bit for bit, and the minimum is whole.
fn is_constant(dense: &Dense, summary: &Summary) -> bool {
    match (dense, summary.min, summary.max) {
        (Dense::Ints(_), Bound::Int(min), Bound::Int(max)) => min == max,
        (Dense::F64(v), Bound::Float(min), _) => v.iter().all(|f| f.to_bits() == min.to_bits()),
        // A NaN may change its bits when it is widened.
        (Dense::F32(v), Bound::Float(min), _) => {
            !min.is_nan() && v.iter().all(|f| f.to_bits() == (min as f32).to_bits())
        }
        (_, Bound::Prefix(min), Bound::Prefix(max)) => min == max && !min.rounded,
        _ => false,
    }
}

fn encode_body(dense: &Dense, tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    match dense {
        Dense::Ints(v) => int::encode_body(v, tier, guess.order(), out),
        Dense::F64(v) => float::encode_f64(v, tier, guess, out),
        Dense::F32(v) => float::encode_f32(v, tier, guess, out),
        Dense::Fixed(data, width) => fixed::encode(data, *width, tier, out),
        Dense::Strings { ends, data } => bytes::encode(Strings { ends, data }, tier, out),
        Dense::Scaled(scale, v) => numeric::encode(*scale, v, tier, out),
    }
}

/// Decodes one block into `out`, whose buffers are used again. `bytes` is the payload range
/// `entry.bytes`. Slots of null rows hold defaults.
pub fn decode_block(
    column: &ColumnHeader,
    entry: &BlockEntry,
    bytes: &[u8],
    out: &mut Column,
) -> Result<()> {
    decode(column, entry, bytes, out).map_err(|e| e.in_column(column.index).in_block(entry.index))
}

/// One row of a column that has the same value in every row; None of other columns. Needs no payload.
pub fn constant(column: &ColumnHeader) -> Result<Option<Column>> {
    let Layout::Constant(value) = &column.layout else {
        return Ok(None);
    };
    let Summary { min, max, sum, .. } = value.summary(column.kind, 1);
    let entry = BlockEntry {
        index: 0,
        rows: 0..1,
        bytes: column.blocks.clone(),
        codec: id::CONST,
        nulls: 0,
        min,
        max,
        sum,
        checksum: 0,
    };
    let mut row = Column::empty();
    decode_block(column, &entry, &[], &mut row)?;
    Ok(Some(row))
}

/// May a block be a line? `line` reads its few bytes then.
pub fn may_be_line(column: &ColumnHeader, entry: &BlockEntry) -> bool {
    entry.codec == id::INT_LINEAR && entry.nulls == 0 && column.kind == Kind::I64
}

/// First value and step of a block whose values are equidistant and none of them null; None of other blocks. `bytes` is as for
/// `decode_block`.
pub fn line(column: &ColumnHeader, entry: &BlockEntry, bytes: &[u8]) -> Result<Option<(i64, i64)>> {
    if !may_be_line(column, entry) {
        return Ok(None);
    }
    check(column, entry, bytes)
        .and_then(|()| int::line(entry.codec, Reader::new(bytes), entry.rows.len()))
        .map_err(|e| e.in_column(column.index).in_block(entry.index))
}

/// Are these the bytes that were written?
pub(super) fn check(column: &ColumnHeader, entry: &BlockEntry, bytes: &[u8]) -> Result<()> {
    if bytes.len() != entry.bytes.len() {
        return Err(Corrupt::new("the block is not as long as its entry says"));
    }
    if block_checksum(bytes, column.index, entry.index) != entry.checksum {
        return Err(Corrupt::new("wrong checksum of a block"));
    }
    Ok(())
}

fn decode(column: &ColumnHeader, entry: &BlockEntry, bytes: &[u8], out: &mut Column) -> Result<()> {
    let rows = entry.rows.len();
    check(column, entry, bytes)?;
    let mut reader = Reader::new(bytes);
    out.kind = column.kind;
    let nulls = entry.nulls as usize;
    let count = rows - nulls;
    if (entry.codec == id::ALL_NULL) != (count == 0) {
        return Err(Corrupt::new(
            "a block of nulls has values, or the other way round",
        ));
    }
    let mut valid = out.validity.take().unwrap_or_default();
    if count == 0 {
        valid.clear();
        valid.resize(rows, false);
        reader.finish()?;
    } else if nulls > 0 {
        bits::decode(&mut reader, rows, &mut valid)?;
        if valid.iter().filter(|&&v| v).count() != count {
            return Err(Corrupt::new(
                "the validity does not match the count of nulls",
            ));
        }
    }
    decode_values(column, entry, reader, count, &mut out.values)?;
    if nulls > 0 {
        spread(&mut out.values, &valid, column.kind);
        out.validity = Some(valid);
    }
    Ok(())
}

thread_local! {
    /// Integers on their way to a narrower type.
    static WIDE: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

/// The `count` non-null values, back to back.
fn decode_values(
    column: &ColumnHeader,
    entry: &BlockEntry,
    reader: Reader,
    count: usize,
    out: &mut Values,
) -> Result<()> {
    let codec = entry.codec;
    if codec == id::CONST {
        reader.finish()?;
        return fill(column, entry, count, out);
    }
    if count == 0 {
        *out = Values::empty(column.kind);
        return Ok(());
    }
    match column.kind {
        Kind::Absent => Err(Corrupt::new("a column without rows has values")),
        Kind::I64 => int::decode_body(codec, reader, count, ints_of(out)),
        Kind::Bool | Kind::I16 | Kind::I32 => WIDE.with_borrow_mut(|wide| {
            int::decode_body(codec, reader, count, wide)?;
            narrow(wide, column.kind, out)
        }),
        Kind::F64 => float::decode_f64(codec, reader, count, floats_of(out)),
        Kind::F32 => {
            if !matches!(out, Values::F32(_)) {
                *out = Values::F32(Vec::new());
            }
            let Values::F32(values) = out else {
                unreachable!("BUG: just set")
            };
            float::decode_f32(codec, reader, count, values)
        }
        Kind::Fixed(width) => {
            let data = take_fixed(width, out);
            fixed::decode(codec, reader, width as usize, count, data)
        }
        Kind::Numeric if codec == id::NUMERIC_SCALED => {
            let (ends, data) = take_strings(out);
            numeric::decode(reader, count, ends, data)
        }
        Kind::Bytes | Kind::Numeric => {
            let (ends, data) = take_strings(out);
            bytes::decode(codec, reader, count, ends, data)
        }
    }
}

/// `count` times the value of a constant column or block.
fn fill(column: &ColumnHeader, entry: &BlockEntry, count: usize, out: &mut Values) -> Result<()> {
    const WRONG: Corrupt = Corrupt::new("a constant block does not know its value");
    let constant = match &column.layout {
        Layout::Constant(constant) => constant.clone(),
        _ => match (entry.min, column.kind) {
            (Bound::Int(value), _) => Constant::Int(value),
            (Bound::Float(value), Kind::F32) => Constant::F32((value as f32).to_bits()),
            (Bound::Float(value), _) => Constant::F64(value.to_bits()),
            (Bound::Prefix(prefix), _) if !prefix.rounded => {
                Constant::Bytes(prefix.as_bytes().to_vec())
            }
            _ => return Err(WRONG),
        },
    };
    match (column.kind, constant) {
        (Kind::I64, Constant::Int(value)) => {
            let out = ints_of(out);
            out.clear();
            out.resize(count, value);
        }
        (Kind::Bool | Kind::I16 | Kind::I32, Constant::Int(value)) => {
            narrow(&vec![value; count], column.kind, out)?;
        }
        (Kind::F64, Constant::F64(bits)) => *out = Values::F64(vec![f64::from_bits(bits); count]),
        (Kind::F32, Constant::F32(bits)) => *out = Values::F32(vec![f32::from_bits(bits); count]),
        (Kind::Fixed(width), Constant::Bytes(value)) if value.len() == width as usize => {
            *take_fixed(width, out) = value.repeat(count);
        }
        (Kind::Bytes | Kind::Numeric, Constant::Bytes(value)) => {
            let (ends, data) = take_strings(out);
            *data = value.repeat(count);
            ends.clear();
            ends.extend((1..=count).map(|i| (i * value.len()) as u32));
        }
        _ => return Err(WRONG),
    }
    Ok(())
}

fn narrow(wide: &[i64], kind: Kind, out: &mut Values) -> Result<()> {
    let (low, high) = int_range(kind);
    let (least, most) = int::min_max(wide);
    if !wide.is_empty() && (least < low || most > high) {
        return Err(Corrupt::new("a value is out of the range of its kind"));
    }
    // Another type's buffer is given up; the same type's is used again.
    match (kind, out) {
        (Kind::Bool, Values::Bool(narrow)) => narrow_bools(wide, sized(narrow, wide.len())),
        (Kind::I16, Values::I16(narrow)) => narrow_shorts(wide, sized(narrow, wide.len())),
        (Kind::I32, Values::I32(narrow)) => narrow_ints(wide, sized(narrow, wide.len())),
        (_, out) => {
            *out = Values::empty(kind);
            return self::narrow(wide, kind, out);
        }
    }
    Ok(())
}

fn sized<T: Copy + Default>(values: &mut Vec<T>, len: usize) -> &mut [T] {
    values.resize(len, T::default());
    values
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn narrow_bools(wide: &[i64], narrow: &mut [bool]) {
    narrow
        .iter_mut()
        .zip(wide)
        .for_each(|(narrow, &wide)| *narrow = wide != 0);
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn narrow_shorts(wide: &[i64], narrow: &mut [i16]) {
    narrow
        .iter_mut()
        .zip(wide)
        .for_each(|(narrow, &wide)| *narrow = wide as i16);
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn narrow_ints(wide: &[i64], narrow: &mut [i32]) {
    narrow
        .iter_mut()
        .zip(wide)
        .for_each(|(narrow, &wide)| *narrow = wide as i32);
}

pub(super) fn ints_of(out: &mut Values) -> &mut Vec<i64> {
    if !matches!(out, Values::I64(_)) {
        *out = Values::I64(Vec::new());
    }
    match out {
        Values::I64(values) => values,
        _ => unreachable!("BUG: just set"),
    }
}

pub(super) fn floats_of(out: &mut Values) -> &mut Vec<f64> {
    if !matches!(out, Values::F64(_)) {
        *out = Values::F64(Vec::new());
    }
    match out {
        Values::F64(values) => values,
        _ => unreachable!("BUG: just set"),
    }
}

fn take_fixed(want: u16, out: &mut Values) -> &mut Vec<u8> {
    if !matches!(out, Values::Fixed { .. }) {
        *out = Values::Fixed {
            width: want,
            data: Vec::new(),
        };
    }
    match out {
        Values::Fixed { width, data } => {
            *width = want;
            data
        }
        _ => unreachable!("BUG: just set"),
    }
}

fn take_strings(out: &mut Values) -> (&mut Vec<u32>, &mut Vec<u8>) {
    if !matches!(out, Values::Bytes { .. }) {
        *out = Values::Bytes {
            ends: Vec::new(),
            data: Vec::new(),
        };
    }
    match out {
        Values::Bytes { ends, data } => (ends, data),
        _ => unreachable!("BUG: just set"),
    }
}

/// Moves values that lie back to back to the slots of the valid rows.
fn spread(values: &mut Values, valid: &[bool], kind: Kind) {
    match values {
        Values::Absent(rows) => *rows = valid.len(),
        Values::Bool(v) => spread_slots(v, valid),
        Values::I16(v) => spread_slots(v, valid),
        Values::I32(v) => spread_slots(v, valid),
        Values::I64(v) => spread_slots(v, valid),
        Values::F32(v) => spread_slots(v, valid),
        Values::F64(v) => spread_slots(v, valid),
        Values::Fixed { width, data } => {
            debug_assert_eq!(kind, Kind::Fixed(*width));
            let width = *width as usize;
            let mut from = data.len();
            data.resize(valid.len() * width, 0);
            for (row, &ok) in valid.iter().enumerate().rev() {
                if ok {
                    from -= width;
                    data.copy_within(from..from + width, row * width);
                } else {
                    data[row * width..][..width].fill(0);
                }
            }
        }
        Values::Bytes { ends, .. } => {
            let dense = std::mem::take(ends);
            let mut next = dense.iter();
            let mut end = 0;
            ends.extend(valid.iter().map(|&ok| {
                if ok {
                    end = next.next().copied().unwrap_or(end);
                }
                end
            }));
        }
    }
}

fn spread_slots<T: Copy + Default>(values: &mut Vec<T>, valid: &[bool]) {
    let mut from = values.len();
    values.resize(valid.len(), T::default());
    for (row, &ok) in valid.iter().enumerate().rev() {
        if ok {
            from -= 1;
            values[row] = values[from];
        } else {
            values[row] = T::default();
        }
    }
}
