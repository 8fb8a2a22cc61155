//! Chunks that earlier versions wrote are read as they were meant. `tests/golden` is only ever added to:
//! `WRITE_GOLDEN=1 cargo test -p varve-columns --test golden` writes the files that are missing.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use support::hostile::join;
use support::{assert_same, bytes_column, mix, read_chunk, tiers, with_later_field};
use varve_columns::area::Area;
use varve_columns::chunk::{encode, ChunkHeader, ColumnDirectory, Options};
use varve_columns::codec::id;
use varve_columns::column::{Column, Kind, Values};
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{decode, FLAG_SORTED};
use varve_columns::tuple::note;
use varve_columns::tuple::tid::Tid;
use varve_columns::tuple::{runs::Pieces, Header, Piece, Section, StorageTuple, PIECE_BYTES};

const ROWS: usize = 1100;

fn noise(i: usize, below: u64) -> i64 {
    (mix(i as u64) % below) as i64
}

fn integers(values: impl Fn(usize) -> i64) -> Column {
    Column {
        kind: Kind::I64,
        values: Values::I64((0..ROWS).map(values).collect()),
        validity: None,
    }
}

fn floats(values: impl Fn(usize) -> f64) -> Column {
    Column {
        kind: Kind::F64,
        values: Values::F64((0..ROWS).map(values).collect()),
        validity: None,
    }
}

fn strings(kind: Kind, values: impl Fn(usize) -> Vec<u8>) -> Column {
    bytes_column(kind, &(0..ROWS).map(values).collect::<Vec<_>>())
}

fn with_nulls(column: Column) -> Column {
    Column {
        validity: Some(
            (0..column.rows())
                .map(|i| !mix(i as u64 + 99).is_multiple_of(5))
                .collect(),
        ),
        ..column
    }
}

/// Few values, where each is long.
fn sparse(column: Column) -> Column {
    Column {
        validity: Some(
            (0..column.rows())
                .map(|i| mix(i as u64 + 7).is_multiple_of(12))
                .collect(),
        ),
        ..column
    }
}

