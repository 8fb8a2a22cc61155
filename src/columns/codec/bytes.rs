//! Byte strings of any length: a dictionary with a stream of codes (few distinct values: labels, states),
//! lengths and bytes as they are, or lengths and one zstd frame over the bytes (log lines, documents). Short
//! strings also try a frame of lengths and bytes in turn, and byte planes if all have one length.
//!
//! Bytes, raw, zstd and planes: lengths as a sized stream, then the bytes or a frame. Dictionary: number of words
//! (varint), their lengths as a sized stream, the words (or, sized, a frame of them), codes as a stream.

use super::words::{self, Table};
use super::{id, int, planes, zstd, Point, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Upper bound of the bytes of one block, so that a hostile length cannot ask for more. PostgreSQL's own
/// limit of one value is 1 GB.
pub const MAX_BLOCK_BYTES: usize = 1 << 30;

/// Byte strings as `Values::Bytes` holds them.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    pub ends: &'a [u32],
    pub data: &'a [u8],
}

impl<'a> Strings<'a> {
    pub fn get(&self, i: usize) -> &'a [u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.data[start..self.ends[i] as usize]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let strings = *self;
        (0..self.ends.len()).map(move |i| strings.get(i))
    }
}

/// Appends the body and returns its codec.
pub fn encode(strings: Strings, tier: Tier, out: &mut Vec<u8>) -> u8 {
    if strings.ends.len() == 1 && strings.data.len() > LARGEST_TRIAL {
        return encode_large(strings, tier, out);
    }
    let small = tier == Tier::Merged(Point::Small);
    let dictionary = encode_dictionary(strings, tier);
    // A dictionary decodes many times faster than a frame: where it is good, nothing else is tried.
    if let Some((codec, bytes)) = &dictionary {
        if !small && bytes.len() <= strings.data.len() / 4 {
            out.extend_from_slice(bytes);
            return *codec;
        }
    }
    let at = out.len();
    let plain = encode_plain(strings, tier, out);
    let room = out.len() - at;
    match dictionary {
        Some((codec, bytes)) if bytes.len() < if small { room } else { room + room / 32 } => {
            out.truncate(at);
            out.extend_from_slice(&bytes);
            codec
        }
        _ => plain,
    }
}

/// One string that is large: it is held no more often than it must be.
fn encode_large(strings: Strings, tier: Tier, out: &mut Vec<u8>) -> u8 {
    put_lengths(strings.iter().map(<[u8]>::len), tier, out);
    let mut frame = Vec::new();
    put_frame(strings.data, tier, &mut frame);
    let (codec, bytes) = if frame.len() < strings.data.len() - strings.data.len() / 20 {
        (id::BYTES_ZSTD, frame.as_slice())
    } else {
        frame = Vec::new();
        (id::BYTES_RAW, strings.data)
    };
    out.reserve_exact(bytes.len());
    out.extend_from_slice(bytes);
    drop(frame);
    codec
}

fn encode_plain(strings: Strings, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    put_lengths(strings.iter().map(<[u8]>::len), tier, out);
    let lengths = out.len() - at;
    out.extend_from_slice(strings.data);
    if strings.data.len() < SMALLEST_FRAME {
        return id::BYTES_RAW;
    }
    let mut best = (id::BYTES_RAW, out.len() - at - strings.data.len() / 20);
    let mut offer = |codec, lengths: usize, frame: &[u8]| {
        if lengths + frame.len() < best.1 {
            out.truncate(at + lengths);
            out.extend_from_slice(frame);
            best = (codec, lengths + frame.len());
        }
    };
    let frame = |bytes: &[u8]| {
        let mut frame = Vec::new();
        put_frame(bytes, tier, &mut frame);
        frame
    };
    let rows = strings.ends.len();
    if strings.data.len() <= rows * SHORT_BYTES {
        if let Some(width) = common_length(strings) {
            let planes = planes::of_bytes(strings.data, width);
            offer(id::BYTES_PLANES, lengths, &frame(&planes));
        }
        offer(id::BYTES_ZSTD, lengths, &frame(strings.data));
        // Last, because it leaves nothing of the lengths.
        offer(id::BYTES_PAIRED, 0, &frame(&paired(strings)));
    } else {
        offer(id::BYTES_ZSTD, lengths, &frame(strings.data));
    }
    best.0
}

