//! Whatever the processor has, the bits are the same: bytes of chunks, values that come back, aggregates, filters.
//!
//! The feature `portable` compiles all kernels for the baseline alone. A run with it and a run without, told the same
//! file by `VARVE_BITS`, compare: the first writes what it found, the second must find the same. `make check` does so.

mod support;

use std::fmt::{Debug, Write};

use support::{assert_same, bytes_column, column, mix, read_chunk, tiers};
use varve_columns::chunk::{encode, Options};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::vector::aggregate::{extremes_f64, extremes_i64, moments_f64, sum_f64, sum_i64};
use varve_columns::vector::filter::{among_ints, compare_f64, compare_ints, Comparison};
use varve_columns::vector::{bucket, Bitmap, Narrow};

const ROWS: usize = 9000;

fn noise(i: usize, below: u64) -> i64 {
    (mix(i as u64) % below) as i64
}

fn walk(step: u64) -> Vec<i64> {
    let steps = (0..ROWS).map(|i| noise(i, 2 * step + 1) - step as i64);
    steps
        .scan(0, |sum, step| {
            *sum += step;
            Some(*sum)
        })
        .collect()
}

fn integers() -> Vec<(&'static str, Vec<i64>)> {
    vec![
        ("walk", walk(9)),
        ("noise", (0..ROWS).map(|i| noise(i, 1 << 37)).collect()),
        ("multiples", walk(30).iter().map(|i| i * 500 + 7).collect()),
        (
            "bursts",
            (0..ROWS)
                .map(|i| noise(i, 8) << (i % 11 / 10 * 20))
                .collect(),
        ),
        (
            "clock",
            (0..ROWS)
                .map(|i| 1_700_000_000_000 + i as i64 * 1000 + noise(i, 3))
                .collect(),
        ),
        (
            "all of i64",
            (0..ROWS).map(|i| mix(i as u64) as i64).collect(),
        ),
    ]
}

fn doubles() -> Vec<(&'static str, Vec<f64>)> {
    let of = |scale: fn(f64) -> f64| walk(40).iter().map(|&i| scale(i as f64)).collect();
    let odd = [f64::NAN, -0.0, f64::INFINITY, 5e-324, 1e308, 1e-308];
    vec![
        ("integers", of(|i| i)),
        ("decimals", of(|i| i / 100.0)),
        ("products", of(|i| i * 0.001)),
        ("thirds", of(|i| i / 30.0)),
        ("averages", of(|i| (i / 10.0 + 0.1 + 0.2) / 3.0)),
        ("singles", of(|i| f64::from((i / 10.0) as f32))),
        ("binary", of(|i| i / 1024.0)),
        ("reals", of(|i| (i / 77.0).sin())),
        (
            "odd",
            (0..ROWS)
                .map(|i| {
                    if i % 50 == 3 {
                        odd[i / 50 % 6]
                    } else {
                        i as f64 / 8.0
                    }
                })
                .collect(),
        ),
        (
            "any",
            (0..ROWS).map(|i| f64::from_bits(mix(i as u64))).collect(),
        ),
    ]
}

fn others() -> Vec<(&'static str, Column)> {
    let words: Vec<Vec<u8>> = (0..ROWS)
        .map(|i| format!("host-{:x}", noise(i, 9000)).into_bytes())
        .collect();
    let address = |i| [&[2, 32, 10][..], &mix(i as u64).to_le_bytes()[..3]].concat();
    let addresses: Vec<Vec<u8>> = (0..ROWS).map(address).collect();
    let uuids =
        (0..ROWS).flat_map(|i| (u128::from(mix(i as u64)) | (i as u128) << 80).to_be_bytes());
    vec![
        ("words", bytes_column(Kind::Bytes, &words)),
        ("addresses", bytes_column(Kind::Bytes, &addresses)),
        (
            "uuids",
            column(
                Kind::Fixed(16),
                Values::Fixed {
                    width: 16,
                    data: uuids.collect(),
                },
            ),
        ),
        (
            "flags",
            column(
                Kind::Bool,
                Values::Bool((0..ROWS).map(|i| noise(i, 5) == 0).collect()),
            ),
        ),
        (
            "shorts",
            column(
                Kind::I16,
                Values::I16(walk(3).iter().map(|&i| i as i16).collect()),
            ),
        ),
        (
            "ints",
            column(
                Kind::I32,
                Values::I32(walk(300).iter().map(|&i| i as i32).collect()),
            ),
        ),
        (
            "floats",
            column(
                Kind::F32,
                Values::F32(walk(20).iter().map(|&i| i as f32 / 10.0).collect()),
            ),
        ),
    ]
}

