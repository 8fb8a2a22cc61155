//! Decoding bytes that someone made up: the bodies of the fuzz targets, replayed by plain tests. Checksums
//! are set right, so that the checks behind them are reached. Nothing here may panic.

use varve_columns::chunk::{
    decode_block, encode, ChunkHeader, ColumnDirectory, Options, Point, Tier,
};
use varve_columns::codec::{bytes, fixed, float, int, numeric};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::wire::Reader;

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: [(&str, Target); 3] = [
    ("chunk", chunk),
    ("codec", codec),
    ("round_trip", round_trip),
];

fn checksum(bytes: &[u8], place: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(place);
    hasher.update(bytes);
    hasher.finalize()
}

/// A chunk as `join` writes it, all of whose checksums are made right first.
pub fn chunk(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let length = u16::from_le_bytes(*length) as usize;
    let Some((header, payload)) = rest.split_at_checked(length) else {
        return;
    };
    let mut header = header.to_vec();
    if let Some(body) = header.len().checked_sub(4) {
        let sum = checksum(&header[..body], 0);
        header[body..].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(header) = ChunkHeader::parse(&header) else {
        return;
    };
    let mut out = Column::empty();
    for column in header.columns() {
        let range = column.directory.start as usize..column.directory.end as usize;
        let Some(directory) = payload.get(range) else {
            continue;
        };
        let mut directory = directory.to_vec();
        if let Some(body) = directory.len().checked_sub(4) {
            let sum = checksum(&directory[..body], column.index);
            directory[body..].copy_from_slice(&sum.to_le_bytes());
        }
        let Ok(directory) = ColumnDirectory::parse(column, &directory) else {
            continue;
        };
        for entry in directory.blocks() {
            let Some(bytes) = payload.get(entry.bytes.start as usize..entry.bytes.end as usize)
            else {
                continue;
            };
            let mut entry = entry.clone();
            if !bytes.is_empty() {
                entry.checksum = checksum(bytes, column.index << 16 ^ entry.index ^ 0xB10C_0000);
            }
            if decode_block(column, &entry, bytes, &mut out).is_ok() {
                assert_eq!(out.rows(), entry.rows.len());
            }
        }
    }
}

/// Header length, header, payload: one input of `chunk`, and the form of golden files.
pub fn join(header: &[u8], payload: &[u8]) -> Vec<u8> {
    [&(header.len() as u16).to_le_bytes(), header, payload].concat()
}

/// Codec id, number of values, body.
pub fn codec(input: &[u8]) {
    let [id, low, high, body @ ..] = input else {
        return;
    };
    let n = usize::from(u16::from_le_bytes([*low, *high]));
    let reader = Reader::new(body);
    let (mut ends, mut data) = (Vec::new(), Vec::new());
    match id {
        0x10..=0x2F => {
            let _ = int::decode_body(*id, reader, n, &mut Vec::new());
        }
        0x30..=0x37 => {
            let _ = bytes::decode(*id, reader, n, &mut ends, &mut data);
        }
        0x38..=0x3F => {
            let _ = fixed::decode(*id, reader, 16, n, &mut data);
        }
        0x40..=0x4F => {
            let _ = numeric::decode(reader, n, &mut ends, &mut data);
        }
        _ => {
            let _ = float::decode_f64(*id, reader, n, &mut Vec::new());
            let _ = float::decode_f32(*id, reader, n, &mut Vec::new());
        }
    }
}

/// Any bytes, read as columns of every kind, come back from a chunk.
pub fn round_trip(input: &[u8]) {
    let Some((&tag, data)) = input.split_first() else {
        return;
    };
    let rows = data.len() / 8;
    let words: Vec<u64> = data
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_le_bytes(*b) >> (tag >> 2))
        .collect();
    let validity = (tag & 1 != 0).then(|| words.iter().map(|w| w & 3 != 0).collect::<Vec<bool>>());
    let column = |kind, values| Column {
        kind,
        values,
        validity: validity.clone(),
    };
    let strings = || {
        Values::Bytes {
        ends: (0..rows).map(|row| if row + 1 == rows { data.len() } else { row * 8 + row % 8 } as u32).collect(),
        data: if rows == 0 { vec![] } else { data.to_vec() },
    }
    };
    let columns = [
        column(
            Kind::I64,
            Values::I64(words.iter().map(|&w| w as i64).collect()),
        ),
        column(
            Kind::I32,
            Values::I32(words.iter().map(|&w| w as i32).collect()),
        ),
        column(
            Kind::I16,
            Values::I16(words.iter().map(|&w| w as i16).collect()),
        ),
        column(
            Kind::Bool,
            Values::Bool(words.iter().map(|&w| w & 4 != 0).collect()),
        ),
        column(
            Kind::F64,
            Values::F64(words.iter().map(|&w| f64::from_bits(w)).collect()),
        ),
        column(
            Kind::F64,
            Values::F64(words.iter().map(|&w| w as f64 / 1000.0).collect()),
        ),
        column(
            Kind::F32,
            Values::F32(words.iter().map(|&w| f32::from_bits(w as u32)).collect()),
        ),
        column(
            Kind::Fixed(8),
            Values::Fixed {
                width: 8,
                data: data[..rows * 8].to_vec(),
            },
        ),
        column(Kind::Bytes, strings()),
        column(Kind::Numeric, strings()),
    ];
    let tier = if tag & 2 == 0 {
        Tier::Fresh
    } else {
        Tier::Merged(Point::Small)
    };
    let encoded = encode(&columns, &Options { tier, keys: &[] });
    let back =
        super::read_chunk(&encoded.header, &encoded.payload).expect("what was written is read");
    for (column, back) in columns.iter().zip(&back) {
        super::assert_same(column, back);
    }
}
