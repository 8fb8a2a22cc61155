//! Byte planes: the first bytes of all words, then the second bytes, and so on, compressed by zstd.
//! Wins where bytes repeat at positions that no model of the numbers explains: repeating reals,
//! sensors with a fixed step in binary, flags packed into a double.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::zstd;
use crate::error::{Corrupt, Result};
use crate::wire::{put_zigzag, unzigzag, zigzag, Reader};

/// Bytes of a word.
const WIDTH: usize = 8;

/// Appends the planes of `words`.
pub fn encode(words: &[u64], level: i32, out: &mut Vec<u8>) {
    let mut planes = vec![0; words.len() * WIDTH];
    split(words, &mut planes);
    zstd::compress(&planes, level, out);
}

/// Fills `words` from the planes of `words.len()` words, which take up the rest of `reader`.
pub fn decode(reader: &mut Reader, words: &mut [u64]) -> Result<()> {
    let mut planes = Vec::new();
    zstd::decompress(reader, words.len() * WIDTH, &mut planes)?;
    if planes.len() != words.len() * WIDTH {
        return Err(Corrupt::new("byte planes do not fit their block"));
    }
    join(&planes, words);
    Ok(())
}

/// Appends integers as planes of no more bytes than they need: offsets from the least (`order` 0) or
/// zigzag differences (`order` 1). Returns the number of planes.
pub fn encode_ints(values: &[i64], order: u8, level: i32, out: &mut Vec<u8>) -> usize {
    let base = if order == 0 {
        values.iter().min()
    } else {
        values.first()
    };
    let base = base.copied().unwrap_or(0);
    let mut words: Vec<u64> = values.iter().map(|v| v.wrapping_sub(base) as u64).collect();
    if order == 1 {
        for i in (1..values.len()).rev() {
            words[i] = zigzag(values[i].wrapping_sub(values[i - 1]));
        }
    }
    let used = words.iter().fold(0, |used, word| used | word);
    let width = (64 - used.leading_zeros()).div_ceil(8) as usize;
    let mut planes = vec![0; words.len() * width];
    split(&words, &mut planes);
    out.push(order << 4 | width as u8);
    put_zigzag(out, base);
    zstd::compress(&planes, level, out);
    width
}

/// Fills `out` with the integers of `out.len()` rows.
pub fn decode_ints(reader: &mut Reader, out: &mut [i64]) -> Result<()> {
    let tag = reader.u8()?;
    let (order, width) = (tag >> 4, (tag & 15) as usize);
    if order > 1 || width > WIDTH {
        return Err(Corrupt::new("unknown shape of byte planes"));
    }
    let base = reader.zigzag()?;
    let mut planes = Vec::new();
    zstd::decompress(reader, out.len() * width, &mut planes)?;
    if planes.len() != out.len() * width {
        return Err(Corrupt::new("byte planes do not fit their block"));
    }
    join_ints(&planes, out);
    if order == 0 {
        out.iter_mut()
            .for_each(|value| *value = value.wrapping_add(base));
    } else {
        let mut value = base;
        for slot in out {
            value = value.wrapping_add(unzigzag(*slot as u64));
            *slot = value;
        }
    }
    Ok(())
}

/// The planes of values of `width` bytes each.
pub fn of_bytes(data: &[u8], width: usize) -> Vec<u8> {
    let rows = data.len() / width;
    let mut planes = vec![0; rows * width];
    for (row, value) in data.chunks_exact(width).enumerate() {
        for (plane, byte) in value.iter().enumerate() {
            planes[plane * rows + row] = *byte;
        }
    }
    planes
}

/// Replaces `data` by `rows` values of `width` bytes, a frame of whose planes takes up the rest of `reader`.
pub fn decode_bytes(
    reader: &mut Reader,
    width: usize,
    rows: usize,
    data: &mut Vec<u8>,
) -> Result<()> {
    let mut planes = Vec::new();
    zstd::decompress(reader, rows * width, &mut planes)?;
    if planes.len() != rows * width {
        return Err(Corrupt::new("byte planes do not fit their block"));
    }
    data.resize(planes.len(), 0);
    for (row, value) in data.chunks_exact_mut(width.max(1)).enumerate() {
        for (plane, byte) in value.iter_mut().enumerate() {
            *byte = planes[plane * rows + row];
        }
    }
    Ok(())
}

#[cfg_attr(not(feature = "portable"), multiversion(targets("x86_64+avx2")))]
fn join_ints(planes: &[u8], out: &mut [i64]) {
    out.fill(0);
    for (plane, bytes) in planes.chunks_exact(out.len().max(1)).enumerate() {
        for (slot, byte) in out.iter_mut().zip(bytes) {
            *slot |= (*byte as i64) << (8 * plane);
        }
    }
}

#[cfg_attr(not(feature = "portable"), multiversion(targets("x86_64+avx2")))]
fn split(words: &[u64], planes: &mut [u8]) {
    for (plane, bytes) in planes.chunks_exact_mut(words.len().max(1)).enumerate() {
        for (byte, word) in bytes.iter_mut().zip(words) {
            *byte = (word >> (8 * plane)) as u8;
        }
    }
}

#[cfg_attr(not(feature = "portable"), multiversion(targets("x86_64+avx2")))]
fn join(planes: &[u8], words: &mut [u64]) {
    let n = words.len();
    let plane = |index: usize| &planes[index * n..(index + 1) * n];
    let (a, b, c, d) = (plane(0), plane(1), plane(2), plane(3));
    let (e, f, g, h) = (plane(4), plane(5), plane(6), plane(7));
    for i in 0..n {
        words[i] = u64::from_le_bytes([a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_short_planes_are_refused() {
        for n in [0, 1, 7, 1024, 5000] {
            let words: Vec<u64> = (0..n as u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 64))
                .collect();
            let mut bytes = Vec::new();
            encode(&words, 3, &mut bytes);
            let mut back = vec![0; n];
            decode(&mut Reader::new(&bytes), &mut back).unwrap();
            assert_eq!(words, back);
            let mut longer = vec![0; n + 1];
            assert!(decode(&mut Reader::new(&bytes), &mut longer).is_err());
        }
    }
}
