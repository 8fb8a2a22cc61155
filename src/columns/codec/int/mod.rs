//! Streams of integers: every type that is an integer, and every list of lengths, codes and mantissas of
//! the other codecs. A stream knows its codec, not its length.
//!
//! The choice needs no trial encoding of whole blocks: one pass counts runs of values and of deltas;
//! a histogram of bit lengths gives the bytes of a patched frame over values, deltas and deltas of
//! deltas. Differences wrap, so that all of i64 is exact.

mod choice;
mod dict;
mod frame;
mod fresh;
mod merged;
mod part;
mod patches;
mod plan;
mod prefix;
mod runs;
mod single;
mod sum;

pub use choice::Guess;
pub use part::{around, decode_part};
pub use single::value_of_body;
pub use sum::sum_body;

use frame::Scale;

use super::{id, pco, planes, zstd, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::{put_zigzag, Reader};
use choice::{Choice, Order, Runs};
use prefix::prefix_sum;

pub use frame::min_max;

/// Appends codec id and body. `values.len()` is not stored. Fresh ones are packed and nothing else: without
/// a stream before, trials would be made for each.
pub fn encode(values: &[i64], tier: Tier, out: &mut Vec<u8>) {
    let mut guess = Guess::default();
    match tier {
        Tier::Fresh => {
            let at = out.len();
            out.push(0);
            out[at] = encode_light(values, true, &mut guess, out);
        }
        Tier::Merged(_) => encode_next(values, tier, &mut guess, out),
    }
}

/// The same with what the stream before chose.
pub fn encode_next(values: &[i64], tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    out[at] = encode_body(values, tier, guess, out);
}

/// Reads `n` values of a stream that takes up all of `bytes`.
pub fn decode(bytes: &[u8], n: usize, out: &mut Vec<i64>) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let codec = reader.u8()?;
    decode_body(codec, reader, n, out)
}

/// Appends the body alone and returns its codec id.
pub fn encode_body(values: &[i64], tier: Tier, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    let codec = encode_light(values, true, guess, out);
    match tier {
        Tier::Fresh => fresh::improve(values, guess, codec, at, out),
        Tier::Merged(point) => merged::improve(values, point, codec, at, out),
    }
}

/// Reads `n` values of a body that takes up the rest of `reader`; `out` is cleared first.
pub fn decode_body(codec: u8, mut reader: Reader, n: usize, out: &mut Vec<i64>) -> Result<()> {
    // What is in there is overwritten.
    out.resize(n, 0);
    match codec {
        id::INT_ZSTD => {}
        id::INT_PLANES => return planes::decode_ints(&mut reader, out),
        id::INT_PCO => return pco::decode(reader.rest(), out),
        id::INT_SCALED => return decode_scaled(reader, out),
        _ => return decode_light(codec, reader, out, true),
    }
    let inner = reader.u8()?;
    let mut bytes = Vec::new();
    zstd::decompress(&mut reader, 64 + n * 24, &mut bytes)?;
    decode_light(inner, Reader::new(&bytes), out, true)
}

/// First value and step of a body of `n` equidistant values that takes up the rest of `reader`; None of other bodies, and where
/// values wrap.
pub fn line(codec: u8, mut reader: Reader, n: usize) -> Result<Option<(i64, i64)>> {
    if codec != id::INT_LINEAR || n == 0 {
        return Ok(None);
    }
    let (first, step) = (reader.zigzag()?, reader.zigzag()?);
    reader.finish()?;
    let last = i128::from(first) + i128::from(step) * (n as i128 - 1);
    Ok(i64::try_from(last).is_ok().then_some((first, step)))
}

/// Byte planes or pcodec of quotients.
fn decode_scaled(mut reader: Reader, out: &mut [i64]) -> Result<()> {
    let base = reader.zigzag()?;
    let gcd = reader.varint()? as i64;
    match reader.u8()? {
        id::INT_PLANES => planes::decode_ints(&mut reader, out)?,
        id::INT_PCO => pco::decode(reader.rest(), out)?,
        _ => return Err(Corrupt::new("unknown codec of scaled integers")),
    }
    let scale = Scale { gcd, base };
    out.iter_mut().for_each(|v| *v = scale.apply(*v));
    Ok(())
}

/// Streams inside runs and dictionaries: with id, never nested further.
fn encode_flat(values: &[i64], out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    out[at] = encode_light(values, false, &mut Guess::default(), out);
}

fn decode_flat(bytes: &[u8], out: &mut [i64]) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let codec = reader.u8()?;
    decode_light(codec, reader, out, false)
}

