//! A chunk: up to 65,536 rows by column. A header (what is where, summaries), and a payload of columns,
//! each a directory and blocks that decode alone. Where header and payload are kept is not known here.
//! Bytes: FORMAT.md.

mod block;
mod directory;
mod header;
mod values;

use crate::codec::id;
pub use crate::codec::{Point, Tier};
use crate::column::{Column, Kind, Values};
use crate::summary::{compare_floats, Bound, Prefix, Sum, Summary};
use crate::wire::{as_decimal, to_decimal, POW10};
pub use block::decode_block;
pub use directory::{BlockEntry, ColumnDirectory};
pub use header::{ChunkHeader, ColumnHeader, Constant, Layout, MAX_CONSTANT_BYTES};
use values::Dense;

/// First bytes of a header.
pub const MAGIC: [u8; 4] = *b"VRVC";
/// The version that is written; all up to it are read.
pub const FORMAT_VERSION: u8 = 1;
/// Most rows of a chunk.
pub const MAX_ROWS: usize = 65_536;
/// More columns than PostgreSQL allows in a table.
pub const MAX_COLUMNS: usize = 4_096;
/// Rows of a block, unless larger blocks pay.
pub const BLOCK_ROWS: usize = 1_024;

/// How to write a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub tier: Tier,
}

/// A chunk as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
}

/// CRC-32, started from a number that names the place.
fn checksum(bytes: &[u8], place: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(place);
    hasher.update(bytes);
    hasher.finalize()
}

/// Encodes columns of equal length. Any column must stay below 1 GiB, the chunk below 4 GiB.
///
/// # Panics
/// Where columns differ in length, have more than `MAX_ROWS` rows, or values do not fit their kind.
pub fn encode(columns: &[Column], options: &Options) -> Encoded {
    let rows = columns.first().map_or(0, Column::rows);
    assert!(rows <= MAX_ROWS, "BUG: a chunk of {rows} rows");
    assert!(
        columns.len() <= MAX_COLUMNS,
        "BUG: a chunk of {} columns",
        columns.len()
    );
    let mut payload = Vec::new();
    let headers: Vec<ColumnHeader> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            column.check(rows);
            encode_column(column, i as u32, options, &mut payload)
        })
        .collect();
    assert!(
        u32::try_from(payload.len()).is_ok(),
        "BUG: a chunk of 4 GiB"
    );
    Encoded {
        header: ChunkHeader::write(rows as u32, &headers),
        payload,
    }
}

fn encode_column(
    column: &Column,
    index: u32,
    options: &Options,
    payload: &mut Vec<u8>,
) -> ColumnHeader {
    let rows = column.rows();
    let nulls = column.nulls();
    let at = payload.len() as u32;
    let mut header = ColumnHeader {
        index,
        kind: column.kind,
        rows: rows as u32,
        nulls: nulls as u32,
        layout: Layout::AllNull,
        summary: Summary::EMPTY,
        directory: at..at,
        blocks: at..at,
    };
    if nulls == rows {
        return header;
    }
    if nulls == 0 {
        if let Some(constant) = constant_of(column) {
            header.summary = constant.summary(column.kind, header.rows);
            header.layout = Layout::Constant(constant);
            return header;
        }
    }
    encode_blocks(column, &mut header, options, payload);
    header
}

fn encode_blocks(
    column: &Column,
    header: &mut ColumnHeader,
    options: &Options,
    payload: &mut Vec<u8>,
) {
    let rows = column.rows();
    let mut body = Vec::new();
    let mut entries = Vec::new();
    let mut denses = Vec::new();
    let mut summaries = Vec::new();
    for (i, start) in (0..rows).step_by(BLOCK_ROWS).enumerate() {
        let place = (header.index, i as u32);
        let range = start..rows.min(start + BLOCK_ROWS);
        let (mut entry, dense, mut summary) =
            block::encode(column, place, range, options.tier, &mut body);
        summary.sum = snap_sum(&summary);
        entry.sum = summary.sum;
        if entry.codec != id::ALL_NULL {
            denses.push(dense);
            summaries.push(summary);
        }
        entries.push(entry);
    }
    header.summary = merge(&summaries, &denses);
    let start = payload.len() as u32;
    if let [entry] = entries.as_slice() {
        header.layout = Layout::Single {
            codec: entry.codec,
            checksum: entry.checksum,
        };
    } else {
        header.layout = Layout::Blocks {
            block_rows: BLOCK_ROWS as u32,
        };
        directory::write(header, BLOCK_ROWS as u32, &entries, options.tier, payload);
    }
    header.directory = start..payload.len() as u32;
    header.blocks = header.directory.end..header.directory.end + body.len() as u32;
    payload.extend_from_slice(&body);
}

/// A sum of floats whose bounds are decimals is, but for rounding, a decimal of a few digits: the nearest
/// one within the error of summation is closer to the exact sum, and shorter.
fn snap_sum(summary: &Summary) -> Sum {
    let (Bound::Float(min), Bound::Float(max), Sum::Float(sum)) =
        (summary.min, summary.max, summary.sum)
    else {
        return summary.sum;
    };
    let exponents = [min, max].map(|v| as_decimal(v).map(|(e, _)| e));
    let [Some(low), Some(high)] = exponents else {
        return summary.sum;
    };
    for exponent in low.max(high)..=(low.max(high) + 1).min(15) {
        let integer = (sum * POW10[exponent as usize]).round_ties_even();
        let near = integer / POW10[exponent as usize];
        let scale = min.abs().max(max.abs()) * f64::from(summary.count);
        if (near - sum).abs() <= scale * f64::EPSILON && to_decimal(near, exponent).is_some() {
            return Sum::Float(near);
        }
    }
    summary.sum
}