/// Strings that are longer on average care little for their lengths.
const SHORT_BYTES: usize = 128;

/// The length of all strings, unless they differ or are empty.
fn common_length(strings: Strings) -> Option<usize> {
    let width = *strings.ends.first()? as usize;
    let even = || strings.iter().all(|string| string.len() == width);
    (width > 0 && even()).then_some(width)
}

/// Each length in front of its string.
fn paired(strings: Strings) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(strings.data.len() + 2 * strings.ends.len());
    for string in strings.iter() {
        put_varint(&mut bytes, string.len() as u64);
        bytes.extend_from_slice(string);
    }
    bytes
}

/// Fewer bytes are not worth a frame.
pub const SMALLEST_FRAME: usize = 64;

/// More bytes, which can only be a single string, are not compressed twice: it would take too long in one piece.
const LARGEST_TRIAL: usize = 2 << 20;

/// Appends a frame of strings. Higher levels take more time and are not always smaller.
pub fn put_frame(bytes: &[u8], tier: Tier, out: &mut Vec<u8>) {
    let at = out.len();
    zstd::compress(bytes, 1, out);
    if tier == Tier::Merged(Point::Small) && bytes.len() <= LARGEST_TRIAL {
        let mut other = Vec::new();
        zstd::compress(bytes, 7, &mut other);
        if other.len() < out.len() - at {
            out.truncate(at);
            out.extend_from_slice(&other);
        }
    }
}