/// All but what merged blocks try. `nest`: runs and dictionaries are allowed.
fn encode_light(values: &[i64], nest: bool, guess: &mut Guess, out: &mut Vec<u8>) -> u8 {
    let Some(&first) = values.first() else {
        return id::INT_CONST;
    };
    let runs = choice::count_runs(values);
    if runs.values == 1 {
        put_zigzag(out, first);
        return id::INT_CONST;
    }
    let step = values[1].wrapping_sub(first);
    if runs.deltas == 1 {
        put_zigzag(out, first);
        put_zigzag(out, step);
        return id::INT_LINEAR;
    }
    let Choice {
        order,
        frame,
        differences,
    } = choice::choose(values, guess);
    if nest {
        if let Some(codec) = encode_nested(values, runs, frame.bytes, out) {
            return codec;
        }
    }
    match order {
        Order::Values => {
            frame::encode(values, &frame, out);
            if frame.packed {
                id::INT_PATCHED
            } else {
                id::INT_FRAME
            }
        }
        Order::Deltas => {
            put_zigzag(out, first);
            frame::encode(&differences, &frame, out);
            if frame.packed {
                id::INT_PATCHED_DELTA
            } else {
                id::INT_DELTA
            }
        }
        Order::Deltas2 => {
            put_zigzag(out, first);
            put_zigzag(out, step);
            frame::encode(&differences, &frame, out);
            if frame.packed {
                id::INT_PATCHED_DELTA2
            } else {
                id::INT_DELTA2
            }
        }
    }
}

/// Runs, runs of deltas, dictionary: the smallest, if it takes fewer than `limit` bytes.
fn encode_nested(values: &[i64], runs: Runs, limit: usize, out: &mut Vec<u8>) -> Option<u8> {
    let mut best: Option<(u8, Vec<u8>)> = None;
    let room = |best: &Option<(u8, Vec<u8>)>| best.as_ref().map_or(limit, |b| b.1.len());
    // A run takes at least two bytes, or a bit or two in long lists of them.
    if runs.values <= values.len() / 3 && runs.values / 2 < limit {
        let mut bytes = Vec::new();
        runs::encode(values, &mut bytes);
        if bytes.len() < limit {
            best = Some((id::INT_RUNS, bytes));
        }
    }
    if runs.deltas <= values.len() / 3 && runs.deltas / 2 < limit {
        let mut bytes = Vec::new();
        put_zigzag(&mut bytes, values[0]);
        runs::encode(&choice::differences(values, 0)[1..], &mut bytes);
        if bytes.len() < room(&best) {
            best = Some((id::INT_DELTA_RUNS, bytes));
        }
    }
    if let Some(distinct) = dict::distinct(values, room(&best)) {
        let mut bytes = Vec::new();
        dict::encode(values, &distinct, &mut bytes);
        if bytes.len() < room(&best) {
            best = Some((id::INT_DICT, bytes));
        }
    }
    let (codec, bytes) = best?;
    out.extend_from_slice(&bytes);
    Some(codec)
}

fn decode_light(codec: u8, mut reader: Reader, out: &mut [i64], nest: bool) -> Result<()> {
    if out.is_empty() {
        return reader.finish();
    }
    let packed = codec >= id::INT_PATCHED;
    match codec {
        id::INT_CONST => out.fill(reader.zigzag()?),
        id::INT_LINEAR => {
            let (first, step) = (reader.zigzag()?, reader.zigzag()?);
            for (i, value) in out.iter_mut().enumerate() {
                *value = first.wrapping_add(step.wrapping_mul(i as i64));
            }
        }
        id::INT_FRAME | id::INT_PATCHED => frame::decode(&mut reader, packed, out)?,
        id::INT_DELTA | id::INT_PATCHED_DELTA => {
            let first = reader.zigzag()?;
            let scale = frame::decode_offsets(&mut reader, packed, out)?;
            prefix_sum(first, out, scale);
        }
        id::INT_DELTA2 | id::INT_PATCHED_DELTA2 => {
            let (first, step) = (reader.zigzag()?, reader.zigzag()?);
            let scale = frame::decode_offsets(&mut reader, packed, out)?;
            double_prefix_sum(first, step, out, |bend| scale.apply(bend));
        }
        id::INT_RUNS if nest => return runs::decode(&mut reader, out),
        id::INT_DELTA_RUNS if nest => {
            let first = reader.zigzag()?;
            runs::decode(&mut reader, &mut out[1..])?;
            prefix_sum(first, out, Scale { gcd: 1, base: 0 });
            return Ok(());
        }
        id::INT_DICT if nest => dict::decode(&mut reader, out)?,
        _ => return Err(Corrupt::new("unknown codec of integers")),
    }
    reader.finish()
}

