//! Bit-packing: `width` low bits of every value, 0 to 64.
//!
//! Whole groups of 1,024 values lie in the FastLanes order of 64-bit lanes (Afroozeh and Boncz, "The
//! FastLanes Compression Layout", VLDB 2023; crate `fastlanes`), which any SIMD width unpacks without
//! shuffles. The rest of fewer than 1,024 values follows in plain order, least significant bit first.

use fastlanes::BitPacking;

use crate::error::{Corrupt, Result};
use crate::wire::Reader;

/// Values in one FastLanes group.
pub const GROUP: usize = 1024;

/// Bits needed for `value`.
#[inline]
pub fn bit_width(value: u64) -> u8 {
    (64 - value.leading_zeros()) as u8
}

/// Bytes that `n` values of `width` bits take.
pub fn packed_bytes(n: usize, width: u8) -> usize {
    let (groups, tail) = (n / GROUP, n % GROUP);
    groups * GROUP / 8 * width as usize + (tail * width as usize).div_ceil(8)
}

/// Appends the low `width` bits of each value.
pub fn pack(values: &[u64], width: u8, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let groups = values.chunks_exact(GROUP);
    let tail = groups.remainder();
    let words = GROUP / 64 * width as usize;
    let mut packed = [0u64; GROUP];
    for group in groups {
        // SAFETY: `group` has 1,024 values, the output 1024 * width / 64 words, and width <= 64.
        unsafe { u64::unchecked_pack(width as usize, group, &mut packed[..words]) };
        for word in &packed[..words] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    pack_tail(tail, width, out);
}

fn pack_tail(values: &[u64], width: u8, out: &mut Vec<u8>) {
    let mask = u64::MAX >> (64 - width);
    let (mut pending, mut bits) = (0u128, 0u32);
    for &value in values {
        pending |= u128::from(value & mask) << bits;
        bits += u32::from(width);
        if bits >= 64 {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            bits -= 64;
        }
    }
    out.extend_from_slice(&pending.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// Fills `out` with values of `width` bits read from `reader`.
pub fn unpack(reader: &mut Reader, width: u8, out: &mut [u64]) -> Result<()> {
    if width > 64 {
        return Err(Corrupt::new("a bit width is above 64"));
    }
    let bytes = reader.take(packed_bytes(out.len(), width))?;
    if width == 0 {
        out.fill(0);
        return Ok(());
    }
    let group_bytes = GROUP / 8 * width as usize;
    let mut groups = out.chunks_exact_mut(GROUP);
    let mut packed = [0u64; GROUP];
    let mut at = 0;
    for group in &mut groups {
        let words = &mut packed[..group_bytes / 8];
        for (word, bytes) in words
            .iter_mut()
            .zip(bytes[at..at + group_bytes].chunks_exact(8))
        {
            *word = u64::from_le_bytes(bytes.try_into().expect("BUG: a chunk of eight bytes"));
        }
        // SAFETY: `group` has 1,024 values, the input 1024 * width / 64 words, and width <= 64.
        unsafe { u64::unchecked_unpack(width as usize, words, group) };
        at += group_bytes;
    }
    unpack_tail(&bytes[at..], width, groups.into_remainder());
    Ok(())
}

fn unpack_tail(bytes: &[u8], width: u8, out: &mut [u64]) {
    let width = width as usize;
    let mask = u64::MAX >> (64 - width);
    // Sixteen bytes at a time where they are there, so that a value of any width is in one load.
    let fast = if bytes.len() >= 16 {
        out.len().min((bytes.len() - 16) * 8 / width)
    } else {
        0
    };
    for (i, value) in out[..fast].iter_mut().enumerate() {
        let bit = i * width;
        let word: [u8; 16] = bytes[bit / 8..bit / 8 + 16]
            .try_into()
            .expect("BUG: a slice of sixteen bytes");
        *value = (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask;
    }
    for (i, value) in out.iter_mut().enumerate().skip(fast) {
        let bit = i * width;
        let mut word = [0u8; 16];
        let tail = &bytes[bit / 8..];
        let len = tail.len().min(16);
        word[..len].copy_from_slice(&tail[..len]);
        *value = (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_many_lengths_come_back() {
        for width in 0..=64u8 {
            for n in [0, 1, 7, 64, 1000, 1023, 1024, 1025, 3000] {
                let mask = if width == 0 {
                    0
                } else {
                    u64::MAX >> (64 - width)
                };
                let values: Vec<u64> = (0..n as u64)
                    .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask)
                    .collect();
                let mut bytes = Vec::new();
                pack(&values, width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(n, width));
                let mut back = vec![1; n];
                let mut reader = Reader::new(&bytes);
                unpack(&mut reader, width, &mut back).unwrap();
                assert!(reader.is_empty());
                assert_eq!(back, values, "width {width}, {n} values");
                if !bytes.is_empty() {
                    assert!(unpack(&mut Reader::new(&bytes[1..]), width, &mut back).is_err());
                }
            }
        }
    }
}
