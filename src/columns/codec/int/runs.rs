//! Run lengths: one value and one length per run, each list a stream of integers of its own. Wins on
//! values that change rarely (states, flags), and over deltas on a clock with gaps.
//!
//! Bytes: runs (varint), then values and lengths - 1, interleaved as two streams: byte length of the
//! first (varint), first, second.

use super::{decode_flat, encode_flat};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Splits into values and lengths - 1.
fn split(values: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let (mut heads, mut lengths) = (Vec::new(), Vec::new());
    for run in values.chunk_by(|a, b| a == b) {
        heads.push(run[0]);
        lengths.push(run.len() as i64 - 1);
    }
    (heads, lengths)
}

pub fn encode(values: &[i64], out: &mut Vec<u8>) {
    let (heads, lengths) = split(values);
    put_varint(out, heads.len() as u64);
    let mut stream = Vec::new();
    encode_flat(&heads, &mut stream);
    put_varint(out, stream.len() as u64);
    out.extend_from_slice(&stream);
    encode_flat(&lengths, out);
}

pub fn decode(reader: &mut Reader, out: &mut [i64]) -> Result<()> {
    let runs = reader.varint_up_to(out.len())?;
    let bytes = reader.varint_up_to(reader.len())?;
    let mut heads = vec![0; runs];
    let mut lengths = vec![0; runs];
    decode_flat(reader.take(bytes)?, &mut heads)?;
    decode_flat(reader.take(reader.len())?, &mut lengths)?;
    let mut rest = out;
    for (&value, &length) in heads.iter().zip(&lengths) {
        let length = usize::try_from(length).ok().and_then(|l| l.checked_add(1));
        let (run, tail) = length
            .and_then(|l| std::mem::take(&mut rest).split_at_mut_checked(l))
            .ok_or(Corrupt::new("runs are longer than their block"))?;
        run.fill(value);
        rest = tail;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Corrupt::new("runs are shorter than their block"))
    }
}