/// Deltas of deltas to values; slots 0 and 1 come from `first` and `step`.
#[inline]
fn double_prefix_sum(first: i64, step: i64, out: &mut [i64], scale: impl Fn(i64) -> i64) {
    let (mut value, mut delta) = (first, step);
    out[0] = first;
    if let Some(second) = out.get_mut(1) {
        value = value.wrapping_add(delta);
        *second = value;
    }
    for slot in out.iter_mut().skip(2) {
        delta = delta.wrapping_add(scale(*slot));
        value = value.wrapping_add(delta);
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    fn round_trip(values: &[i64]) -> Vec<(u8, usize)> {
        [Tier::Fresh, Tier::Merged(Point::Small)]
            .into_iter()
            .map(|tier| {
                let mut bytes = Vec::new();
                encode(values, tier, &mut bytes);
                let mut back = Vec::new();
                decode(&bytes, values.len(), &mut back).unwrap();
                assert_eq!(back, values);
                (bytes[0], bytes.len())
            })
            .collect()
    }

    /// splitmix64
    fn noise(i: i64) -> i64 {
        let mut z = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) as i64
    }

    /// Random steps of up to `mask`, the same for `hold` values.
    fn walk(hold: i64, mask: i64) -> Vec<i64> {
        (0..1024)
            .scan(0, |sum, i| {
                *sum += noise(i / hold) & mask;
                Some(*sum)
            })
            .collect()
    }

    #[test]
    fn a_line_is_told_without_its_values() {
        let line_of = |values: &[i64]| {
            let mut bytes = Vec::new();
            encode(values, Tier::Fresh, &mut bytes);
            line(bytes[0], Reader::new(&bytes[1..]), values.len()).unwrap()
        };
        assert_eq!(line_of(&[5, 15, 25, 35]), Some((5, 10)));
        assert_eq!(line_of(&[35, 25, 15]), Some((35, -10)));
        assert_eq!(line_of(&[5, 15, 25, 36]), None);
        // These wrap.
        assert_eq!(line_of(&[i64::MAX - 1, i64::MIN + 8, i64::MIN + 18]), None);
        assert!(line(id::INT_LINEAR, Reader::new(&[1]), 3).is_err());
    }

    #[test]
    fn each_pattern_finds_its_codec() {
        let n = 1024;
        let cases: [(u8, usize, Vec<i64>); 7] = [
            (id::INT_CONST, 4, vec![7777; n]),
            (
                id::INT_LINEAR,
                12,
                (0..n as i64)
                    .map(|i| 1_700_000_000_000 + i * 10_000)
                    .collect(),
            ),
            (
                id::INT_RUNS,
                80,
                (0..n as i64).map(|i| noise(i / 50) % 1000).collect(),
            ),
            (
                id::INT_FRAME,
                800,
                (0..n as i64).map(|i| noise(i) & 63).collect(),
            ),
            (id::INT_DELTA, 800, walk(1, 31)),
            (
                id::INT_DICT,
                290,
                (0..n as i64)
                    .map(|i| [5, 1 << 40, 12_345_677][(noise(i) & 3) as usize % 3])
                    .collect(),
            ),
            (id::INT_DELTA_RUNS, 90, walk(40, 255)),
        ];
        for (codec, limit, values) in cases {
            let (found, bytes) = round_trip(&values)[0];
            assert_eq!(found, codec);
            assert!(bytes <= limit, "codec {codec:#x} took {bytes} bytes");
        }
    }

    #[test]
    fn extremes_and_short_lists_come_back() {
        round_trip(&[]);
        round_trip(&[i64::MIN]);
        round_trip(&[i64::MIN, i64::MAX]);
        round_trip(&[i64::MAX, i64::MIN, 0, -1, i64::MAX]);
        round_trip(&[0, 0, 1_000_000_000_000_000_000, 10, 30, 0]);
        let mixed: Vec<i64> = (0..3000).map(noise).collect();
        round_trip(&mixed);
        round_trip(&mixed[..1024]);
    }

    #[test]
    fn a_few_outliers_cost_a_few_bytes() {
        let mut values: Vec<i64> = (0..1024).map(|i| noise(i) & 15).collect();
        values[7] = i64::MIN;
        values[8] = i64::MAX;
        values[100] = i64::MAX / 3;
        values[900] = -5_000_000;
        let (_, bytes) = round_trip(&values)[0];
        assert!(bytes < 1024, "{bytes}");
    }

    #[test]
    fn a_common_divisor_is_taken_out() {
        let values: Vec<i64> = (0..1024).map(|i| 5 + (noise(i) & 15) * 1000).collect();
        let (_, bytes) = round_trip(&values)[0];
        assert!(bytes < 530, "{bytes}");
    }
}
