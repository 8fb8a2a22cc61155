//! What the tests of the chunk format share.
#![allow(dead_code, reason = "every test crate uses its part")]

pub mod hostile;

use varve_columns::chunk::{
    decode_block, decode_part, value_at, ChunkHeader, ColumnDirectory, Point, Tier,
};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::summary::Bound;
use varve_columns::Corrupt;

pub fn tiers() -> [Tier; 3] {
    [
        Tier::Fresh,
        Tier::Merged(Point::Fast),
        Tier::Merged(Point::Small),
    ]
}

/// The same header with a field of a later version.
pub fn with_later_field(header: &[u8]) -> Vec<u8> {
    let parsed = ChunkHeader::parse(header).expect("a header");
    let mut area = parsed.area().clone();
    area.set(4_000, b"of a later version".to_vec());
    ChunkHeader::write(parsed.rows(), parsed.columns(), &area)
}

/// SplitMix64 (Steele et al. 2014), as a function of its position.
pub fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A column without nulls.
pub fn column(kind: Kind, values: Values) -> Column {
    let validity = None;
    Column {
        kind,
        values,
        validity,
    }
}

pub fn bytes_column(kind: Kind, values: &[Vec<u8>]) -> Column {
    let ends = values
        .iter()
        .scan(0u32, |end, v| {
            *end += v.len() as u32;
            Some(*end)
        })
        .collect();
    Column {
        kind,
        values: Values::Bytes {
            ends,
            data: values.concat(),
        },
        validity: None,
    }
}

/// Decodes every block of every column; a list of one column per block.
pub fn read_chunk(header: &[u8], payload: &[u8]) -> Result<Vec<Vec<Column>>, Corrupt> {
    let header = ChunkHeader::parse(header)?;
    let mut out = Vec::new();
    for column in header.columns() {
        let get = |range: std::ops::Range<u32>| {
            payload
                .get(range.start as usize..range.end as usize)
                .ok_or(Corrupt::new("payload is too short"))
        };
        let directory = ColumnDirectory::parse(column, get(column.directory.clone())?)?;
        let mut blocks = Vec::new();
        for entry in directory.blocks() {
            let mut block = Column::empty();
            decode_block(column, entry, get(entry.bytes.clone())?, &mut block)?;
            assert_eq!(block.rows(), entry.rows.len());
            let last = entry.rows.len().saturating_sub(1);
            for row in [0, 1, last / 2, last] {
                let alone = value_at(column, entry, get(entry.bytes.clone())?, row)?;
                let bytes = match alone {
                    Some(Bound::Int(value)) => value.to_le_bytes(),
                    Some(Bound::Float(value)) => value.to_bits().to_le_bytes(),
                    _ => continue,
                };
                let expected = value(&block, row).expect("a value of its own is not null");
                assert_eq!(bytes[..expected.len()], expected, "row {row}");
            }
            let count = entry.rows.len();
            for rows in [0..count / 3, count / 3..count / 2, count / 2..count] {
                let mut part = Column::empty();
                let bytes = get(entry.bytes.clone())?;
                let Some(told) = decode_part(column, entry, bytes, rows.clone(), &mut part)? else {
                    continue;
                };
                assert!(told.start <= rows.start && rows.end <= told.end);
                assert_eq!(part.rows(), told.len());
                for row in told.clone() {
                    assert_eq!(
                        value(&part, row - told.start),
                        value(&block, row),
                        "row {row}"
                    );
                }
            }
            blocks.push(block);
        }
        out.push(blocks);
    }
    Ok(out)
}

/// One value as its bytes; `None` for null.
fn value(column: &Column, row: usize) -> Option<Vec<u8>> {
    if column.validity.as_ref().is_some_and(|v| !v[row]) {
        return None;
    }
    Some(match &column.values {
        Values::Absent(_) => return None,
        Values::Bool(v) => vec![u8::from(v[row])],
        Values::I16(v) => v[row].to_le_bytes().to_vec(),
        Values::I32(v) => v[row].to_le_bytes().to_vec(),
        Values::I64(v) => v[row].to_le_bytes().to_vec(),
        Values::F32(v) => v[row].to_bits().to_le_bytes().to_vec(),
        Values::F64(v) => v[row].to_bits().to_le_bytes().to_vec(),
        Values::Fixed { width, data } => {
            let width = usize::from(*width);
            data[row * width..][..width].to_vec()
        }
        Values::Bytes { ends, data } => {
            let start = if row == 0 { 0 } else { ends[row - 1] as usize };
            data[start..ends[row] as usize].to_vec()
        }
    })
}

/// The blocks hold exactly the values of the column.
pub fn assert_same(column: &Column, blocks: &[Column]) {
    let mut row = 0;
    for block in blocks {
        assert_eq!(block.kind, column.kind);
        for i in 0..block.rows() {
            assert_eq!(
                value(column, row),
                value(block, i),
                "row {row} of a {:?} column",
                column.kind
            );
            row += 1;
        }
    }
    assert_eq!(row, column.rows());
}
