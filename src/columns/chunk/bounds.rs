//! Minimum, maximum and sum of the blocks of a column, as streams over the blocks. Bytes: FORMAT.md,
//! "Directory".

use super::directory::{put_stream, take_stream, BlockEntry};
use super::summary_bytes::{parse_prefix, put_prefix};
use super::Tier;
use crate::codec::{id, zstd};
use crate::column::Kind;
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Sum, PREFIX_BYTES};
use crate::wire::{put_varint, put_zigzag128, to_decimal, Reader, MAX_EXPONENT, POW10};

const NONE: u8 = 0xFF;
const BITS: u8 = 0xFE;

/// Bounds of the blocks that have values: those that are not all null.
pub(super) fn write(kind: Kind, blocks: &[BlockEntry], tier: Tier, out: &mut Vec<u8>) {
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

/// Sets the bounds of the blocks that have values.
pub(super) fn parse(kind: Kind, blocks: &mut [BlockEntry], reader: &mut Reader) -> Result<()> {
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
fn common_scale(blocks: &[&BlockEntry]) -> Option<u16> {
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
