//! The header of a chunk: what a reader needs to decide which columns to read and where they are.
//! Bytes: FORMAT.md, "Header".

use std::ops::Range;

use super::{checksum, summary_bytes, FORMAT_VERSION, MAGIC, MAX_COLUMNS, MAX_ROWS};
use crate::area::Area;
use crate::column::Kind;
use crate::error::{Corrupt, Result};
use crate::summary::{Bound, Prefix, Sum, Summary};
use crate::wire::{put_float, put_varint, put_zigzag, Reader};

/// A parsed header; owns what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkHeader {
    version: u8,
    rows: u32,
    columns: Vec<ColumnHeader>,
    area: Area,
}

/// One column of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnHeader {
    pub index: u32,
    pub kind: Kind,
    /// Of the chunk.
    pub rows: u32,
    pub nulls: u32,
    pub layout: Layout,
    pub summary: Summary,
    /// Payload range of the block directory; empty unless the layout is `Blocks` with more than one block.
    pub directory: Range<u32>,
    /// Payload range of all blocks, right behind the directory.
    pub blocks: Range<u32>,
}

/// How the values of a column are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// Nothing but nulls: no payload.
    AllNull,
    /// The same value in every row, no nulls: no payload.
    Constant(Constant),
    /// Exactly one block, described by header and summary alone.
    Single { codec: u8, checksum: u32 },
    /// Blocks of `block_rows` rows, the last one shorter; 0: the directory has the rows of each.
    Blocks { block_rows: u32 },
}

/// The value of a constant column, bit for bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Integers and booleans.
    Int(i64),
    /// Bits of a double.
    F64(u64),
    F32(u32),
    /// Fixed, Bytes and Numeric.
    Bytes(Vec<u8>),
}

/// Longest byte string that a header holds as the constant of a column.
pub const MAX_CONSTANT_BYTES: usize = 128;

const NULLS: u8 = 0x10;
const LAYOUT_SHIFT: u8 = 5;
const ALL_NULL: u8 = 0;
const CONSTANT: u8 = 1;
const SINGLE: u8 = 2;
const BLOCKS: u8 = 3;

impl ChunkHeader {
    /// Checks magic, version, checksum and every field.
    pub fn parse(bytes: &[u8]) -> Result<ChunkHeader> {
        ChunkHeader::parse_first(bytes, MAX_COLUMNS)
    }

    /// The same, but where there are more than `most` columns, what comes behind these is left out, and the area.
    pub fn parse_first(bytes: &[u8], most: usize) -> Result<ChunkHeader> {
        let mut header = ChunkHeader::default();
        header.parse_again(bytes, most)?;
        Ok(header)
    }

    /// The same in the place of another header, for who looks at many and keeps none. Returns how many columns there are. What is left after an error is of no use.
    pub fn parse_again(&mut self, bytes: &[u8], most: usize) -> Result<usize> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != MAGIC {
            return Err(Corrupt::new("not a chunk header: wrong magic"));
        }
        let found = reader.u8()?;
        if found > FORMAT_VERSION {
            return Err(Corrupt::Version {
                found,
                supported: FORMAT_VERSION,
            });
        }
        if found == 0 {
            return Err(Corrupt::new("not a chunk header: version 0"));
        }
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(Corrupt::new("bytes end too early"));
        };
        if checksum(body, 0) != u32::from_le_bytes(*sum) {
            return Err(Corrupt::new("wrong checksum of the header"));
        }
        let mut reader = Reader::new(&body[5..]);
        let rows = reader.varint_up_to(MAX_ROWS)? as u32;
        let count = reader.varint_up_to(MAX_COLUMNS.min(reader.len()))?;
        let wanted = count.min(most);
        self.columns.clear();
        self.columns.reserve(wanted);
        let mut at = 0u32;
        for index in 0..wanted as u32 {
            let column = ColumnHeader::parse(&mut reader, index, rows, at)
                .map_err(|e| e.in_column(index))?;
            at = column.blocks.end;
            self.columns.push(column);
        }
        self.area = match wanted < count {
            true => Area::default(),
            false => Area::parse(reader.take(reader.len())?)?,
        };
        (self.version, self.rows) = (found, rows);
        Ok(count)
    }

    /// The format version that the chunk was written in.
    pub fn version(&self) -> u8 {
        self.version
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn columns(&self) -> &[ColumnHeader] {
        &self.columns
    }

    pub fn column(&self, index: usize) -> &ColumnHeader {
        &self.columns[index]
    }

    /// Bytes of the payload.
    pub fn payload_bytes(&self) -> u32 {
        self.columns.last().map_or(0, |c| c.blocks.end)
    }

    /// What the header has besides columns.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// The bytes of a header.
    pub fn write(rows: u32, columns: &[ColumnHeader], area: &Area) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + columns.len() * 32);
        out.extend_from_slice(&MAGIC);
        out.push(FORMAT_VERSION);
        put_varint(&mut out, u64::from(rows));
        put_varint(&mut out, columns.len() as u64);
        for column in columns {
            column.write(&mut out);
        }
        area.write(&mut out);
        let sum = checksum(&out, 0);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }
}