/// What golden files hold. Names and contents never change; new ones are added.
fn cases() -> Vec<(&'static str, Vec<Column>)> {
    let walk = |i: usize| (0..=i).map(|k| noise(k, 21) - 10).sum::<i64>();
    let bent = |i: usize| (0..=i).map(walk).sum::<i64>() / 4;
    let bursts = |i: usize, size| if i % 13 < 2 { noise(i, size) } else { 0 };
    let numeric = |digit: u16| [[0x80, 0x81], digit.to_le_bytes()].concat();
    vec![
        (
            "integers",
            vec![
                integers(|_| -7),
                integers(|i| 1_700_000_000_000 + i as i64 * 10_000),
                integers(|i| noise(i / 60, 1000)),
                integers(|i| (0..i).map(|k| noise(k / 8, 256)).sum()),
                integers(|i| [5, 1 << 40, 12_345_677, -1 << 50][noise(i, 4) as usize]),
                integers(|i| noise(i, 50) + if i % 200 == 9 { 1 << 45 } else { 0 }),
                sparse(integers(|i| noise(i, 1 << 61) * 3)),
                integers(walk),
                integers(bent),
                integers(|i| [i64::MIN, i64::MAX, 0, -1][noise(i, 4) as usize]),
                integers(|i| noise(i % 100, 1 << 40)),
                integers(|i| noise(i, 8) * noise(i + 5000, 8) * noise(i + 10_000, 300)),
                with_nulls(integers(|i| noise(i, 300))),
            ],
        ),
        (
            "small_integers",
            vec![
                Column {
                    kind: Kind::Bool,
                    values: Values::Bool((0..ROWS).map(|i| noise(i, 3) == 0).collect()),
                    validity: None,
                },
                with_nulls(Column {
                    kind: Kind::I16,
                    values: Values::I16((0..ROWS).map(|i| noise(i, 1 << 16) as i16).collect()),
                    validity: None,
                }),
                Column {
                    kind: Kind::I32,
                    values: Values::I32((0..ROWS).map(|i| walk(i) as i32).collect()),
                    validity: Some((0..ROWS).map(|i| i < 300).collect()),
                },
            ],
        ),
        (
            "floats",
            vec![
                floats(|_| f64::from_bits(0x7FF0_0000_0000_0001)),
                floats(|i| (200 + walk(i)) as f64 / 10.0),
                floats(|i| (200 + walk(i)) as f64 / 30.0),
                floats(|i| walk(i) as f64 / 100.0 * 1.1),
                floats(|i| {
                    if i % 97 == 5 {
                        1e-300
                    } else {
                        walk(i) as f64 / 100.0 * 1.1
                    }
                }),
                floats(|i| {
                    if i % 97 == 5 {
                        f64::NAN
                    } else {
                        noise(i, 100) as f64
                    }
                }),
                sparse(floats(|i| f64::from_bits(mix(i as u64)))),
                sparse(floats(|i| (mix(i as u64) >> 11) as f64 / 3e15)),
                floats(|i| f64::from_bits(mix(i as u64 % 100))),
                floats(|i| {
                    if i < 1024 {
                        f64::from_bits(0x7FF8_0000_0000_0BAD)
                    } else {
                        1.5
                    }
                }),
                sparse(floats(|i| {
                    let real = 1.0 + (mix(i as u64) >> 12) as f64 / (1u64 << 52) as f64;
                    real * [1e-30, 1.0, 1e30][noise(i + 9000, 3) as usize]
                })),
                sparse(floats(|i| (i as f64 / 50.0).sqrt())),
                floats(|i| {
                    [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324][noise(i, 5) as usize]
                }),
                with_nulls(floats(|i| f64::from(walk(i) as f32 / 10.0))),
                sparse(Column {
                    kind: Kind::F32,
                    values: Values::F32(
                        (0..ROWS)
                            .map(|i| f32::from_bits(mix(i as u64) as u32))
                            .collect(),
                    ),
                    validity: None,
                }),
                Column {
                    kind: Kind::F32,
                    values: Values::F32((0..ROWS).map(|i| walk(i) as f32 / 10.0).collect()),
                    validity: None,
                },
            ],
        ),
        (
            "strings",
            vec![
                strings(Kind::Bytes, |_| b"one value".to_vec()),
                strings(Kind::Bytes, |i| {
                    format!("host_{}", noise(i, 20)).into_bytes()
                }),
                strings(Kind::Bytes, |i| {
                    format!("request {} took {} ms", i, noise(i, 5000)).into_bytes()
                }),
                with_nulls(strings(Kind::Bytes, |i| {
                    mix(i as u64).to_le_bytes()[..i % 9].to_vec()
                })),
                strings(Kind::Numeric, |i| numeric(1 + noise(i, 9999) as u16)),
                strings(Kind::Numeric, |i| {
                    if i == 700 {
                        vec![0, 0xC0]
                    } else {
                        numeric(1 + noise(i, 9) as u16)
                    }
                }),
                sparse(Column {
                    kind: Kind::Fixed(16),
                    values: Values::Fixed {
                        width: 16,
                        data: (0..ROWS * 16).map(|i| mix(i as u64) as u8).collect(),
                    },
                    validity: None,
                }),
                with_nulls(Column {
                    kind: Kind::Fixed(3),
                    values: Values::Fixed {
                        width: 3,
                        data: (0..ROWS)
                            .flat_map(|i| mix(noise(i, 6) as u64).to_le_bytes()[..3].to_vec())
                            .collect(),
                    },
                    validity: None,
                }),
                Column {
                    kind: Kind::Fixed(6),
                    values: Values::Fixed {
                        width: 6,
                        data: (0..ROWS * 6).map(|i| (i % 97 / 3) as u8).collect(),
                    },
                    validity: None,
                },
                Column {
                    kind: Kind::Absent,
                    values: Values::Absent(ROWS),
                    validity: None,
                },
            ],
        ),
        (
            "scaled_integers",
            vec![
                integers(|i| 4096 * (7 + noise(i % 90, 1 << 30))),
                integers(|i| 350 + 500 * noise(i, 8) * noise(i + 5000, 8) * noise(i + 10_000, 300)),
            ],
        ),
        (
            "patched",
            vec![
                integers(|i| 1000 + noise(i, 8) + bursts(i, 700) * 90),
                integers(|i| 3 * (noise(i, 8) - if i % 9 == 0 { 4000 } else { 0 })),
                integers(|i| (0..=i).map(|k| noise(k, 4) - 2 + bursts(k, 900)).sum()),
                integers(|i| {
                    (0..=i)
                        .map(|k| (k / 500 * 40) as i64 * (noise(k, 301) - 150))
                        .sum()
                }),
                integers(|i| {
                    (0..=i)
                        .map(|k| (0..=k).map(|j| bursts(j, 31)).sum::<i64>())
                        .sum()
                }),
            ],
        ),
        (
            "short_strings",
            vec![
                strings(Kind::Bytes, |i| {
                    let host = (noise(i, 1 << 16) as u16).to_le_bytes();
                    [&[2, 32, 10, 20][..], &host].concat()
                }),
                strings(Kind::Bytes, |i| {
                    let len = 3 + noise(i, 4) as u32;
                    let elements = (0..len).map(|k| 100 * k + noise(8 * i + k as usize, 60) as u32);
                    let array = [1, 0, 23, len, 1].into_iter().chain(elements);
                    array.flat_map(u32::to_le_bytes).collect()
                }),
                Column {
                    kind: Kind::Fixed(16),
                    values: Values::Fixed {
                        width: 16,
                        data: (0..ROWS)
                            .flat_map(|i| {
                                let time = (1_700_000_000_000 + i as u64).to_be_bytes();
                                [&time[2..], &[0x70, 0x80], &mix(i as u64).to_be_bytes()].concat()
                            })
                            .collect(),
                    },
                    validity: None,
                },
            ],
        ),
        (
            "one_row",
            vec![integers(|i| i as i64), floats(|_| -0.0)]
                .into_iter()
                .map(first_row)
                .collect(),
        ),
        (
            "empty",
            vec![Column {
                kind: Kind::I64,
                values: Values::I64(vec![]),
                validity: None,
            }],
        ),
    ]
}

