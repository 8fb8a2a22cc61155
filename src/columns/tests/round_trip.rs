//! What goes into a chunk comes out, bit for bit, whatever it is; and what a header says is true.

mod support;

use proptest::prelude::*;
use support::{assert_same, bytes_column, read_chunk, tiers};
use varve_columns::chunk::{constant, encode, ChunkHeader, ColumnDirectory, Options};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::summary::{Bound, Sum};

fn check(columns: &[Column]) {
    let keys: &[usize] = if columns.is_empty() { &[] } else { &[0] };
    for (tier, keys) in tiers()
        .into_iter()
        .flat_map(|tier| [(tier, &[][..]), (tier, keys)])
    {
        let encoded = encode(columns, &Options { tier, keys });
        let back = read_chunk(&encoded.header, &encoded.payload).expect("a chunk");
        assert_eq!(back.len(), columns.len());
        for (column, back) in columns.iter().zip(&back) {
            assert_same(column, back);
        }
    }
}

fn f64s(values: Vec<f64>) -> Column {
    Column {
        kind: Kind::F64,
        values: Values::F64(values),
        validity: None,
    }
}

fn i64s(values: Vec<i64>) -> Column {
    Column {
        kind: Kind::I64,
        values: Values::I64(values),
        validity: None,
    }
}

#[test]
fn special_doubles_keep_their_bits() {
    let odd = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7FF0_0000_0000_0001),
        f64::from_bits(0xFFF8_DEAD_BEEF_0001),
        5e-324,
        f64::MIN_POSITIVE,
        1e308,
        1e-308,
        0.1,
        1e18,
    ];
    for &value in &odd {
        check(&[f64s(vec![value])]);
        check(&[f64s(vec![value; 3000])]);
        check(&[f64s(
            (0..3000)
                .map(|i| if i == 1500 { value } else { 20.5 })
                .collect(),
        )]);
    }
    check(&[f64s(odd.to_vec())]);
    check(&[f64s(odd.iter().cycle().take(5000).copied().collect())]);
    check(&[f64s(vec![0.0, 0.0, 1e18, 10.0, 30.0, 0.0])]);
    let f32s = odd.iter().cycle().take(3000).map(|&v| v as f32).collect();
    check(&[Column {
        kind: Kind::F32,
        values: Values::F32(f32s),
        validity: None,
    }]);
    let nan = f32::from_bits(0x7F80_0001);
    check(&[Column {
        kind: Kind::F32,
        values: Values::F32(vec![nan; 2000]),
        validity: None,
    }]);
}

#[test]
fn empty_one_row_all_null_and_absent() {
    check(&[]);
    check(&[f64s(vec![]), bytes_column(Kind::Bytes, &[]), i64s(vec![])]);
    check(&[
        i64s(vec![i64::MIN]),
        bytes_column(Kind::Bytes, &[b"x".to_vec()]),
    ]);
    let null = |values, kind| Column {
        kind,
        values,
        validity: Some(vec![false; 2000]),
    };
    check(&[
        null(Values::I64(vec![0; 2000]), Kind::I64),
        null(Values::F64(vec![0.0; 2000]), Kind::F64),
        null(Values::Bool(vec![false; 2000]), Kind::Bool),
        null(
            Values::Fixed {
                width: 16,
                data: vec![0; 32_000],
            },
            Kind::Fixed(16),
        ),
        null(
            Values::Bytes {
                ends: vec![0; 2000],
                data: vec![],
            },
            Kind::Bytes,
        ),
        Column {
            kind: Kind::Absent,
            values: Values::Absent(2000),
            validity: None,
        },
    ]);
}