impl ColumnHeader {
    /// Rows that are not null.
    pub fn count(&self) -> u32 {
        self.rows - self.nulls
    }

    fn write(&self, out: &mut Vec<u8>) {
        let layout = match self.layout {
            Layout::AllNull => ALL_NULL,
            Layout::Constant(_) => CONSTANT,
            Layout::Single { .. } => SINGLE,
            Layout::Blocks { .. } => BLOCKS,
        };
        let has_nulls = if self.nulls > 0 && layout >= SINGLE {
            NULLS
        } else {
            0
        };
        out.push(kind_code(self.kind) | has_nulls | layout << LAYOUT_SHIFT);
        if let Kind::Fixed(width) = self.kind {
            put_varint(out, u64::from(width));
        }
        if has_nulls != 0 {
            put_varint(out, u64::from(self.nulls));
        }
        match &self.layout {
            Layout::AllNull => return,
            Layout::Constant(value) => return value.write(out),
            Layout::Single { codec, checksum } => {
                out.push(*codec);
                out.extend_from_slice(&checksum.to_le_bytes());
                put_varint(out, self.blocks.len() as u64);
            }
            Layout::Blocks { block_rows } => {
                out.push(if *block_rows == 0 {
                    0xFF
                } else {
                    block_rows.trailing_zeros() as u8
                });
                put_varint(out, self.directory.len() as u64);
                put_varint(out, self.blocks.len() as u64);
            }
        }
        summary_bytes::write(&self.summary, out);
    }

    fn parse(reader: &mut Reader, index: u32, rows: u32, at: u32) -> Result<ColumnHeader> {
        let tag = reader.u8()?;
        let kind = parse_kind(tag & 0x0F, reader)?;
        let layout = tag >> LAYOUT_SHIFT;
        let mut nulls = if layout == ALL_NULL { rows } else { 0 };
        if tag & NULLS != 0 {
            // At least one value is not null, else the layout were AllNull.
            nulls = reader.varint_up_to((rows as usize).saturating_sub(1))? as u32;
            if nulls == 0 || layout < SINGLE {
                return Err(Corrupt::new("a count of nulls where there can be none"));
            }
        }
        if layout != ALL_NULL && (rows == 0 || kind == Kind::Absent) {
            return Err(Corrupt::new("a column without rows has values"));
        }
        let mut column = ColumnHeader {
            index,
            kind,
            rows,
            nulls,
            layout: Layout::AllNull,
            summary: Summary::EMPTY,
            directory: at..at,
            blocks: at..at,
        };
        let mut length = |reader: &mut Reader| -> Result<Range<u32>> {
            let start = column.blocks.end;
            let end = start + reader.varint_up_to((u32::MAX - start) as usize)? as u32;
            column.blocks = start..end;
            Ok(start..end)
        };
        match layout {
            ALL_NULL => return Ok(column),
            CONSTANT => {
                let value = Constant::parse(reader, kind)?;
                column.summary = value.summary(kind, rows);
                column.layout = Layout::Constant(value);
                return Ok(column);
            }
            SINGLE => {
                column.layout = Layout::Single {
                    codec: reader.u8()?,
                    checksum: reader.u32()?,
                };
                length(reader)?;
            }
            BLOCKS => {
                let block_rows = match reader.u8()? {
                    0xFF => 0,
                    shift if shift <= 16 => 1 << shift,
                    _ => return Err(Corrupt::new("blocks are too large")),
                };
                column.directory = length(reader)?;
                length(reader)?;
                column.layout = Layout::Blocks { block_rows };
            }
            _ => return Err(Corrupt::new("unknown layout of a column")),
        }
        column.summary = summary_bytes::parse(reader, kind, column.count())?;
        Ok(column)
    }
}

