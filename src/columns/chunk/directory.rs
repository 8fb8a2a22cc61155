//! The directory of a column's blocks: where each block is, and minimum, maximum, sum and nulls, so that a
//! reader skips blocks or answers from them. Kept as streams of integers over all blocks, so that it costs
//! some nine bytes a block. Bytes: FORMAT.md, "Directory".

use std::ops::Range;

use super::header::{parse_prefix, put_prefix, ColumnHeader, Layout};
use super::{checksum, Tier, BLOCK_ROWS};
use crate::codec::{id, int, zstd};
use crate::column::Kind;
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Sum, Summary, PREFIX_BYTES};
use crate::wire::{put_varint, put_zigzag128, to_decimal, Reader, MAX_EXPONENT, POW10};

/// The blocks of one column, in row order.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDirectory {
    blocks: Vec<BlockEntry>,
}

/// One block: where it is and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockEntry {
    pub index: u32,
    /// Rows of the chunk.
    pub rows: Range<u32>,
    /// Range of the payload; empty where the entry itself says everything.
    pub bytes: Range<u32>,
    pub codec: u8,
    pub nulls: u32,
    pub min: Bound,
    pub max: Bound,
    pub sum: Sum,
    pub checksum: u32,
}

impl ColumnDirectory {
    /// Reads the directory of `column` from its payload range `column.directory`.
    pub fn parse(column: &ColumnHeader, bytes: &[u8]) -> Result<ColumnDirectory> {
        let blocks = match &column.layout {
            _ if column.rows == 0 => Ok(Vec::new()),
            Layout::AllNull => Ok(implied(column, |_| Summary::EMPTY)),
            Layout::Constant(value) => Ok(implied(column, |rows| value.summary(column.kind, rows))),
            Layout::Single { codec, checksum } => Ok(vec![single(column, *codec, *checksum)]),
            Layout::Blocks { block_rows } => parse_blocks(column, *block_rows, bytes),
        };
        Ok(ColumnDirectory {
            blocks: blocks.map_err(|e| e.in_column(column.index))?,
        })
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn blocks(&self) -> &[BlockEntry] {
        &self.blocks
    }

    pub fn block(&self, index: usize) -> &BlockEntry {
        &self.blocks[index]
    }

    /// Index of the block that holds `row`, which must be below the chunk's rows.
    pub fn block_of_row(&self, row: u32) -> usize {
        self.blocks.partition_point(|b| b.rows.end <= row)
    }
}

/// Blocks without bytes, of the usual length, so that a reader of one row does not fill in a whole column.
fn implied(column: &ColumnHeader, summary: impl Fn(u32) -> Summary) -> Vec<BlockEntry> {
    let starts = (0..column.rows).step_by(BLOCK_ROWS).enumerate();
    starts
        .map(|(index, start)| {
            let rows = start..column.rows.min(start + BLOCK_ROWS as u32);
            let Summary {
                min,
                max,
                sum,
                count,
                ..
            } = summary(rows.len() as u32);
            let codec = if count == 0 { id::ALL_NULL } else { id::CONST };
            let nulls = rows.len() as u32 - count;
            let bytes = column.blocks.clone();
            BlockEntry {
                index: index as u32,
                rows,
                bytes,
                codec,
                nulls,
                min,
                max,
                sum,
                checksum: 0,
            }
        })
        .collect()
}

/// The block of a column that has but one.
fn single(column: &ColumnHeader, codec: u8, checksum: u32) -> BlockEntry {
    BlockEntry {
        index: 0,
        rows: 0..column.rows,
        bytes: column.blocks.clone(),
        codec,
        nulls: column.nulls,
        min: column.summary.min,
        max: column.summary.max,
        sum: column.summary.sum,
        checksum,
    }
}

/// Appends the directory. `block_rows` 0: blocks differ in length.
pub(super) fn write(
    column: &ColumnHeader,
    block_rows: u32,
    blocks: &[BlockEntry],
    tier: Tier,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    if block_rows == 0 {
        put_varint(out, blocks.len() as u64);
        put_stream(blocks.iter().map(|b| b.rows.len() as i64), tier, out);
    }
    put_stream(blocks.iter().map(|b| b.bytes.len() as i64), tier, out);
    put_stream(blocks.iter().map(|b| i64::from(b.codec)), tier, out);
    if column.nulls > 0 {
        put_stream(blocks.iter().map(|b| i64::from(b.nulls)), tier, out);
    }
    write_bounds(column.kind, blocks, tier, out);
    for block in blocks.iter().filter(|b| !b.bytes.is_empty()) {
        out.extend_from_slice(&block.checksum.to_le_bytes());
    }
    let sum = checksum(&out[start..], column.index);
    out.extend_from_slice(&sum.to_le_bytes());
}

fn put_stream(values: impl Iterator<Item = i64>, tier: Tier, out: &mut Vec<u8>) {
    let values: Vec<i64> = values.collect();
    let mut stream = Vec::new();
    int::encode(&values, tier, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
}

fn take_stream(reader: &mut Reader, n: usize) -> Result<Vec<i64>> {
    let bytes = reader.varint_up_to(reader.len())?;
    let mut out = Vec::new();
    int::decode(reader.take(bytes)?, n, &mut out)?;
    Ok(out)
}

fn parse_blocks(column: &ColumnHeader, block_rows: u32, bytes: &[u8]) -> Result<Vec<BlockEntry>> {
    if bytes.len() != column.directory.len() {
        return Err(Corrupt::new(
            "the directory is not as long as the header says",
        ));
    }
    let (body, sum) = bytes
        .split_last_chunk::<4>()
        .ok_or(Corrupt::new("bytes end too early"))?;
    if checksum(body, column.index) != u32::from_le_bytes(*sum) {
        return Err(Corrupt::new("wrong checksum of the directory"));
    }
    let mut reader = Reader::new(body);
    let mut blocks = parse_places(column, block_rows, &mut reader)?;
    parse_bounds(column.kind, &mut blocks, &mut reader)?;
    for block in blocks.iter_mut().filter(|b| !b.bytes.is_empty()) {
        block.checksum = reader.u32()?;
    }
    reader.finish()?;
    Ok(blocks)
}

/// Rows, byte ranges, codecs and nulls; both ranges must add up to what the header says.
fn parse_places(
    column: &ColumnHeader,
    block_rows: u32,
    reader: &mut Reader,
) -> Result<Vec<BlockEntry>> {
    let lengths = if block_rows == 0 {
        let count = reader.varint_up_to(column.rows as usize)?;
        take_stream(reader, count)?
    } else {
        let starts = (0..column.rows).step_by(block_rows as usize);
        starts
            .map(|start| i64::from(block_rows.min(column.rows - start)))
            .collect()
    };
    let n = lengths.len();
    let sizes = take_stream(reader, n)?;
    let codecs = take_stream(reader, n)?;
    let nulls = if column.nulls > 0 {
        take_stream(reader, n)?
    } else {
        vec![0; n]
    };
    let (mut row, mut byte, mut null_rows) = (0u32, column.blocks.start, 0i64);
    let mut blocks = Vec::with_capacity(n);
    for i in 0..n {
        let rows = advance(&mut row, lengths[i], column.rows)?;
        let bytes = advance(&mut byte, sizes[i], column.blocks.end)?;
        if rows.is_empty() || !(0..=rows.len() as i64).contains(&nulls[i]) {
            return Err(Corrupt::new("a block has no rows or more nulls than rows"));
        }
        null_rows += nulls[i];
        blocks.push(BlockEntry {
            index: i as u32,
            rows,
            bytes,
            codec: u8::try_from(codecs[i])
                .map_err(|_| Corrupt::new("a codec id is out of range"))?,
            nulls: nulls[i] as u32,
            min: Bound::None,
            max: Bound::None,
            sum: Sum::None,
            checksum: 0,
        });
    }
    if row != column.rows || byte != column.blocks.end || null_rows != i64::from(column.nulls) {
        return Err(Corrupt::new("the blocks do not add up to the column"));
    }
    Ok(blocks)
}

fn advance(at: &mut u32, by: i64, end: u32) -> Result<Range<u32>> {
    let start = *at;
    if !(0..=i64::from(end - start)).contains(&by) {
        return Err(Corrupt::new("a block lies outside of its column"));
    }
    *at = start + by as u32;
    Ok(start..*at)
}

const NONE: u8 = 0xFF;
const BITS: u8 = 0xFE;

/// Bounds of the blocks that have values: those that are not all null.
fn write_bounds(kind: Kind, blocks: &[BlockEntry], tier: Tier, out: &mut Vec<u8>) {
    let blocks: Vec<&BlockEntry> = blocks.iter().filter(|b| b.codec != id::ALL_NULL).collect();
    match kind {
        Kind::Absent => {}
        Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64 => write_ints(&blocks, tier, out),
        Kind::F32 | Kind::F64 => write_floats(&blocks, tier, out),
        Kind::Fixed(_) | Kind::Bytes => write_prefixes(&blocks, out),
        Kind::Numeric => match common_scale(&blocks) {
            Some(scale) => {
                out.push(scale as u8);
                write_ints(&blocks, tier, out);
            }
            None => out.push(NONE),
        },
    }
}

fn parse_bounds(kind: Kind, blocks: &mut [BlockEntry], reader: &mut Reader) -> Result<()> {
    let mut blocks: Vec<&mut BlockEntry> = blocks
        .iter_mut()
        .filter(|b| b.codec != id::ALL_NULL)
        .collect();
    match kind {
        Kind::Absent => Ok(()),
        Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64 => parse_ints(&mut blocks, None, reader),
        Kind::F32 | Kind::F64 => parse_floats(&mut blocks, reader),
        Kind::Fixed(_) | Kind::Bytes => parse_prefixes(&mut blocks, reader),
        Kind::Numeric => match reader.u8()? {
            NONE => Ok(()),
            scale => parse_ints(&mut blocks, Some(u16::from(scale)), reader),
        },
    }
}

/// As they are, or in a zstd frame: keys have bounds that look alike.
fn write_prefixes(blocks: &[&BlockEntry], out: &mut Vec<u8>) {
    let mut prefixes = Vec::new();
    for block in blocks {
        put_prefix(block.min, &mut prefixes);
        put_prefix(block.max, &mut prefixes);
    }
    let mut frame = Vec::new();
    zstd::compress(&prefixes, 1, &mut frame);
    if frame.len() < prefixes.len() {
        put_varint(out, frame.len() as u64);
        out.extend_from_slice(&frame);
    } else {
        put_varint(out, 0);
        out.extend_from_slice(&prefixes);
    }
}

fn parse_prefixes(blocks: &mut [&mut BlockEntry], reader: &mut Reader) -> Result<()> {
    let framed = reader.varint_up_to(reader.len())?;
    if framed == 0 {
        return take_prefixes(blocks, reader);
    }
    let mut prefixes = Vec::new();
    let longest = 2 * (1 + PREFIX_BYTES) * blocks.len();
    zstd::decompress(
        &mut Reader::new(reader.take(framed)?),
        longest,
        &mut prefixes,
    )?;
    let mut reader = Reader::new(&prefixes);
    take_prefixes(blocks, &mut reader)?;
    reader.finish()
}

fn take_prefixes(blocks: &mut [&mut BlockEntry], reader: &mut Reader) -> Result<()> {
    for block in blocks {
        block.min = parse_prefix(reader)?;
        block.max = parse_prefix(reader)?;
    }
    Ok(())
}

/// The scale of all blocks, if they have one.
pub(super) fn common_scale(blocks: &[&BlockEntry]) -> Option<u16> {
    let scale_of = |b: &BlockEntry| match b.min {
        Bound::Decimal { scale, .. } => Some(scale),
        _ => None,
    };
    let first = scale_of(blocks.first()?)?;
    blocks
        .iter()
        .all(|b| scale_of(b) == Some(first))
        .then_some(first)
}

/// Minimum; maximum - minimum; sum - values * minimum: as a stream where all fit into i64, else as varints.
fn write_ints(blocks: &[&BlockEntry], tier: Tier, out: &mut Vec<u8>) {
    let (mut lows, mut ranges, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks {
        let (low, high, sum) = match (block.min, block.max, block.sum) {
            (Bound::Int(low), Bound::Int(high), Sum::Int(sum)) => (low, high, sum),
            (
                Bound::Decimal { unscaled: low, .. },
                Bound::Decimal { unscaled: high, .. },
                Sum::Decimal { unscaled: sum, .. },
            ) => (low, high, sum),
            _ => unreachable!("BUG: a block of integers has integer bounds"),
        };
        lows.push(low);
        ranges.push(high.wrapping_sub(low));
        sums.push(sum - i128::from(low) * values_of(block));
    }
    put_stream(lows.into_iter(), tier, out);
    put_stream(ranges.into_iter(), tier, out);
    if sums.iter().all(|&s| i64::try_from(s).is_ok()) {
        out.push(0);
        put_stream(sums.iter().map(|&s| s as i64), tier, out);
    } else {
        out.push(1);
        sums.iter().for_each(|&s| put_zigzag128(out, s));
    }
}

fn values_of(block: &BlockEntry) -> i128 {
    (block.rows.len() as u32 - block.nulls).into()
}

fn parse_ints(
    blocks: &mut [&mut BlockEntry],
    scale: Option<u16>,
    reader: &mut Reader,
) -> Result<()> {
    let lows = take_stream(reader, blocks.len())?;
    let ranges = take_stream(reader, blocks.len())?;
    let sums: Vec<i128> = match reader.u8()? {
        0 => take_stream(reader, blocks.len())?
            .into_iter()
            .map(i128::from)
            .collect(),
        1 => blocks
            .iter()
            .map(|_| reader.zigzag128())
            .collect::<Result<_>>()?,
        _ => return Err(Corrupt::new("unknown form of sums")),
    };
    for (i, block) in blocks.iter_mut().enumerate() {
        let (low, high) = (lows[i], lows[i].wrapping_add(ranges[i]));
        let sum = sums[i]
            .checked_add(i128::from(low) * values_of(block))
            .ok_or(Corrupt::new("a sum is out of range"))?;
        if high < low {
            return Err(Corrupt::new("a maximum is below its minimum"));
        }
        (block.min, block.max, block.sum) = match scale {
            None => (Bound::Int(low), Bound::Int(high), Sum::Int(sum)),
            Some(scale) => (
                Bound::Decimal {
                    unscaled: low,
                    scale,
                },
                Bound::Decimal {
                    unscaled: high,
                    scale,
                },
                Sum::Decimal {
                    unscaled: sum,
                    scale,
                },
            ),
        };
    }
    Ok(())
}

/// Bounds, then sums, each as decimals of one exponent (integers as above) or as bits.
fn write_floats(blocks: &[&BlockEntry], tier: Tier, out: &mut Vec<u8>) {
    let floats: Vec<[f64; 3]> = blocks.iter().map(|b| float_stats(b)).collect();
    let bounds: Vec<f64> = floats.iter().flat_map(|f| [f[0], f[1]]).collect();
    let sums: Vec<f64> = floats.iter().map(|f| f[2]).collect();
    match decimals(&bounds) {
        Some((exponent, integers)) => {
            out.push(exponent);
            put_stream(integers.iter().step_by(2).copied(), tier, out);
            put_stream(integers.chunks(2).map(|pair| pair[1] - pair[0]), tier, out);
        }
        None => {
            out.push(BITS);
            put_stream(
                bounds.iter().step_by(2).map(|f| f.to_bits() as i64),
                tier,
                out,
            );
            put_stream(
                bounds[1..].iter().step_by(2).map(|f| f.to_bits() as i64),
                tier,
                out,
            );
        }
    }
    match decimals(&sums) {
        Some((exponent, integers)) => {
            out.push(exponent);
            put_stream(integers.into_iter(), tier, out);
        }
        None => {
            out.push(BITS);
            sums.iter()
                .for_each(|f| out.extend_from_slice(&f.to_le_bytes()));
        }
    }
}

fn float_stats(block: &BlockEntry) -> [f64; 3] {
    match (block.min, block.max, block.sum) {
        (Bound::Float(min), Bound::Float(max), Sum::Float(sum)) => [min, max, sum],
        _ => unreachable!("BUG: a block of floats has float bounds"),
    }
}

/// All values as integers at their common exponent.
fn decimals(values: &[f64]) -> Option<(u8, Vec<i64>)> {
    let mut exponent = 0;
    for &value in values {
        exponent = (exponent..=MAX_EXPONENT).find(|&e| to_decimal(value, e).is_some())?;
    }
    let integers = values
        .iter()
        .map(|&v| to_decimal(v, exponent))
        .collect::<Option<Vec<_>>>()?;
    Some((exponent, integers))
}

fn parse_floats(blocks: &mut [&mut BlockEntry], reader: &mut Reader) -> Result<()> {
    let n = blocks.len();
    let form = reader.u8()?;
    let lows = take_stream(reader, n)?;
    let highs = take_stream(reader, n)?;
    for (i, block) in blocks.iter_mut().enumerate() {
        let (low, high) = match form {
            BITS => (
                f64::from_bits(lows[i] as u64),
                f64::from_bits(highs[i] as u64),
            ),
            exponent if exponent <= MAX_EXPONENT => {
                let power = POW10[exponent as usize];
                (
                    lows[i] as f64 / power,
                    lows[i].wrapping_add(highs[i]) as f64 / power,
                )
            }
            _ => return Err(Corrupt::new("unknown form of bounds")),
        };
        block.min = Bound::Float(low);
        block.max = Bound::Float(high);
    }
    let sums: Vec<f64> = match reader.u8()? {
        BITS => blocks
            .iter()
            .map(|_| reader.u64().map(f64::from_bits))
            .collect::<Result<_>>()?,
        exponent if exponent <= MAX_EXPONENT => {
            let power = POW10[exponent as usize];
            take_stream(reader, n)?
                .into_iter()
                .map(|i| i as f64 / power)
                .collect()
        }
        _ => return Err(Corrupt::new("unknown form of sums")),
    };
    for (block, sum) in blocks.iter_mut().zip(sums) {
        block.sum = Sum::Float(sum);
    }
    Ok(())
}