#[test]
fn a_full_chunk_of_every_kind() {
    let n = 65_536usize;
    let mix = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let every_third = || {
        Some(
            (0..n)
                .map(|i| i % 3 != 0 && i / 1024 != 5)
                .collect::<Vec<bool>>(),
        )
    };
    let words: Vec<Vec<u8>> = (0..n)
        .map(|i| format!("host_{}", mix(i) % 900).into_bytes())
        .collect();
    check(&[
        i64s(
            (0..n as i64)
                .map(|i| 1_700_000_000_000_000 + i * 10_000_000)
                .collect(),
        ),
        Column {
            validity: every_third(),
            ..f64s((0..n).map(|i| (mix(i) % 1000) as f64 / 10.0).collect())
        },
        Column {
            kind: Kind::I16,
            values: Values::I16((0..n).map(|i| mix(i) as i16).collect()),
            validity: every_third(),
        },
        Column {
            kind: Kind::Bool,
            values: Values::Bool((0..n).map(|i| mix(i) % 5 == 0).collect()),
            validity: None,
        },
        bytes_column(Kind::Bytes, &words),
        Column {
            kind: Kind::Fixed(16),
            values: Values::Fixed {
                width: 16,
                data: (0..n * 16).map(|i| mix(i / 16 % 40) as u8).collect(),
            },
            validity: every_third(),
        },
    ]);
}

#[test]
fn a_numeric_of_a_thousand_digits_and_scaled_ones() {
    let mut long = vec![0x00, 0x00, 0xF9, 0x00];
    long.extend((0..250u16).flat_map(|i| (i * 37 % 10_000).to_le_bytes()));
    let short = vec![0x81, 0x81, 1, 0, 0x29, 0x09, 0x7C, 0x1A];
    check(&[bytes_column(Kind::Numeric, &[long.clone(), short.clone()])]);
    check(&[bytes_column(Kind::Numeric, &vec![short.clone(); 2000])]);
    let mut many: Vec<Vec<u8>> = (0..2500u16)
        .map(|i| [vec![0x80, 0x81], (1 + i % 99).to_le_bytes().to_vec()].concat())
        .collect();
    check(&[bytes_column(Kind::Numeric, &many)]);
    many[1700] = long;
    check(&[bytes_column(Kind::Numeric, &many)]);
}

#[test]
fn summaries_follow_the_order_of_postgres() {
    let column = f64s(vec![3.5, f64::NAN, -0.0, 1.0]);
    let header = ChunkHeader::parse(
        &encode(
            &[column],
            &Options {
                tier: tiers()[0],
                keys: &[],
            },
        )
        .header,
    )
    .unwrap();
    let summary = header.column(0).summary;
    assert_eq!(summary.min, Bound::Float(0.0));
    assert!(matches!(summary.max, Bound::Float(max) if max.is_nan()));
    assert!(matches!(summary.sum, Sum::Float(sum) if sum.is_nan()));
    assert_eq!(summary.first, Bound::Float(3.5));

    let column = i64s(vec![i64::MAX; 1].into_iter().chain([i64::MIN, 7]).collect());
    let header = ChunkHeader::parse(
        &encode(
            &[column],
            &Options {
                tier: tiers()[0],
                keys: &[],
            },
        )
        .header,
    )
    .unwrap();
    let summary = header.column(0).summary;
    assert_eq!(
        (summary.min, summary.max),
        (Bound::Int(i64::MIN), Bound::Int(i64::MAX))
    );
    assert_eq!(summary.sum, Sum::Int(6));
    assert_eq!(summary.squares, Sum::None);
}

#[test]
fn columns_without_payload_have_blocks_too() {
    let half = Column {
        kind: Kind::Absent,
        values: Values::Absent(3000),
        validity: None,
    };
    let header = encode(
        &[i64s(vec![-4; 3000]), half],
        &Options {
            tier: tiers()[0],
            keys: &[],
        },
    )
    .header;
    let header = ChunkHeader::parse(&header).unwrap();
    let blocks = |i| {
        ColumnDirectory::parse(header.column(i), &[])
            .unwrap()
            .blocks()
            .to_vec()
    };
    let (constant, absent) = (blocks(0), blocks(1));
    assert_eq!(
        constant.iter().map(|b| b.rows.len()).collect::<Vec<_>>(),
        [1024, 1024, 952]
    );
    assert_eq!(
        (constant[2].min, constant[2].sum),
        (Bound::Int(-4), Sum::Int(-4 * 952))
    );
    assert_eq!((absent[2].rows.clone(), absent[2].nulls), (2048..3000, 952));
    assert_eq!(header.payload_bytes(), 0);
}