fn first_row(column: Column) -> Column {
    let values = match column.values {
        Values::I64(v) => Values::I64(v[..1].to_vec()),
        Values::F64(v) => Values::F64(v[..1].to_vec()),
        other => other,
    };
    Column { values, ..column }
}

/// A golden file. One that is missing is written first where WRITE_GOLDEN is set in the environment.
fn golden(path: &Path, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    if !path.exists() && std::env::var_os("WRITE_GOLDEN").is_some() {
        fs::write(path, make()).expect("the folder can be written to");
    }
    fs::read(path).unwrap_or_else(|_| panic!("{} is missing", path.display()))
}

fn chunk(columns: &[Column], options: &Options) -> Vec<u8> {
    let encoded = encode(columns, options);
    join(&encoded.header, &encoded.payload)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Every case in every tier: file name, columns, tier.
fn files() -> Vec<(PathBuf, Vec<Column>, Options<'static>)> {
    let mut files = Vec::new();
    for (name, columns) in cases() {
        for (tier, label) in tiers().into_iter().zip(["fresh", "fast", "small"]) {
            let path = folder().join(format!("{name}-{label}.v1.chunk"));
            files.push((path, columns.clone(), Options { tier, keys: &[] }));
        }
    }
    files
}

/// A field that no reader knows is skipped, and does not get lost.
fn later_field() -> (PathBuf, Vec<Column>) {
    let columns = vec![integers(|i| noise(i, 50)), floats(|i| noise(i, 9) as f64)];
    (folder().join("later_field-fast.v1.chunk"), columns)
}

#[test]
fn golden_files_with_an_unknown_field_are_read() {
    let (path, columns) = later_field();
    let bytes = golden(&path, || {
        let tier = tiers()[1];
        let encoded = encode(&columns, &Options { tier, keys: &[] });
        join(&with_later_field(&encoded.header), &encoded.payload)
    });
    let (header, payload) = split(&bytes);
    for (column, back) in columns.iter().zip(&read_chunk(header, payload).unwrap()) {
        assert_same(column, back);
    }
    let parsed = ChunkHeader::parse(header).unwrap();
    assert_eq!(parsed.area().field(4_000), Some(&b"of a later version"[..]));
    let again = ChunkHeader::write(parsed.rows(), parsed.columns(), parsed.area());
    assert_eq!(again, header);
}

/// Storage tuples: a header, one with a field that no reader knows, one with slots, a piece, a note.
fn tuples() -> Vec<(PathBuf, Vec<u8>)> {
    let pieces = |len: u32, block| Pieces {
        len,
        tids: (0..len.div_ceil(PIECE_BYTES as u32))
            .map(|at| Tid {
                block: block + at / 4,
                offset: 1 + (at % 4) as u16,
            })
            .collect(),
    };
    let header = Header {
        version: 1,
        chunk: 0x0123_4567_89AB_CDEF,
        flags: FLAG_SORTED,
        level: 3,
        rows: 60_000,
        deleted: 2,
        min_time: -1,
        max_time: 1 << 50,
        statics: Section::Spilled {
            depth: 0,
            crc: 0xFEED_F00D,
            pieces: pieces(5_000, 17),
        },
        delete_map: Section::Inline(vec![0, 2, 5, 9, 0]),
        area: Area::default(),
        slots: Vec::new(),
    };
    let mut later = header.clone();
    later.area.set(4_000, b"of a later version".to_vec());
    let piece = Piece {
        chunk: 7,
        number: 11,
        rows_share: 150.5,
        data: b"a slice of the payload",
    };
    let at = |block| Tid { block, offset: 12 };
    let mut slotted = header.clone();
    slotted.version = 2;
    slotted.slots = note::empty_slots(slotted.rows);
    note::fill(&mut slotted.slots, slotted.chunk, &[at(70_000), at(3)]);
    let mut gone = DeleteMap::default();
    gone.delete(6);
    gone.update(59_999, at(70_001));
    let note =
        note::encode(slotted.chunk, &note::runs(gone.entries()), usize::MAX).expect("a small note");
    (7..20_000).for_each(|row| {
        gone.delete(row);
    });
    let note_of_runs = note::encode(slotted.chunk, &note::runs(gone.entries()), usize::MAX)
        .expect("a note of runs");
    [
        ("header.v1", header.encode()),
        ("header_later_field.v1", later.encode()),
        ("header_slots.v2", slotted.encode()),
        ("piece.v1", piece.encode()),
        ("note.v2", note),
        ("note_runs.v3", note_of_runs),
    ]
    .map(|(name, bytes)| (folder().join(format!("{name}.tuple")), bytes))
    .into()
}

#[test]
fn golden_tuples_are_read_and_written() {
    for (path, bytes) in tuples() {
        let golden = golden(&path, || bytes.clone());
        let again = match decode(&golden).unwrap() {
            StorageTuple::Header(header) => header.encode(),
            StorageTuple::Piece(piece) => piece.encode(),
            StorageTuple::Note { chunk } => {
                let mut map = DeleteMap::default();
                let runs = note::decode(&golden, 60_000).unwrap();
                assert_eq!(map.add(&runs), Ok(()));
                note::encode(chunk, &note::runs(map.entries()), usize::MAX).unwrap()
            }
        };
        assert_eq!(again, golden);
        assert_eq!(bytes, golden);
    }
}

fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = bytes.split_first_chunk::<2>().expect("two bytes");
    rest.split_at(u16::from_le_bytes(*length) as usize)
}

