//! The directory of a column's blocks: where each block is, and minimum, maximum, sum and nulls, so that a
//! reader skips blocks or answers from them. Kept as streams of integers over all blocks, so that it costs
//! some nine bytes a block. Bytes: FORMAT.md, "Directory".

use std::ops::Range;

use super::header::{ColumnHeader, Layout};
use super::{bounds, checksum, Tier, BLOCK_ROWS};
use crate::codec::{id, int};
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Sum, Summary};
use crate::wire::{put_varint, Reader};

/// The blocks of one column, in row order.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDirectory {
    blocks: Vec<BlockEntry>,
    /// Rows of the first block: as a rule, all but the last one have as many.
    block_rows: u32,
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
        let blocks = blocks.map_err(|e| e.in_column(column.index))?;
        let block_rows = blocks.first().map_or(1, |block| block.rows.len() as u32);
        Ok(ColumnDirectory { blocks, block_rows })
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
        let usual = (row / self.block_rows) as usize;
        let has_row = |block: &BlockEntry| block.rows.contains(&row);
        match self.blocks.get(usual).is_some_and(has_row) {
            true => usual,
            false => self.blocks.partition_point(|b| b.rows.end <= row),
        }
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
    bounds::write(column.kind, blocks, tier, out);
    for block in blocks.iter().filter(|b| !b.bytes.is_empty()) {
        out.extend_from_slice(&block.checksum.to_le_bytes());
    }
    let sum = checksum(&out[start..], column.index);
    out.extend_from_slice(&sum.to_le_bytes());
}

pub(super) fn put_stream(values: impl Iterator<Item = i64>, tier: Tier, out: &mut Vec<u8>) {
    let values: Vec<i64> = values.collect();
    let mut stream = Vec::new();
    int::encode(&values, tier, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
}

pub(super) fn take_stream(reader: &mut Reader, n: usize) -> Result<Vec<i64>> {
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
    bounds::parse(column.kind, &mut blocks, &mut reader)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_the_block_that_has_it() {
        for lengths in [&[10, 10, 10, 3][..], &[10, 3, 25, 1, 9], &[1, 40], &[7]] {
            let mut row = 0;
            let blocks = lengths.iter().enumerate().map(|(index, length)| {
                let rows = row..row + length;
                row = rows.end;
                BlockEntry {
                    index: index as u32,
                    rows,
                    bytes: 0..0,
                    codec: id::CONST,
                    nulls: 0,
                    min: Bound::None,
                    max: Bound::None,
                    sum: Sum::None,
                    checksum: 0,
                }
            });
            let directory = ColumnDirectory {
                blocks: blocks.collect(),
                block_rows: lengths[0],
            };
            for at in 0..row {
                let block = directory.block_of_row(at);
                assert!(directory.block(block).rows.contains(&at), "row {at}");
            }
        }
    }
}