#[test]
fn a_header_can_be_read_up_to_a_column() {
    let text = bytes_column(Kind::Bytes, &vec![b"host".to_vec(); 3000]);
    let columns = [
        i64s((0..3000).collect()),
        i64s(vec![7; 3000]),
        text,
        i64s(vec![0; 3000]),
    ];
    let tier = tiers()[0];
    let encoded = encode(
        &columns,
        &Options {
            tier,
            keys: &[1, 2],
        },
    );
    let whole = ChunkHeader::parse(&encoded.header).expect("a header");
    let mut again = ChunkHeader::default();
    for most in [0, 3, 1, 4, 5, 2] {
        let first = ChunkHeader::parse_first(&encoded.header, most).expect("a header");
        assert_eq!((first.version(), first.rows()), (whole.version(), 3000));
        assert_eq!(first.columns(), &whole.columns()[..most.min(4)]);
        assert!(again.parse_again(&encoded.header[1..], most).is_err());
        assert_eq!(again.parse_again(&encoded.header, most), Ok(4));
        assert_eq!(again, first);
    }
    let value = |at: usize| constant(whole.column(at)).expect("a sound column");
    assert_eq!(value(0), None);
    assert_eq!(value(1), Some(i64s(vec![7])));
    let one = bytes_column(Kind::Bytes, &[b"host".to_vec()]);
    assert_eq!(value(2), Some(one));
}

#[test]
fn blocks_end_where_a_series_ends_if_that_is_smaller() {
    // Short series, each noisier than the one before.
    let keys = i64s((0..1200).map(|i| i / 300).collect());
    let noise = |i: u64| support::mix(i) >> (60 - 15 * (i / 300));
    let values = i64s((0..1200).map(|i| noise(i) as i64).collect());
    let encoded = encode(
        &[keys, values],
        &Options {
            tier: tiers()[1],
            keys: &[0],
        },
    );
    let header = ChunkHeader::parse(&encoded.header).unwrap();
    let column = header.column(1);
    let range = column.directory.start as usize..column.directory.end as usize;
    let directory = ColumnDirectory::parse(column, &encoded.payload[range]).unwrap();
    let starts: Vec<u32> = directory
        .blocks()
        .iter()
        .map(|block| block.rows.start)
        .collect();
    assert_eq!(starts, [0, 300, 600, 900]);
}

#[test]
fn blocks_tile_the_rows_and_sums_add_up() {
    let values: Vec<i64> = (0..10_000).map(|i| i * i % 977).collect();
    let encoded = encode(
        &[i64s(values.clone())],
        &Options {
            tier: tiers()[0],
            keys: &[],
        },
    );
    let header = ChunkHeader::parse(&encoded.header).unwrap();
    let column = header.column(0);
    let range = column.directory.start as usize..column.directory.end as usize;
    let directory = ColumnDirectory::parse(column, &encoded.payload[range]).unwrap();
    let mut row = 0;
    for (i, block) in directory.blocks().iter().enumerate() {
        assert_eq!(block.rows.start, row);
        assert_eq!(directory.block_of_row(row), i);
        assert_eq!(directory.block_of_row(block.rows.end - 1), i);
        let part = &values[block.rows.start as usize..block.rows.end as usize];
        assert_eq!(
            block.sum,
            Sum::Int(part.iter().map(|&v| i128::from(v)).sum())
        );
        assert_eq!(block.min, Bound::Int(*part.iter().min().unwrap()));
        row = block.rows.end;
    }
    assert_eq!(row, 10_000);
}

