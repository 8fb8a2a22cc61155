//! What takes part: varve's automatic choice per tier, and what others use.

use crate::{cuts, gorilla};
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::ChunkConfig;
use varve_columns::codec::{float, Guess, Point, Tier};
use varve_columns::wire::Reader;

pub struct Contender {
    pub name: &'static str,
    /// Rows of a block.
    pub rows: usize,
    /// Appends a block; the guess is what the block before left.
    pub encode: fn(&[f64], &mut Guess, &mut Vec<u8>),
    /// Replaces the last argument by so many values.
    pub decode: fn(&[u8], usize, &mut Vec<f64>),
}

pub const FRESH: usize = 0;
pub const FAST: usize = 1;
pub const SMALL: usize = 2;
pub const PCO_1024: usize = 3;
pub const PCO_8192: usize = 4;

/// The five above in that order, then the rest.
pub fn all() -> Vec<Contender> {
    let own = |name, rows, encode| Contender {
        name,
        rows,
        encode,
        decode: decode_own,
    };
    let pco = |name, rows| Contender {
        name,
        rows,
        encode: encode_pco,
        decode: decode_pco,
    };
    vec![
        own("fresh, 1,024", 1024, |values, guess, out| {
            encode_own(values, Tier::Fresh, guess, out)
        }),
        own("merged fast, 8,192", 8192, |values, guess, out| {
            encode_own(values, Tier::Merged(Point::Fast), guess, out)
        }),
        Contender {
            name: "merged small, 32,768",
            rows: 32_768,
            encode: |values, _, out| cuts::encode(values, out),
            decode: cuts::decode,
        },
        pco("pcodec 8, 1,024", 1024),
        pco("pcodec 8, 8,192", 8192),
        Contender {
            name: "shuffle + zstd-3, 8,192",
            rows: 8192,
            encode: encode_shuffled,
            decode: decode_shuffled,
        },
        Contender {
            name: "Gorilla, 1,024",
            rows: 1024,
            encode: |values, _, out| gorilla::encode(values, out),
            decode: gorilla::decode,
        },
    ]
}

/// The codec id counts as a byte.
fn encode_own(values: &[f64], tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) {
    out.push(0);
    out[0] = float::encode_f64(values, tier, guess, out);
}

fn decode_own(bytes: &[u8], rows: usize, out: &mut Vec<f64>) {
    let (codec, body) = bytes.split_first().expect("BUG: a block without a codec");
    float::decode_f64(*codec, Reader::new(body), rows, out).expect("BUG: own bytes do not decode");
}

fn encode_pco(values: &[f64], _: &mut Guess, out: &mut Vec<u8>) {
    let config = ChunkConfig::default().with_compression_level(8);
    out.extend(simple_compress(values, &config).expect("BUG: pcodec refused doubles"));
}

fn decode_pco(bytes: &[u8], rows: usize, out: &mut Vec<f64>) {
    out.resize(rows, 0.0);
    let progress = simple_decompress_into(bytes, out).expect("BUG: pcodec refused its own bytes");
    assert_eq!(progress.n_processed, rows, "BUG: pcodec lost values");
}

fn encode_shuffled(values: &[f64], _: &mut Guess, out: &mut Vec<u8>) {
    let mut planes = vec![0; values.len() * 8];
    for (row, value) in values.iter().enumerate() {
        for (plane, byte) in value.to_le_bytes().into_iter().enumerate() {
            planes[plane * values.len() + row] = byte;
        }
    }
    out.extend(zstd::bulk::compress(&planes, 3).expect("BUG: zstd refused bytes"));
}

fn decode_shuffled(bytes: &[u8], rows: usize, out: &mut Vec<f64>) {
    let planes = zstd::bulk::decompress(bytes, rows * 8).expect("BUG: zstd refused its own bytes");
    out.clear();
    out.extend(
        (0..rows)
            .map(|row| f64::from_le_bytes(std::array::from_fn(|plane| planes[plane * rows + row]))),
    );
}
