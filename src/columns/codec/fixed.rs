//! Values of one fixed width: a dictionary with a stream of codes (uuid keys), a zstd frame, or as they
//! are (random uuids).
//!
//! Bytes: raw: the values. Zstd: a frame. Dictionary: number of words (varint), words, stream of codes.

use std::collections::HashMap;

use super::bytes::near;
use super::{id, int, zstd, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Appends the body and returns its codec. `width` is not 0.
pub fn encode(data: &[u8], width: usize, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    let mut codec = id::FIXED_RAW;
    if data.len() >= 64 {
        zstd::compress(data, 1, out);
        codec = id::FIXED_ZSTD;
    }
    if codec == id::FIXED_RAW || (out.len() - at) * 20 >= data.len() * 19 {
        out.truncate(at);
        out.extend_from_slice(data);
        codec = id::FIXED_RAW;
    }
    if let Some(dictionary) = encode_dictionary(
        data,
        width,
        tier,
        near(out.len() - at, tier).min(data.len()),
    ) {
        out.truncate(at);
        out.extend_from_slice(&dictionary);
        codec = id::FIXED_DICT;
    }
    codec
}

fn encode_dictionary(data: &[u8], width: usize, tier: Tier, limit: usize) -> Option<Vec<u8>> {
    let n = data.len() / width;
    let mut index: HashMap<&[u8], i64> = HashMap::new();
    let mut words = Vec::new();
    let mut codes = Vec::with_capacity(n);
    for value in data.chunks_exact(width) {
        let next = index.len() as i64;
        let code = *index.entry(value).or_insert_with(|| {
            words.extend_from_slice(value);
            next
        });
        if words.len() >= limit {
            return None;
        }
        codes.push(code);
    }
    let mut out = Vec::new();
    put_varint(&mut out, index.len() as u64);
    out.extend_from_slice(&words);
    int::encode(&codes, tier, &mut out);
    (out.len() < limit).then_some(out)
}

/// Reads `n` values of a body that takes up the rest of `reader`; `data` is cleared first.
pub fn decode(
    codec: u8,
    mut reader: Reader,
    width: usize,
    n: usize,
    data: &mut Vec<u8>,
) -> Result<()> {
    data.clear();
    match codec {
        id::FIXED_RAW => {
            data.extend_from_slice(reader.take(n * width)?);
            reader.finish()
        }
        id::FIXED_ZSTD => {
            zstd::decompress(&mut reader, n * width, data)?;
            if data.len() != n * width {
                return Err(Corrupt::new("a frame is shorter than its values"));
            }
            Ok(())
        }
        id::FIXED_DICT => {
            let count = reader.varint_up_to(n)?;
            let words = reader.take(count * width)?;
            let mut codes = Vec::new();
            int::decode(reader.rest(), n, &mut codes)?;
            data.reserve(n * width);
            for code in codes {
                let word = usize::try_from(code)
                    .ok()
                    .filter(|&c| c < count)
                    .ok_or(Corrupt::new("a code is not in its dictionary"))?;
                data.extend_from_slice(&words[word * width..][..width]);
            }
            Ok(())
        }
        _ => Err(Corrupt::new("unknown codec of fixed values")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(data: &[u8], width: usize) -> u8 {
        let mut out = Vec::new();
        let codec = encode(data, width, Tier::Fresh, &mut out);
        assert!(out.len() <= data.len());
        let mut back = vec![1];
        decode(
            codec,
            Reader::new(&out),
            width,
            data.len() / width,
            &mut back,
        )
        .unwrap();
        assert_eq!(back, data);
        codec
    }

    #[test]
    fn random_raw_repeated_dictionary() {
        let random: Vec<u8> = (0..1600u64)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u8)
            .collect();
        let repeated: Vec<u8> = (0..100)
            .flat_map(|i| random[i % 3 * 16..][..16].to_vec())
            .collect();
        assert_eq!(round_trip(&repeated, 16), id::FIXED_DICT);
        round_trip(&random, 16);
        assert_eq!(round_trip(&random[..16], 16), id::FIXED_RAW);
        round_trip(&[], 16);
    }
}