#[test]
fn golden_files_are_read() {
    for (path, columns, options) in files() {
        let bytes = golden(&path, || chunk(&columns, &options));
        let (header, payload) = split(&bytes);
        let back = read_chunk(header, payload).unwrap();
        assert_eq!(back.len(), columns.len());
        for (column, back) in columns.iter().zip(&back) {
            assert_same(column, back);
        }
    }
}

#[test]
fn golden_files_show_every_codec() {
    let mut seen = BTreeSet::new();
    for (path, columns, options) in files() {
        let bytes = golden(&path, || chunk(&columns, &options));
        let (header, payload) = split(&bytes);
        for column in ChunkHeader::parse(header).unwrap().columns() {
            let range = column.directory.start as usize..column.directory.end as usize;
            let directory = ColumnDirectory::parse(column, &payload[range]).unwrap();
            seen.extend(directory.blocks().iter().map(|block| block.codec));
        }
    }
    let known = [id::ALL_NULL, id::CONST]
        .into_iter()
        .chain(id::INT_LINEAR..=id::INT_PATCHED_DELTA2)
        .chain(id::BYTES_RAW..=id::BYTES_PLANES)
        .chain(id::FIXED_RAW..=id::FIXED_PLANES)
        .chain([id::NUMERIC_SCALED])
        .chain(id::FLOAT_RAW..=id::FLOAT_PCO);
    let missing: Vec<String> = known
        .filter(|id| !seen.contains(id))
        .map(|id| format!("{id:#x}"))
        .collect();
    assert!(missing.is_empty(), "no golden block of {missing:?}");
}