fn put_lengths(lengths: impl Iterator<Item = usize>, tier: Tier, out: &mut Vec<u8>) {
    let lengths: Vec<i64> = lengths.map(|l| l as i64).collect();
    let mut stream = Vec::new();
    int::encode(&lengths, tier, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
}

/// Words in order of first appearance, if they are at most half of the strings.
fn encode_dictionary(strings: Strings, tier: Tier) -> Option<(u8, Vec<u8>)> {
    let found = words::find(
        strings.iter(),
        16 + strings.ends.len() / 2,
        strings.data.len(),
    )?;
    let mut out = Vec::new();
    put_varint(&mut out, found.words.len() as u64);
    put_lengths(found.words.iter().map(|w| w.len()), tier, &mut out);
    let words = found.words.concat();
    let mut frame = Vec::new();
    if words.len() >= SMALLEST_FRAME {
        put_frame(&words, tier, &mut frame);
    }
    // Words are expanded once a block: the frame costs next to no time.
    let codec = if !frame.is_empty() && frame.len() + 2 < words.len() {
        put_varint(&mut out, frame.len() as u64);
        out.extend_from_slice(&frame);
        id::BYTES_DICT_ZSTD
    } else {
        out.extend_from_slice(&words);
        id::BYTES_DICT
    };
    int::encode(&found.codes, tier, &mut out);
    Some((codec, out))
}

/// Reads `n` strings of a body that takes up the rest of `reader`; `ends` and `data` are cleared first.
pub fn decode(
    codec: u8,
    mut reader: Reader,
    n: usize,
    ends: &mut Vec<u32>,
    data: &mut Vec<u8>,
) -> Result<()> {
    ends.clear();
    data.clear();
    match codec {
        id::BYTES_RAW => {
            let total = take_ends(&mut reader, n, ends)?;
            data.extend_from_slice(reader.take(total)?);
            reader.finish()
        }
        id::BYTES_ZSTD => {
            let total = take_ends(&mut reader, n, ends)?;
            zstd::decompress(&mut reader, total, data)?;
            if data.len() != total {
                return Err(Corrupt::new("a frame is shorter than its strings"));
            }
            Ok(())
        }
        id::BYTES_PAIRED => decode_paired(reader, n, ends, data),
        id::BYTES_PLANES => {
            take_ends(&mut reader, n, ends)?;
            let width = ends.first().map_or(0, |&end| end as usize);
            if (1..)
                .zip(ends.iter())
                .any(|(row, &end)| end as usize != row * width)
            {
                return Err(Corrupt::new("strings in planes differ in length"));
            }
            planes::decode_bytes(&mut reader, width, n, data)
        }
        id::BYTES_DICT | id::BYTES_DICT_ZSTD => {
            decode_dictionary(reader, codec == id::BYTES_DICT_ZSTD, n, ends, data)
        }
        _ => Err(Corrupt::new("unknown codec of byte strings")),
    }
}

fn decode_paired(
    mut reader: Reader,
    n: usize,
    ends: &mut Vec<u32>,
    data: &mut Vec<u8>,
) -> Result<()> {
    let mut bytes = Vec::new();
    zstd::decompress(&mut reader, MAX_BLOCK_BYTES, &mut bytes)?;
    let mut pairs = Reader::new(&bytes);
    data.reserve(bytes.len().saturating_sub(n));
    for _ in 0..n {
        let length = pairs.varint_up_to(pairs.len())?;
        data.extend_from_slice(pairs.take(length)?);
        ends.push(data.len() as u32);
    }
    pairs.finish()
}

/// Lengths to ends; returns the last end.
fn take_ends(reader: &mut Reader, n: usize, ends: &mut Vec<u32>) -> Result<usize> {
    let bytes = reader.varint_up_to(reader.len())?;
    let mut lengths = Vec::new();
    int::decode(reader.take(bytes)?, n, &mut lengths)?;
    let mut end = 0usize;
    ends.reserve(n);
    for length in lengths {
        end = usize::try_from(length)
            .ok()
            .and_then(|l| end.checked_add(l))
            .filter(|&e| e <= MAX_BLOCK_BYTES)
            .ok_or(Corrupt::new("a string is longer than its block may be"))?;
        ends.push(end as u32);
    }
    Ok(end)
}

fn decode_dictionary(
    mut reader: Reader,
    framed: bool,
    n: usize,
    ends: &mut Vec<u32>,
    data: &mut Vec<u8>,
) -> Result<()> {
    let count = reader.varint_up_to(16 + n)?;
    let mut word_ends = Vec::new();
    let total = take_ends(&mut reader, count, &mut word_ends)?;
    let mut frame = Vec::new();
    let words = if framed {
        let bytes = reader.varint_up_to(reader.len())?;
        zstd::decompress(&mut Reader::new(reader.take(bytes)?), total, &mut frame)?;
        &frame
    } else {
        reader.take(total)?
    };
    if words.len() != total {
        return Err(Corrupt::new("a frame is shorter than its strings"));
    }
    let mut codes = Vec::new();
    int::decode(reader.rest(), n, &mut codes)?;
    let table = Table::new(
        Strings {
            ends: &word_ends,
            data: words,
        }
        .iter()
        .collect(),
    );
    table
        .expand(&codes, MAX_BLOCK_BYTES, ends, data)
        .ok_or(Corrupt::new("a code is not in its dictionary"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(strings: &[&str]) -> (u8, usize) {
        let data = strings.concat().into_bytes();
        let ends: Vec<u32> = strings
            .iter()
            .scan(0, |end, s| {
                *end += s.len() as u32;
                Some(*end)
            })
            .collect();
        let mut out = Vec::new();
        let codec = encode(
            Strings {
                ends: &ends,
                data: &data,
            },
            Tier::Fresh,
            &mut out,
        );
        let (mut back_ends, mut back) = (vec![9], vec![9]);
        decode(
            codec,
            Reader::new(&out),
            strings.len(),
            &mut back_ends,
            &mut back,
        )
        .unwrap();
        assert_eq!((back_ends, back), (ends, data));
        (codec, out.len())
    }

    #[test]
    fn labels_go_to_a_dictionary_and_prose_to_zstd() {
        let labels: Vec<&str> = (0..1000)
            .map(|i| ["running", "stopped", "failed"][((i * 40503) >> 5) % 7 % 3])
            .collect();
        let (codec, bytes) = round_trip(&labels);
        assert_eq!(codec, id::BYTES_DICT);
        assert!(bytes < 320);
        let lines: Vec<String> = (0..500)
            .map(|i| format!("request {i} took {} ms", i * 7 % 97))
            .collect();
        let (codec, _) = round_trip(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(codec, id::BYTES_ZSTD);
        round_trip(&[]);
        round_trip(&["", "", "x"]);
    }
}
