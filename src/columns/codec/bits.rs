//! Booleans and validity: a bitmap, or the lengths of alternating runs where that is shorter. The form is
//! in front, so that a reader that knows the number of rows knows where the bits end.
//!
//! Bytes: 0, bitmap of ceil(n / 8) bytes, least significant bit first; or 1, runs as varints, the first
//! of `true` (and possibly 0 long).

use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, varint_bytes, Reader};

const BITMAP: u8 = 0;
const RUNS: u8 = 1;

pub fn encode(bits: &[bool], out: &mut Vec<u8>) {
    let runs = runs(bits);
    if runs.iter().map(|&r| varint_bytes(r)).sum::<usize>() < bits.len().div_ceil(8) {
        out.push(RUNS);
        runs.iter().for_each(|&r| put_varint(out, r));
        return;
    }
    out.push(BITMAP);
    for eight in bits.chunks(8) {
        out.push(
            eight
                .iter()
                .enumerate()
                .fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i),
        );
    }
}

fn runs(bits: &[bool]) -> Vec<u64> {
    let mut runs = Vec::new();
    if bits.first() == Some(&false) {
        runs.push(0);
    }
    runs.extend(bits.chunk_by(|a, b| a == b).map(|run| run.len() as u64));
    runs
}

/// Reads `n` bits into `out` (cleared first).
pub fn decode(reader: &mut Reader, n: usize, out: &mut Vec<bool>) -> Result<()> {
    out.clear();
    out.reserve(n);
    match reader.u8()? {
        BITMAP => {
            let bytes = reader.take(n.div_ceil(8))?;
            out.extend((0..n).map(|i| bytes[i / 8] >> (i % 8) & 1 != 0));
        }
        RUNS => {
            let mut bit = true;
            while out.len() < n {
                let run = reader.varint_up_to(n - out.len())?;
                if run == 0 && !out.is_empty() {
                    return Err(Corrupt::new("an empty run of bits"));
                }
                out.resize(out.len() + run, bit);
                bit = !bit;
            }
        }
        _ => return Err(Corrupt::new("unknown form of bits")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_come_back() {
        for (bits, bytes) in [
            (vec![], 1),
            (vec![true; 1000], 3),
            (vec![false; 1000], 4),
            ((0..100).map(|i| i % 3 == 0).collect::<Vec<_>>(), 14),
        ] {
            let mut out = Vec::new();
            encode(&bits, &mut out);
            assert_eq!(out.len(), bytes);
            let mut reader = Reader::new(&out);
            let mut back = vec![true; 3];
            decode(&mut reader, bits.len(), &mut back).unwrap();
            assert!(reader.is_empty());
            assert_eq!(back, bits);
        }
    }
}