impl Constant {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Constant::Int(value) => put_zigzag(out, *value),
            Constant::F64(bits) => put_float(out, f64::from_bits(*bits)),
            Constant::F32(bits) => out.extend_from_slice(&bits.to_le_bytes()),
            Constant::Bytes(value) => {
                put_varint(out, value.len() as u64);
                out.extend_from_slice(value);
            }
        }
    }

    fn parse(reader: &mut Reader, kind: Kind) -> Result<Constant> {
        Ok(match kind {
            Kind::Absent => return Err(Corrupt::new("a column without rows has values")),
            Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64 => {
                let value = reader.zigzag()?;
                let (low, high) = int_range(kind);
                if !(low..=high).contains(&value) {
                    return Err(Corrupt::new("a constant is out of the range of its kind"));
                }
                Constant::Int(value)
            }
            Kind::F64 => Constant::F64(reader.float()?.to_bits()),
            Kind::F32 => Constant::F32(reader.u32()?),
            Kind::Fixed(width) => {
                if reader.varint()? != u64::from(width) {
                    return Err(Corrupt::new("a constant is not as wide as its column"));
                }
                Constant::Bytes(reader.take(width as usize)?.to_vec())
            }
            Kind::Bytes | Kind::Numeric => {
                let length = reader.varint_up_to(MAX_CONSTANT_BYTES)?;
                Constant::Bytes(reader.take(length)?.to_vec())
            }
        })
    }

    /// The summary of `rows` rows of this value.
    pub fn summary(&self, kind: Kind, rows: u32) -> Summary {
        let (bound, max, sum, squares) = match self {
            Constant::Int(value) => {
                let (wide, rows) = (i128::from(*value), i128::from(rows));
                let small = i32::try_from(*value).is_ok();
                let squares = if small {
                    Sum::Int(wide * wide * rows)
                } else {
                    Sum::None
                };
                (
                    Bound::Int(*value),
                    Bound::Int(*value),
                    Sum::Int(wide * rows),
                    squares,
                )
            }
            Constant::F64(bits) => float_constant(f64::from_bits(*bits), rows),
            Constant::F32(bits) => float_constant(f64::from(f32::from_bits(*bits)), rows),
            Constant::Bytes(value) => match (kind, crate::codec::numeric::parse(value)) {
                (Kind::Numeric, None) => (Bound::None, Bound::None, Sum::None, Sum::None),
                (Kind::Numeric, Some((scale, unscaled))) => {
                    let bound = Bound::Decimal { unscaled, scale };
                    let unscaled = i128::from(unscaled) * i128::from(rows);
                    (bound, bound, Sum::Decimal { unscaled, scale }, Sum::None)
                }
                _ => {
                    let max = Prefix::ceil(value).map_or(Bound::None, Bound::Prefix);
                    (
                        Bound::Prefix(Prefix::floor(value)),
                        max,
                        Sum::None,
                        Sum::None,
                    )
                }
            },
        };
        let min = match bound {
            Bound::Float(value) => Bound::Float(value + 0.0),
            other => other,
        };
        Summary {
            count: rows,
            min,
            max,
            sum,
            squares,
            first: bound,
            last: bound,
        }
    }
}

fn float_constant(value: f64, rows: u32) -> (Bound, Bound, Sum, Sum) {
    // No difference from the mean; NaN for infinities and NaN, as the formula has it.
    let squares = value * 0.0 + 0.0;
    (
        Bound::Float(value),
        Bound::Float(value + 0.0),
        Sum::Float(value * f64::from(rows)),
        Sum::Float(squares),
    )
}

/// The range of an integer kind.
pub(super) fn int_range(kind: Kind) -> (i64, i64) {
    match kind {
        Kind::Bool => (0, 1),
        Kind::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Absent => 0,
        Kind::Bool => 1,
        Kind::I16 => 2,
        Kind::I32 => 3,
        Kind::I64 => 4,
        Kind::F32 => 5,
        Kind::F64 => 6,
        Kind::Fixed(_) => 7,
        Kind::Bytes => 8,
        Kind::Numeric => 9,
    }
}

fn parse_kind(code: u8, reader: &mut Reader) -> Result<Kind> {
    Ok(match code {
        0 => Kind::Absent,
        1 => Kind::Bool,
        2 => Kind::I16,
        3 => Kind::I32,
        4 => Kind::I64,
        5 => Kind::F32,
        6 => Kind::F64,
        7 => match reader.varint_up_to(u16::MAX as usize)? {
            0 => return Err(Corrupt::new("values of width 0")),
            width => Kind::Fixed(width as u16),
        },
        8 => Kind::Bytes,
        9 => Kind::Numeric,
        _ => return Err(Corrupt::new("unknown kind of a column")),
    })
}