/// The summary of a column from those of its blocks, all of which have values.
fn merge(summaries: &[Summary], denses: &[Dense]) -> Summary {
    let mut total = summaries[0];
    for next in &summaries[1..] {
        total.count += next.count;
        total.min = pick_bound(total.min, next.min, std::cmp::Ordering::Greater);
        total.max = pick_bound(total.max, next.max, std::cmp::Ordering::Less);
        total.last = next.last;
        total.sum = match (total.sum, next.sum) {
            (Sum::Int(a), Sum::Int(b)) => Sum::Int(a + b),
            (Sum::Float(a), Sum::Float(b)) => Sum::Float(a + b),
            (
                Sum::Decimal { unscaled: a, scale },
                Sum::Decimal {
                    unscaled: b,
                    scale: other,
                },
            ) if scale == other => Sum::Decimal {
                unscaled: a + b,
                scale,
            },
            _ => Sum::None,
        };
    }
    total.sum = snap_sum(&total);
    let mixed = matches!(
        (total.min, total.max),
        (Bound::Decimal { .. }, _) | (_, Bound::Decimal { .. })
    ) && !matches!(total.sum, Sum::Decimal { .. });
    if mixed
        || summaries
            .iter()
            .any(|s| matches!(s.sum, Sum::Decimal { .. }))
            && matches!(total.sum, Sum::None)
    {
        return Summary {
            count: total.count,
            ..Summary::EMPTY
        };
    }
    let mean = match total.sum {
        Sum::Float(sum) => sum / f64::from(total.count),
        _ => 0.0,
    };
    total.squares = denses
        .iter()
        .map(|d| d.squares(mean))
        .reduce(add)
        .unwrap_or(Sum::None);
    total
}

fn add(a: Sum, b: Sum) -> Sum {
    match (a, b) {
        (Sum::Int(a), Sum::Int(b)) => Sum::Int(a + b),
        (Sum::Float(a), Sum::Float(b)) => Sum::Float(a + b),
        _ => Sum::None,
    }
}

/// `b` where `a` compares to it as `worse`, else `a`. An unknown bound makes the result unknown.
fn pick_bound(a: Bound, b: Bound, worse: std::cmp::Ordering) -> Bound {
    let order = match (&a, &b) {
        (Bound::Int(a), Bound::Int(b)) => a.cmp(b),
        (Bound::Float(a), Bound::Float(b)) => compare_floats(*a, *b),
        (Bound::Prefix(a), Bound::Prefix(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bound::Decimal { unscaled: a, .. }, Bound::Decimal { unscaled: b, .. }) => a.cmp(b),
        _ => return Bound::None,
    };
    if order == worse {
        b
    } else {
        a
    }
}

/// The value of a column that has no nulls and but one value, if a header may hold it.
fn constant_of(column: &Column) -> Option<Constant> {
    fn same<T: Copy, K: PartialEq>(values: &[T], key: impl Fn(T) -> K) -> Option<K> {
        let (&first, rest) = values.split_first()?;
        let first = key(first);
        rest.iter().all(|&v| key(v) == first).then_some(first)
    }
    match &column.values {
        Values::Absent(_) => None,
        Values::Bool(v) => same(v, i64::from).map(Constant::Int),
        Values::I16(v) => same(v, i64::from).map(Constant::Int),
        Values::I32(v) => same(v, i64::from).map(Constant::Int),
        Values::I64(v) => same(v, |i| i).map(Constant::Int),
        Values::F32(v) => same(v, f32::to_bits).map(Constant::F32),
        Values::F64(v) => same(v, f64::to_bits).map(Constant::F64),
        Values::Fixed { width, data } => {
            let width = *width as usize;
            let first = data.get(..width)?;
            (width <= MAX_CONSTANT_BYTES && data.chunks_exact(width).all(|v| v == first))
                .then(|| Constant::Bytes(first.to_vec()))
        }
        Values::Bytes { ends, data } => {
            let length = *ends.first()? as usize;
            let first = data.get(..length)?;
            let even = ends
                .iter()
                .enumerate()
                .all(|(i, &end)| end as usize == (i + 1) * length);
            let equal = length == 0 || data.chunks_exact(length).all(|v| v == first);
            (length <= MAX_CONSTANT_BYTES && even && equal).then(|| Constant::Bytes(first.to_vec()))
        }
    }
}

/// Whether a reader that looks for `value` may skip what has these bounds.
pub fn prefix_excludes(min: &Bound, max: &Bound, value: &[u8]) -> bool {
    let below = matches!(min, Bound::Prefix(p) if value < Prefix::as_bytes(p));
    let above = matches!(max, Bound::Prefix(p) if value > Prefix::as_bytes(p));
    below || above
}

/// Kinds whose sums are exact integers.
pub fn is_integer(kind: Kind) -> bool {
    matches!(kind, Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64)
}
