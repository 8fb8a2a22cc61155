//! Bytes that were flipped, cut off or made up: an error each, never a wrong value, never a panic.

mod support;

use std::fs;
use std::path::Path;

use support::hostile::{join, TARGETS};
use support::{bytes_column, mix, read_chunk, tiers, with_later_field};
use varve_columns::chunk::{encode, ChunkHeader, Encoded, Options, FORMAT_VERSION};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::Corrupt;

/// A column of each kind, two blocks long, with nulls in some.
fn sample() -> Vec<Column> {
    let n = 1100;
    let some = || Some((0..n).map(|i| i % 7 != 3).collect::<Vec<bool>>());
    let column = |kind, values, validity| Column {
        kind,
        values,
        validity,
    };
    let words: Vec<Vec<u8>> = (0..n)
        .map(|i| format!("state {}", mix(i as u64) % 30).into_bytes())
        .collect();
    let numerics: Vec<Vec<u8>> = (0..n)
        .map(|i| {
            [0x80u16, 0x8080, 1 + mix(i as u64) as u16 % 99][1..]
                .iter()
                .flat_map(|d| d.to_le_bytes())
                .collect()
        })
        .collect();
    vec![
        column(
            Kind::I64,
            Values::I64(
                (0..n)
                    .map(|i| i as i64 * 10_000 + (mix(i as u64) % 7) as i64)
                    .collect(),
            ),
            None,
        ),
        column(Kind::I32, Values::I32(vec![42; n]), None),
        column(
            Kind::I16,
            Values::I16((0..n).map(|i| mix(i as u64) as i16).collect()),
            some(),
        ),
        column(
            Kind::Bool,
            Values::Bool((0..n).map(|i| mix(i as u64).is_multiple_of(3)).collect()),
            some(),
        ),
        column(
            Kind::F64,
            Values::F64(
                (0..n)
                    .map(|i| (mix(i as u64) % 999) as f64 / 10.0)
                    .collect(),
            ),
            some(),
        ),
        column(
            Kind::F32,
            Values::F32((0..n).map(|i| mix(i as u64) as f32 / 7.0).collect()),
            None,
        ),
        column(
            Kind::Fixed(4),
            Values::Fixed {
                width: 4,
                data: (0..n * 4).map(|i| mix(i as u64 / 9) as u8).collect(),
            },
            some(),
        ),
        Column {
            validity: some(),
            ..bytes_column(Kind::Bytes, &words)
        },
        bytes_column(Kind::Numeric, &numerics),
        Column {
            kind: Kind::Absent,
            values: Values::Absent(n),
            validity: None,
        },
    ]
}

#[test]
fn every_flipped_byte_is_noticed() {
    for tier in tiers() {
        let Encoded { header, payload } = encode(&sample(), &Options { tier, keys: &[] });
        assert!(read_chunk(&header, &payload).is_ok());
        let longer = with_later_field(&header);
        assert!(read_chunk(&longer, &payload).is_ok());
        for at in 0..longer.len() {
            let mut damaged = longer.clone();
            damaged[at] ^= 0x01;
            assert!(read_chunk(&damaged, &payload).is_err(), "header byte {at}");
        }
        for flip in [0x01, 0x80, 0xFF] {
            for at in 0..header.len() {
                let mut damaged = header.clone();
                damaged[at] ^= flip;
                assert!(read_chunk(&damaged, &payload).is_err(), "header byte {at}");
            }
            for at in 0..payload.len() {
                let mut damaged = payload.clone();
                damaged[at] ^= flip;
                assert!(read_chunk(&header, &damaged).is_err(), "payload byte {at}");
            }
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    let Encoded { header, payload } = encode(
        &sample(),
        &Options {
            tier: tiers()[0],
            keys: &[],
        },
    );
    for header in [&header, &with_later_field(&header)] {
        for length in 0..header.len() {
            assert!(ChunkHeader::parse(&header[..length]).is_err());
        }
    }
    for length in 0..payload.len() {
        assert!(read_chunk(&header, &payload[..length]).is_err());
    }
}

#[test]
fn errors_name_their_place_and_newer_versions_are_refused() {
    let Encoded {
        mut header,
        mut payload,
    } = encode(
        &sample(),
        &Options {
            tier: tiers()[0],
            keys: &[],
        },
    );
    *payload.last_mut().unwrap() ^= 1;
    let error = read_chunk(&header, &payload).unwrap_err();
    assert_eq!(
        error.to_string(),
        "wrong checksum of a block in column 8 in block 1"
    );
    header[4] = FORMAT_VERSION + 1;
    let error = ChunkHeader::parse(&header).unwrap_err();
    assert_eq!(
        error,
        Corrupt::Version {
            found: FORMAT_VERSION + 1,
            supported: FORMAT_VERSION
        }
    );
}

/// Inputs of the fuzz targets: `fuzz/corpus/<target>`, and chunks of our own for `chunk`.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| entry.expect("a directory entry").path())
        .collect();
    files.sort();
    let mut seeds: Vec<Vec<u8>> = files
        .iter()
        .map(|path| fs::read(path).expect("a file of the corpus"))
        .collect();
    if target == "chunk" {
        for tier in tiers() {
            let columns: Vec<Column> = sample();
            let encoded = encode(&columns, &Options { tier, keys: &[] });
            seeds.push(join(&encoded.header, &encoded.payload));
            seeds.push(join(&with_later_field(&encoded.header), &encoded.payload));
        }
    }
    seeds
}

#[test]
fn fuzz_corpora_are_replayed() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no corpus");
        seeds.iter().for_each(|seed| target(seed));
    }
}

#[test]
fn mutated_corpora_never_panic() {
    let mut random = 0;
    let mut next = |below: usize| {
        random += 1;
        mix(random) as usize % below.max(1)
    };
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        let mutations = if name == "round_trip" { 100 } else { 12_000 } / seeds.len();
        for seed in seeds {
            for _ in 0..mutations {
                let mut input = seed.clone();
                for _ in 0..1 + next(4) {
                    if input.is_empty() {
                        break;
                    }
                    let at = next(input.len());
                    match next(4) {
                        0 => input[at] ^= 1 << next(8),
                        1 => input[at] = [0, 0x7F, 0x80, 0xFF][next(4)],
                        2 => input.truncate(at),
                        _ => input[at] = next(256) as u8,
                    }
                }
                target(&input);
            }
        }
    }
}
