//! Bit-packing: `width` low bits of every value, 0 to 64.
//!
//! Whole groups of 1,024 values lie in the FastLanes order of 64-bit lanes (Afroozeh and Boncz, "The
//! FastLanes Compression Layout", VLDB 2023; crate `fastlanes`), which any SIMD width unpacks without
//! shuffles. The rest of fewer than 1,024 values follows in plain order, least significant bit first.

use fastlanes::BitPacking;
#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use crate::error::{Corrupt, Result};
use crate::wire::Reader;
use std::ops::Range;

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
    pack_plain(tail, width, out);
}

/// Appends the low `width` bits of each value, 1 to 64, in plain order.
pub fn pack_plain(values: &[u64], width: u8, out: &mut Vec<u8>) {
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
    unpack_part(reader, width, out.len(), 0..out.len(), 0, out)
}

/// Fills `out` with values `rows` of `n` of `width` bits read from `reader`, plus `base` modulo 2^64. `rows` begin with a group, and end with one or with the
/// last value.
pub fn unpack_part(
    reader: &mut Reader,
    width: u8,
    n: usize,
    rows: Range<usize>,
    base: u64,
    out: &mut [u64],
) -> Result<()> {
    let is_whole = |row: usize| row.is_multiple_of(GROUP);
    assert!(
        is_whole(rows.start) && (is_whole(rows.end) || rows.end == n) && out.len() == rows.len(),
        "BUG: {rows:?} of {n} values are no whole groups"
    );
    let bytes = packed(reader, width, n)?;
    if width == 0 {
        out.fill(base);
        return Ok(());
    }
    let bytes = &bytes[rows.start / GROUP * group_bytes(width)..];
    let (outs, rest) = out.as_chunks_mut::<GROUP>();
    let (groups, tail) = bytes.split_at(outs.len() * group_bytes(width));
    for (out, bytes) in outs.iter_mut().zip(groups.chunks_exact(group_bytes(width))) {
        unpack_group(bytes, width as usize, base, out);
    }
    if !rest.is_empty() {
        unpack_tail(tail, width, rest);
        rest.iter_mut()
            .for_each(|value| *value = value.wrapping_add(base));
    }
    Ok(())
}

/// The sum of `n` values of `width` bits read from `reader`, without writing them anywhere.
pub fn sum(reader: &mut Reader, width: u8, n: usize) -> Result<u128> {
    let bytes = packed(reader, width, n)?;
    if width == 0 {
        return Ok(0);
    }
    let (groups, tail) = bytes.split_at(n / GROUP * GROUP / 8 * width as usize);
    let mut total = 0;
    for bytes in groups.chunks_exact(group_bytes(width)) {
        total += match width {
            0..=WIDEST_SUM => u128::from(sum_group(bytes, width as usize)),
            _ => {
                let mut values = [0; GROUP];
                unpack_group(bytes, width as usize, 0, &mut values);
                add(&values)
            }
        };
    }
    if !tail.is_empty() {
        let mut values = [0; GROUP];
        let values = &mut values[..n % GROUP];
        unpack_tail(tail, width, values);
        total += add(values);
    }
    Ok(total)
}

/// Value `at` of `n` values of `width` bits read from `reader`.
pub fn value(reader: &mut Reader, width: u8, n: usize, at: usize) -> Result<u64> {
    let bytes = packed(reader, width, n)?;
    Ok(match width {
        0 => 0,
        _ => value_at(bytes, width, n, at),
    })
}

/// The sum, modulo 2^64, of values 1 to `last` of `n` values of `width` bits read from `reader`.
pub fn sum_behind_first(reader: &mut Reader, width: u8, n: usize, last: usize) -> Result<u64> {
    let bytes = packed(reader, width, n)?;
    if width == 0 || last == 0 {
        return Ok(0);
    }
    let count = last + 1;
    let (groups, tail) = bytes.split_at(n / GROUP * GROUP / 8 * width as usize);
    let mut total = 0u64;
    let whole = count / GROUP;
    for (at, bytes) in groups.chunks_exact(group_bytes(width)).enumerate() {
        if at < whole && width <= WIDEST_SUM {
            total = total.wrapping_add(sum_group(bytes, width as usize));
        } else if at <= whole {
            let mut values = [0; GROUP];
            unpack_group(bytes, width as usize, 0, &mut values);
            let wanted = &values[..(count - at * GROUP).min(GROUP)];
            total = total.wrapping_add(add(wanted) as u64);
        }
    }
    if let Some(rest @ 1..) = count.checked_sub(n / GROUP * GROUP) {
        total = total.wrapping_add(sum_tail(tail, width, rest));
    }
    Ok(total.wrapping_sub(value_at(bytes, width, n, 0)))
}

/// The sum, modulo 2^64, of the first `count` values in plain order, below 1,024.
fn sum_tail(bytes: &[u8], width: u8, count: usize) -> u64 {
    if width <= WIDEST_COUNTED {
        return count_tail(bytes, width as usize, count);
    }
    let mut values = [0; GROUP];
    let values = &mut values[..count];
    unpack_tail(bytes, width, values);
    add(values) as u64
}