/// One line for each thing that was computed.
#[derive(Default)]
struct Record(String);

impl Record {
    fn bytes(&mut self, what: &str, bytes: &[u8]) {
        let sum = crc32fast::hash(bytes);
        let _ = writeln!(self.0, "{what}: {} bytes, {sum:08x}", bytes.len());
    }

    /// Debug output of doubles tells all their bits but those of a NaN.
    fn value(&mut self, what: &str, value: impl Debug) {
        let _ = writeln!(self.0, "{what}: {value:?}");
    }

    fn chunk(&mut self, name: &str, column: &Column) {
        for tier in tiers() {
            let encoded = encode(std::slice::from_ref(column), &Options { tier, keys: &[] });
            let back = read_chunk(&encoded.header, &encoded.payload).expect("a chunk");
            assert_same(column, &back[0]);
            self.bytes(&format!("{name}, {tier:?}, header"), &encoded.header);
            self.bytes(&format!("{name}, {tier:?}, payload"), &encoded.payload);
        }
    }

    fn rows(&mut self, what: &str, rows: &Bitmap) {
        let words = rows.words().iter().flat_map(|word| word.to_le_bytes());
        self.bytes(what, &words.collect::<Vec<u8>>());
    }
}

#[test]
fn every_path_gives_the_same_bits() {
    let mut record = Record::default();
    let comparisons = [
        Comparison::Less,
        Comparison::Equal,
        Comparison::GreaterOrEqual,
    ];
    for (name, values) in integers() {
        for comparison in comparisons {
            let mut rows = Bitmap::all(values.len());
            compare_ints(&values, comparison, 4, &mut rows);
            record.rows(&format!("{name} {comparison:?}"), &rows);
            record.value(name, sum_i64(&values, Some(&rows)));
            record.value(name, extremes_i64(&values, Some(&rows)));
        }
        let mut rows = Bitmap::all(values.len());
        among_ints(&values, &[4, 5, 4000], &mut rows);
        record.rows(&format!("{name} in a list"), &rows);
        record.value(name, bucket::fixed(&values[..1], 60, 0));
        record.chunk(name, &column(Kind::I64, Values::I64(values)));
    }
    for (name, values) in doubles() {
        if let Some(narrow) = Narrow::of(&Values::F64(values.clone())) {
            let mut back = Values::Absent(0);
            narrow.restore(0..ROWS, &mut back);
            record.value(name, back);
        }
        for comparison in comparisons {
            let mut rows = Bitmap::all(values.len());
            compare_f64(&values, comparison, 0.25, &mut rows);
            record.rows(&format!("{name} {comparison:?}"), &rows);
            record.value(name, sum_f64(&values, Some(&rows)));
            record.value(name, extremes_f64(&values, Some(&rows)));
            record.value(name, moments_f64(&values, Some(&rows)));
        }
        record.chunk(name, &column(Kind::F64, Values::F64(values)));
    }
    for (name, column) in others() {
        record.chunk(name, &column);
    }
    let Some(file) = std::env::var_os("VARVE_BITS") else {
        return;
    };
    if cfg!(feature = "portable") {
        std::fs::write(file, record.0).unwrap();
        return;
    }
    let portable = std::fs::read_to_string(file).unwrap();
    for (own, portable) in record.0.lines().zip(portable.lines()) {
        assert_eq!(own, portable);
    }
    assert_eq!(record.0.lines().count(), portable.lines().count());
}