fn any_column(rows: usize) -> impl Strategy<Value = Column> {
    let nulls = prop_oneof![
        Just(None),
        prop::collection::vec(prop::bool::weighted(0.8), rows).prop_map(Some),
    ];
    let small = -50i64..50;
    let ints = prop_oneof![
        prop::collection::vec(any::<i64>(), rows),
        prop::collection::vec(small, rows),
        prop::collection::vec(
            prop_oneof![Just(0i64), Just(i64::MAX), Just(i64::MIN)],
            rows
        ),
    ];
    let values = prop_oneof![
        ints.clone().prop_map(|v| (Kind::I64, Values::I64(v))),
        ints.clone().prop_map(|v| (
            Kind::I32,
            Values::I32(v.iter().map(|&i| i as i32).collect())
        )),
        ints.clone().prop_map(|v| (
            Kind::I16,
            Values::I16(v.iter().map(|&i| i as i16).collect())
        )),
        ints.clone().prop_map(|v| (
            Kind::Bool,
            Values::Bool(v.iter().map(|&i| i & 1 == 0).collect())
        )),
        ints.clone().prop_map(|v| (
            Kind::F64,
            Values::F64(v.iter().map(|&i| f64::from_bits(i as u64)).collect())
        )),
        ints.clone().prop_map(|v| (
            Kind::F64,
            Values::F64(v.iter().map(|&i| i as f64 / 100.0).collect())
        )),
        ints.prop_map(|v| (
            Kind::F32,
            Values::F32(v.iter().map(|&i| f32::from_bits(i as u32)).collect())
        )),
        prop::collection::vec(any::<u8>(), rows * 5)
            .prop_map(|data| (Kind::Fixed(5), Values::Fixed { width: 5, data })),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), rows).prop_map(|v| {
            let column = bytes_column(Kind::Bytes, &v);
            (column.kind, column.values)
        }),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), rows).prop_map(|v| {
            let column = bytes_column(Kind::Numeric, &v);
            (column.kind, column.values)
        }),
    ];
    (values, nulls).prop_map(|((kind, values), validity)| Column {
        kind,
        values,
        validity,
    })
}

/// Bytes of the values as they are, and of a bitmap of nulls.
fn raw_bytes(column: &Column) -> usize {
    let rows = column.rows();
    let values = match &column.values {
        Values::Absent(_) => 0,
        Values::Bool(_) => rows.div_ceil(8),
        Values::I16(_) => 2 * rows,
        Values::I32(_) | Values::F32(_) => 4 * rows,
        Values::I64(_) | Values::F64(_) => 8 * rows,
        Values::Fixed { data, .. } => data.len(),
        // With a length of at least a byte each.
        Values::Bytes { data, .. } => data.len() + rows,
    };
    values
        + if column.validity.is_some() {
            rows.div_ceil(8)
        } else {
            0
        }
}

#[test]
fn nothing_grows_beyond_raw_but_for_a_few_bytes() {
    let n = 5000usize;
    let bits: Vec<u64> = (0..n as u64).map(support::mix).collect();
    let column = |kind, values| Column {
        kind,
        values,
        validity: None,
    };
    let powers: Vec<Vec<u8>> = bits
        .iter()
        .map(|b| [[0x80 | (b % 5) as u8, 0x80], [1, 0]].concat())
        .collect();
    let columns = [
        column(
            Kind::Bool,
            Values::Bool(bits.iter().map(|b| b & 1 == 1).collect()),
        ),
        column(
            Kind::I16,
            Values::I16(bits.iter().map(|&b| b as i16).collect()),
        ),
        column(
            Kind::I32,
            Values::I32(bits.iter().map(|&b| b as i32).collect()),
        ),
        column(
            Kind::I64,
            Values::I64(bits.iter().map(|&b| b as i64).collect()),
        ),
        column(
            Kind::F32,
            Values::F32(bits.iter().map(|&b| f32::from_bits(b as u32)).collect()),
        ),
        column(
            Kind::F64,
            Values::F64(bits.iter().map(|&b| f64::from_bits(b)).collect()),
        ),
        column(
            Kind::Fixed(8),
            Values::Fixed {
                width: 8,
                data: bits.iter().flat_map(|b| b.to_le_bytes()).collect(),
            },
        ),
        bytes_column(
            Kind::Bytes,
            &bits
                .iter()
                .map(|b| b.to_le_bytes()[..(b % 9) as usize].to_vec())
                .collect::<Vec<_>>(),
        ),
        bytes_column(Kind::Numeric, &powers),
    ];
    for column in columns {
        for tier in tiers() {
            let raw = raw_bytes(&column);
            let encoded = encode(std::slice::from_ref(&column), &Options { tier, keys: &[] });
            let blocks = n.div_ceil(1024);
            let most = raw + 80 * (blocks + 1);
            let bytes = encoded.header.len() + encoded.payload.len();
            assert!(bytes <= most, "{:?}: {bytes} bytes of {raw}", column.kind);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_columns_come_back(columns in (1usize..2600).prop_flat_map(|rows| prop::collection::vec(any_column(rows), 1..4))) {
        check(&columns);
    }
}