/// Up to so many bits it takes less to count the ones of each bit than to unpack.
const WIDEST_COUNTED: u8 = 12;

/// The same: each bit of the values is counted by itself, in as many of them as a word has.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+popcnt+avx2+bmi2", "x86_64+popcnt"))
)]
fn count_tail(bytes: &[u8], width: usize, count: usize) -> u64 {
    // The lowest bit of each value in a word that begins with one.
    let mut lowest = 0u64;
    for bit in (0..64).step_by(width) {
        lowest |= 1 << bit;
    }
    let mut ones = [0u64; WIDEST_COUNTED as usize];
    // Which bit of a value the word begins with.
    let mut first = 0;
    let mut left = count * width;
    for bytes in bytes[..left.div_ceil(8)].chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mut word = u64::from_le_bytes(word);
        if left < 64 {
            word &= (1 << left) - 1;
        }
        left = left.saturating_sub(64);
        let mut bit = first;
        for shift in 0..width {
            ones[bit] += u64::from((word & lowest << shift).count_ones());
            bit = if bit + 1 == width { 0 } else { bit + 1 };
        }
        first = (first + 64) % width;
    }
    let weighed = ones.iter().enumerate().map(|(bit, ones)| ones << bit);
    weighed.fold(0, u64::wrapping_add)
}

/// Value `at` of `n` values of 1 to 64 bits.
fn value_at(bytes: &[u8], width: u8, n: usize, at: usize) -> u64 {
    let (group, place) = (at / GROUP, at % GROUP);
    let width_bits = width as usize;
    if group == n / GROUP {
        return plain_value(&bytes[group * group_bytes(width)..], width_bits, place);
    }
    let bytes = &bytes[group * group_bytes(width)..][..group_bytes(width)];
    // The inverse of `ROW_STARTS`: the order of the eights is its own.
    let (lane, sixteen) = (place % LANES, place / LANES);
    let row = EIGHTS[sixteen % 8] * 8 + sixteen / 8;
    row_values(bytes, width_bits, row)[lane]
}

/// Value `i` in plain order.
fn plain_value(bytes: &[u8], width: usize, i: usize) -> u64 {
    let bit = i * width;
    let tail = &bytes[bit / 8..];
    let mut word = [0u8; 16];
    let len = tail.len().min(16);
    word[..len].copy_from_slice(&tail[..len]);
    (u128::from_le_bytes(word) >> (bit % 8)) as u64 & u64::MAX >> (64 - width)
}

fn add(values: &[u64]) -> u128 {
    values.iter().map(|value| u128::from(*value)).sum()
}

/// The bytes of `n` values.
fn packed<'a>(reader: &mut Reader<'a>, width: u8, n: usize) -> Result<&'a [u8]> {
    if width > 64 {
        return Err(Corrupt::new("a bit width is above 64"));
    }
    reader.take(packed_bytes(n, width))
}

fn group_bytes(width: u8) -> usize {
    GROUP / 8 * width as usize
}

/// Lanes of a group, and the rows of values that each of them holds.
const LANES: usize = 16;
const ROWS: usize = 64;

/// The order of FastLanes in eights of rows.
const EIGHTS: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// Where the values of a row belong: the order of FastLanes in eights of rows, then 128 apart.
const ROW_STARTS: [usize; ROWS] = {
    let mut starts = [0; ROWS];
    let mut row = 0;
    while row < ROWS {
        starts[row] = EIGHTS[row / 8] * 16 + row % 8 * 128;
        row += 1;
    }
    starts
};

/// The crate's kernels are unrolled per width and compiled for the baseline; this loop shifts all lanes by
/// the same runtime amount, and the vector units of the processor at hand do the rest.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn unpack_group(bytes: &[u8], width: usize, base: u64, out: &mut [u64; GROUP]) {
    for (row, start) in ROW_STARTS.iter().enumerate() {
        let mut values = row_values(bytes, width, row);
        for value in &mut values {
            *value = value.wrapping_add(base);
        }
        out[*start..start + LANES].copy_from_slice(&values);
    }
}

