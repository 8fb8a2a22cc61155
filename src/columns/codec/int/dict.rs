//! Dictionary: the distinct values in ascending order as a stream of integers, then a packed code per
//! value. Wins on few values that lie far apart.
//!
//! Bytes: distinct values (varint), byte length of their stream (varint), stream, packed codes.

use super::frame::as_unsigned;
use super::{decode_flat, encode_flat};
use crate::codec::pack::{bit_width, pack, unpack};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// More distinct values than this are not looked for.
const LIMIT: usize = 256;

/// The distinct values, sorted, if codes for so many take fewer than `limit` bytes.
pub fn distinct(values: &[i64], limit: usize) -> Option<Vec<i64>> {
    let bits = (limit * 8 / values.len()).min(8);
    let most = (1 << bits).min(limit).min(LIMIT);
    let mut seen: Vec<i64> = Vec::with_capacity(32);
    let mut table = [0u16; 1024];
    for &value in values {
        let mut slot = (value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 54;
        loop {
            match table[slot] {
                0 if seen.len() == most => return None,
                0 => {
                    seen.push(value);
                    table[slot] = seen.len() as u16;
                    break;
                }
                index if seen[index as usize - 1] == value => break,
                _ => slot = (slot + 1) % table.len(),
            }
        }
    }
    seen.sort_unstable();
    Some(seen)
}

fn code_width(distinct: usize) -> u8 {
    bit_width(distinct.saturating_sub(1) as u64)
}

pub fn encode(values: &[i64], distinct: &[i64], out: &mut Vec<u8>) {
    put_varint(out, distinct.len() as u64);
    let mut stream = Vec::new();
    encode_flat(distinct, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
    let codes: Vec<u64> = values
        .iter()
        .map(|v| {
            distinct
                .binary_search(v)
                .expect("BUG: a value is not in its dictionary") as u64
        })
        .collect();
    pack(&codes, code_width(distinct.len()), out);
}

pub fn decode(reader: &mut Reader, out: &mut [i64]) -> Result<()> {
    let count = reader.varint_up_to(LIMIT)?;
    let bytes = reader.varint_up_to(reader.len())?;
    let mut words = [0i64; LIMIT];
    decode_flat(reader.take(bytes)?, &mut words[..count])?;
    let codes = as_unsigned(out);
    unpack(reader, code_width(count), codes)?;
    if codes.iter().any(|&c| c >= count as u64) {
        return Err(Corrupt::new("a code is not in its dictionary"));
    }
    // Codes make place for their values.
    for code in codes {
        *code = words[*code as usize % LIMIT] as u64;
    }
    Ok(())
}
