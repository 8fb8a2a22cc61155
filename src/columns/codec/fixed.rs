//! Values of one fixed width: a dictionary with a stream of codes (uuid keys), a zstd frame of values or of
//! byte planes (uuids with a time in front), or as they are (random uuids).
//!
//! Bytes: raw: the values. Zstd, planes: a frame. Dictionary: number of words (varint), words, stream of codes.

use super::bytes::{put_frame, SMALLEST_FRAME};
use super::words;
use super::{id, int, planes, zstd, Point, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Appends the body and returns its codec. `width` is not 0.
pub fn encode(data: &[u8], width: usize, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let small = tier == Tier::Merged(Point::Small);
    let dictionary = encode_dictionary(data, width, tier);
    // As for `bytes`.
    if let Some(bytes) = &dictionary {
        if !small && bytes.len() <= data.len() / 4 {
            out.extend_from_slice(bytes);
            return id::FIXED_DICT;
        }
    }
    let at = out.len();
    let codec = encode_plain(data, width, tier, out);
    let room = out.len() - at;
    match dictionary {
        Some(bytes)
            if bytes.len()
                < if small {
                    room
                } else {
                    (room + room / 32).min(data.len())
                } =>
        {
            out.truncate(at);
            out.extend_from_slice(&bytes);
            id::FIXED_DICT
        }
        _ => codec,
    }
}

/// The values, or a frame if it saves one part in twenty.
fn encode_plain(data: &[u8], width: usize, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let (mut values, mut planes) = (Vec::new(), Vec::new());
    if data.len() >= SMALLEST_FRAME {
        put_frame(data, tier, &mut values);
        put_frame(&planes::of_bytes(data, width), tier, &mut planes);
        let least = values.len().min(planes.len());
        if least * 20 < data.len() * 19 {
            let by_value = values.len() == least;
            out.extend_from_slice(if by_value { &values } else { &planes });
            return if by_value {
                id::FIXED_ZSTD
            } else {
                id::FIXED_PLANES
            };
        }
    }
    out.extend_from_slice(data);
    id::FIXED_RAW
}

fn encode_dictionary(data: &[u8], width: usize, tier: Tier) -> Option<Vec<u8>> {
    let n = data.len() / width;
    let found = words::find(data.chunks_exact(width), n / 2, data.len())?;
    let mut out = Vec::new();
    put_varint(&mut out, found.words.len() as u64);
    out.extend(found.words.iter().copied().flatten());
    int::encode(&found.codes, tier, &mut out);
    Some(out)
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
        id::FIXED_PLANES => planes::decode_bytes(&mut reader, width, n, data),
        id::FIXED_DICT => {
            let count = reader.varint_up_to(n)?;
            let words = reader.take(count * width)?;
            let mut codes = Vec::new();
            int::decode(reader.rest(), n, &mut codes)?;
            if codes.iter().any(|&code| !(0..count as i64).contains(&code)) {
                return Err(Corrupt::new("a code is not in its dictionary"));
            }
            data.reserve(n * width);
            match width {
                // As wide as a uuid: copied without a call.
                16 => {
                    let words = words.as_chunks::<16>().0;
                    codes
                        .iter()
                        .for_each(|&code| data.extend_from_slice(&words[code as usize]));
                }
                _ => codes.iter().for_each(|&code| {
                    data.extend_from_slice(&words[code as usize * width..][..width]);
                }),
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