/// Values of so many bits add up to 64 bits in a whole group at most.
const WIDEST_SUM: u8 = 54;

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn sum_group(bytes: &[u8], width: usize) -> u64 {
    let mut sums = [0u64; LANES];
    for row in 0..ROWS {
        for (sum, value) in sums.iter_mut().zip(row_values(bytes, width, row)) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

/// The sixteen values of a row. (Plain loops: closures of array methods are not always inlined, and what
/// is not inlined into a kernel is compiled for the baseline.)
#[inline(always)]
fn row_values(bytes: &[u8], width: usize, row: usize) -> [u64; LANES] {
    let (word, shift) = (row * width / 64, row * width % 64);
    let mask = u64::MAX >> (64 - width);
    let mut values = lane_words(bytes, word);
    for value in &mut values {
        *value >>= shift;
    }
    if shift + width > 64 {
        let next = lane_words(bytes, word + 1);
        for lane in 0..LANES {
            values[lane] |= next[lane] << (64 - shift);
        }
    }
    for value in &mut values {
        *value &= mask;
    }
    values
}

/// Word `word` of every lane.
#[inline(always)]
fn lane_words(bytes: &[u8], word: usize) -> [u64; LANES] {
    let bytes = bytes[word * LANES * 8..][..LANES * 8].as_chunks::<8>().0;
    let mut words = [0; LANES];
    for lane in 0..LANES {
        words[lane] = u64::from_le_bytes(bytes[lane]);
    }
    words
}

/// Values of up to 57 bits in plain order, to be read one by one.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    bytes: &'a [u8],
    /// The last eight bytes, with zeros in front of fewer.
    last: u64,
    width: usize,
    mask: u64,
}

impl<'a> Plain<'a> {
    /// Takes `n` values from `reader`.
    pub fn take(reader: &mut Reader<'a>, width: u8, n: usize) -> Result<Plain<'a>> {
        if width > 57 {
            return Err(Corrupt::new("a bit width is above 57"));
        }
        let width = width as usize;
        let bytes = reader.take((n * width).div_ceil(8))?;
        let last = bytes.iter().rev().take(8).rev();
        Ok(Plain {
            bytes,
            last: last.fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
            width,
            mask: (1 << width) - 1,
        })
    }

    /// Value `i`; zeros follow the last one.
    #[inline(always)]
    pub fn get(&self, i: usize) -> u64 {
        let (byte, bit) = (i * self.width / 8, i * self.width % 8);
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("BUG: eight bytes")),
            None => {
                let missing = byte + 8 - self.bytes.len();
                self.last.checked_shr(8 * missing as u32).unwrap_or(0)
            }
        };
        word >> bit & self.mask
    }
}

fn unpack_tail(bytes: &[u8], width: u8, out: &mut [u64]) {
    let width = width as usize;
    // Where a word is there to load at once: one of eight bytes holds any value of up to 57 bits.
    let fast = match (bytes.len(), width) {
        (16.., 58..) => (bytes.len() - 16) * 8 / width,
        (8.., ..58) => (bytes.len() - 8) * 8 / width + 1,
        _ => 0,
    };
    let (loaded, rest) = out.split_at_mut(fast.min(out.len()));
    let mask = u64::MAX >> (64 - width);
    for (i, value) in loaded.iter_mut().enumerate() {
        let (byte, shift) = (i * width / 8, i * width % 8);
        *value = mask
            & if width < 58 {
                load::<8>(bytes, byte) as u64 >> shift
            } else {
                (load::<16>(bytes, byte) >> shift) as u64
            };
    }
    for (i, value) in rest.iter_mut().enumerate() {
        *value = plain_value(bytes, width, fast + i);
    }
}

/// `N` bytes from `at` on, as an integer.
#[inline(always)]
fn load<const N: usize>(bytes: &[u8], at: usize) -> u128 {
    let mut word = [0u8; 16];
    word[..N].copy_from_slice(&bytes[at..at + N]);
    u128::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FORMAT.md, word for word.
    fn pack_group_slowly(values: &[u64], width: usize) -> Vec<u8> {
        const FL_ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
        let mut words = vec![0u64; 16 * width];
        for lane in 0..16 {
            for row in 0..64 {
                let value = values[FL_ORDER[row / 8] * 16 + row % 8 * 128 + lane];
                for bit in (0..width).filter(|bit| value >> bit & 1 != 0) {
                    let at = row * width + bit;
                    words[16 * (at / 64) + lane] |= 1 << (at % 64);
                }
            }
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_group_lies_as_the_format_says() {
        for width in [1, 3, 8, 31, 33, 63, 64] {
            let values: Vec<u64> = (0..1024u64)
                .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - width))
                .collect();
            let mut bytes = Vec::new();
            pack(&values, width as u8, &mut bytes);
            assert_eq!(bytes, pack_group_slowly(&values, width), "width {width}");
        }
    }

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
                let total = sum(&mut Reader::new(&bytes), width, n).unwrap();
                assert_eq!(total, values.iter().map(|v| u128::from(*v)).sum());
                for last in (0..n).step_by(1 + n / 40) {
                    let read = value(&mut Reader::new(&bytes), width, n, last).unwrap();
                    assert_eq!(read, values[last], "width {width}, {last} of {n}");
                    let sum = sum_behind_first(&mut Reader::new(&bytes), width, n, last).unwrap();
                    let expected = values[1..=last]
                        .iter()
                        .fold(0, |a: u64, b| a.wrapping_add(*b));
                    assert_eq!(sum, expected, "width {width}, to {last} of {n}");
                }
                if !bytes.is_empty() {
                    assert!(unpack(&mut Reader::new(&bytes[1..]), width, &mut back).is_err());
                }
            }
        }
    }
}
