//! The hard cases by name: each comes back bit for bit, alone and in the middle of ordinary values, in every tier.

mod support;

use support::{assert_same, bytes_column, column, mix, read_chunk, tiers};
use varve_columns::chunk::{
    encode, encode_with, ChunkHeader, ColumnDirectory, Options, MAX_BLOCK_DATA_BYTES,
};
use varve_columns::column::{Column, Kind, Values};

fn doubles(values: &[f64]) -> Column {
    column(Kind::F64, Values::F64(values.to_vec()))
}

/// The values, and the same scattered over decimals.
fn alone_and_among_others(values: &[f64]) -> Vec<Column> {
    let mixed: Vec<f64> = (0..3000)
        .map(|i| match i % 97 {
            5 => values[i / 97 % values.len()],
            _ => 20.0 + (mix(i as u64) % 50) as f64 / 10.0,
        })
        .collect();
    vec![doubles(values), doubles(&mixed)]
}

fn integers(values: &[i64]) -> Vec<Column> {
    let mixed = (0..3000).map(|i| {
        if i % 97 == 5 {
            values[i / 97 % values.len()]
        } else {
            i as i64
        }
    });
    vec![
        column(Kind::I64, Values::I64(values.to_vec())),
        column(Kind::I64, Values::I64(mixed.collect())),
    ]
}

/// The body of a numeric of 1,000 decimal digits: sign and scale, weight, 250 digits to the base of 10,000.
fn thousand_digits() -> Vec<u8> {
    let digits = (0..250u16).map(|i| 1 + mix(i.into()) as u16 % 9_999);
    let words = [0u16, 249].into_iter().chain(digits);
    words.flat_map(u16::to_le_bytes).collect()
}

fn numerics() -> Vec<Column> {
    let small = |i: u64| {
        [
            vec![0x80, 0x81],
            (1 + mix(i) as u16 % 99).to_le_bytes().to_vec(),
        ]
        .concat()
    };
    let mixed = (0..3000).map(|i| {
        if i == 1700 {
            thousand_digits()
        } else {
            small(i)
        }
    });
    vec![
        bytes_column(Kind::Numeric, &[thousand_digits()]),
        bytes_column(Kind::Numeric, &mixed.collect::<Vec<_>>()),
    ]
}

fn every_kind(rows: usize) -> Vec<Column> {
    let strings = vec![b"x".to_vec(); rows];
    let fixed = Values::Fixed {
        width: 16,
        data: vec![7; 16 * rows],
    };
    vec![
        column(Kind::Bool, Values::Bool(vec![true; rows])),
        column(Kind::I16, Values::I16(vec![-1; rows])),
        column(Kind::I32, Values::I32(vec![i32::MIN; rows])),
        column(Kind::I64, Values::I64(vec![i64::MAX; rows])),
        column(Kind::F32, Values::F32(vec![-0.0; rows])),
        column(Kind::F64, Values::F64(vec![f64::NAN; rows])),
        column(Kind::Fixed(16), fixed),
        bytes_column(Kind::Bytes, &strings),
        bytes_column(Kind::Numeric, &strings),
    ]
}

fn all_null(rows: usize) -> Vec<Column> {
    let null = |column| Column {
        validity: Some(vec![false; rows]),
        ..column
    };
    every_kind(rows).into_iter().map(null).collect()
}

#[test]
fn the_hard_cases_come_back_bit_for_bit() {
    let payloads = [
        0x7FF8_0000_0000_0000,
        0x7FF0_0000_0000_0001,
        0xFFF8_DEAD_BEEF_0001,
        0xFFFF_FFFF_FFFF_FFFF,
    ];
    let cases: [(&str, Vec<Column>); 11] = [
        (
            "NaN payloads",
            alone_and_among_others(&payloads.map(f64::from_bits)),
        ),
        ("-0.0", alone_and_among_others(&[-0.0, 0.0, -0.0])),
        (
            "±Inf",
            alone_and_among_others(&[f64::INFINITY, f64::NEG_INFINITY]),
        ),
        (
            "denormals",
            alone_and_among_others(&[5e-324, -5e-324, f64::from_bits(0x000F_FFFF_FFFF_FFFF)]),
        ),
        (
            "i64 extremes",
            integers(&[i64::MIN, i64::MAX, -1, 0, i64::MIN + 1]),
        ),
        (
            "1e308 beside 1e-308",
            alone_and_among_others(&[1e308, 1e-308, -1e308]),
        ),
        (
            "[0, 0, 1e18, 10, 30, 0]",
            alone_and_among_others(&[0.0, 0.0, 1e18, 10.0, 30.0, 0.0]),
        ),
        ("numeric with 1,000 digits", numerics()),
        ("empty columns", every_kind(0)),
        (
            "all null",
            [all_null(1), all_null(1024), all_null(3000)].concat(),
        ),
        ("one row", every_kind(1)),
    ];
    for (name, columns) in cases {
        for column in &columns {
            for tier in tiers() {
                let columns = std::slice::from_ref(column);
                let encoded = encode(columns, &Options { tier, keys: &[] });
                let back = read_chunk(&encoded.header, &encoded.payload);
                let back = back.unwrap_or_else(|error| panic!("{name}, {tier:?}: {error}"));
                assert_same(column, &back[0]);
            }
        }
    }
}

#[test]
fn long_strings_are_cut_into_blocks_that_can_be_interrupted() {
    let value = |i: u64| {
        (0..700)
            .flat_map(|k| (mix(i * 1000 + k) % 900).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut values: Vec<Vec<u8>> = (0..3000).map(value).collect();
    values[1500] = vec![b'y'; 2 * MAX_BLOCK_DATA_BYTES];
    let column = bytes_column(Kind::Bytes, &values);
    for tier in tiers() {
        let mut pauses = 0;
        let columns = std::slice::from_ref(&column);
        let encoded = encode_with(columns, &Options { tier, keys: &[] }, || pauses += 1);
        let back = read_chunk(&encoded.header, &encoded.payload).unwrap();
        assert_same(&column, &back[0]);
        let header = ChunkHeader::parse(&encoded.header).unwrap();
        let described = &header.columns()[0];
        let range = described.directory.start as usize..described.directory.end as usize;
        let directory = ColumnDirectory::parse(described, &encoded.payload[range]).unwrap();
        for block in directory.blocks() {
            let rows = block.rows.start as usize..block.rows.end as usize;
            let bytes: usize = values[rows.clone()].iter().map(Vec::len).sum();
            assert!(bytes <= MAX_BLOCK_DATA_BYTES || rows.len() == 1);
        }
        assert!(pauses > directory.blocks().len());
    }
}
