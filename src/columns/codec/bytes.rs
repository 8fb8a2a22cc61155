//! Byte strings of any length: a dictionary with a stream of codes (few distinct values: labels, states),
//! lengths and bytes as they are, or lengths and one zstd frame over the bytes (log lines, documents).
//!
//! Bytes: byte length of the integer streams (varint), the streams, then what `codec` says:
//! raw and zstd: lengths as a stream, then the bytes or a frame. Dictionary: number of words (varint),
//! stream of word lengths, words (raw); then the codes as a stream that takes up the rest.

use std::collections::HashMap;

use super::{id, int, zstd, Point, Tier};
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

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let strings = *self;
        (0..self.ends.len()).map(move |i| strings.get(i))
    }
}

/// Appends the body and returns its codec.
pub fn encode(strings: Strings, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    let plain = encode_plain(strings, tier, out);
    if let Some(dictionary) = encode_dictionary(strings, tier, near(out.len() - at, tier)) {
        out.truncate(at);
        out.extend_from_slice(&dictionary);
        return id::BYTES_DICT;
    }
    plain
}

/// What a dictionary may take against `bytes` of the alternative: it decodes many times faster.
pub fn near(bytes: usize, tier: Tier) -> usize {
    if tier == Tier::Merged(Point::Small) {
        bytes
    } else {
        bytes + bytes / 4
    }
}

fn encode_plain(strings: Strings, tier: Tier, out: &mut Vec<u8>) -> u8 {
    put_lengths(strings.iter().map(<[u8]>::len), tier, out);
    let at = out.len();
    // Fresh chunks are written once and merged soon: the fast level is enough for both.
    if strings.data.len() >= 64 {
        zstd::compress(strings.data, 1, out);
        if (out.len() - at) * 20 < strings.data.len() * 19 {
            return id::BYTES_ZSTD;
        }
        out.truncate(at);
    }
    out.extend_from_slice(strings.data);
    id::BYTES_RAW
}

fn put_lengths(lengths: impl Iterator<Item = usize>, tier: Tier, out: &mut Vec<u8>) {
    let lengths: Vec<i64> = lengths.map(|l| l as i64).collect();
    let mut stream = Vec::new();
    int::encode(&lengths, tier, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
}

/// Words in order of first appearance, if that takes fewer than `limit` bytes.
fn encode_dictionary(strings: Strings, tier: Tier, limit: usize) -> Option<Vec<u8>> {
    let mut codes = Vec::with_capacity(strings.ends.len());
    let mut words: Vec<&[u8]> = Vec::new();
    let mut index: HashMap<&[u8], i64> = HashMap::new();
    for string in strings.iter() {
        let code = *index.entry(string).or_insert_with(|| {
            words.push(string);
            words.len() as i64 - 1
        });
        if words.len() > 16 + strings.ends.len() / 2 {
            return None;
        }
        codes.push(code);
    }
    let mut out = Vec::new();
    put_varint(&mut out, words.len() as u64);
    put_lengths(words.iter().map(|w| w.len()), tier, &mut out);
    for word in &words {
        out.extend_from_slice(word);
    }
    int::encode(&codes, tier, &mut out);
    (out.len() < limit).then_some(out)
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
        id::BYTES_DICT => decode_dictionary(reader, n, ends, data),
        _ => Err(Corrupt::new("unknown codec of byte strings")),
    }
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
    n: usize,
    ends: &mut Vec<u32>,
    data: &mut Vec<u8>,
) -> Result<()> {
    let count = reader.varint_up_to(16 + n)?;
    let mut word_ends = Vec::new();
    let total = take_ends(&mut reader, count, &mut word_ends)?;
    let words = Strings {
        ends: &word_ends,
        data: reader.take(total)?,
    };
    let mut codes = Vec::new();
    int::decode(reader.rest(), n, &mut codes)?;
    ends.reserve(n);
    for code in codes {
        let word = usize::try_from(code)
            .ok()
            .filter(|&c| c < count)
            .map(|c| words.get(c))
            .ok_or(Corrupt::new("a code is not in its dictionary"))?;
        if data.len() + word.len() > MAX_BLOCK_BYTES {
            return Err(Corrupt::new("a string is longer than its block may be"));
        }
        data.extend_from_slice(word);
        ends.push(data.len() as u32);
    }
    Ok(())
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
