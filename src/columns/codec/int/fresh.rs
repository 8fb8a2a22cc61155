//! What a fresh block tries beyond packing: zstd's fastest level over the packed bytes, and over byte planes
//! of differences. Fresh blocks are written while somebody waits and read at once and often. So a trial is
//! made only where blocks begin to look different, what it found is used for those that are alike, and it
//! must save one part in twenty, and a bit for each nanosecond that a value takes longer to decode.

use super::merged::{put_scaled, ZSTD_NANOSECONDS};
use super::{frame, id, Guess};
use crate::codec::{planes, zstd};

/// Fewer bytes are not worth a frame.
const SMALLEST: usize = 96;

/// Bytes of a value that zstd may have to decode.
const MOST_BYTES: usize = 2;

const LEAST_SHARE: usize = 20;

const BITS_PER_NANOSECOND: f64 = 1.0;

/// Decode time of a value from planes, beside zstd's.
const JOIN_NANOSECONDS: f64 = 0.4;

/// What the block before gained by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gain {
    #[default]
    None,
    Packed,
    Planes,
}

/// A body that saves enough.
struct Better {
    gain: Gain,
    codec: u8,
    body: Vec<u8>,
    /// With the time to decode it, as bytes.
    cost: f64,
}

/// Replaces the body at `at` of `out` where something else is much smaller; returns its codec.
pub fn improve(values: &[i64], guess: &mut Guess, codec: u8, at: usize, out: &mut Vec<u8>) -> u8 {
    let packed = &out[at..];
    if packed.len() < SMALLEST || packed.len() > values.len() * MOST_BYTES {
        return codec;
    }
    let tries = |gain| guess.is_new() || guess.gain == gain;
    let by_packed = tries(Gain::Packed)
        .then(|| try_packed(values.len(), codec, packed))
        .flatten();
    let bits = packed.len() as f64 * 8.0 / values.len() as f64;
    // The estimate is too high by what zstd finds that repeats.
    let price = BITS_PER_NANOSECOND * planes_nanoseconds(1);
    let promising = || difference_bits(values) + price / 4.0 < bits;
    let by_planes = (tries(Gain::Planes) && promising())
        .then(|| try_planes(values, packed.len()))
        .flatten();
    let better = [by_packed, by_planes].into_iter().flatten();
    let best = better.min_by(|a, b| a.cost.total_cmp(&b.cost));
    guess.gain = best.as_ref().map_or(Gain::None, |best| best.gain);
    let Some(best) = best else {
        return codec;
    };
    out.truncate(at);
    out.extend_from_slice(&best.body);
    best.codec
}

fn try_packed(rows: usize, codec: u8, packed: &[u8]) -> Option<Better> {
    let mut body = vec![codec];
    zstd::compress(packed, 1, &mut body);
    let nanoseconds = packed.len() as f64 * ZSTD_NANOSECONDS;
    better(
        Gain::Packed,
        id::INT_ZSTD,
        body,
        packed.len(),
        nanoseconds / rows as f64,
        rows,
    )
}

fn try_planes(values: &[i64], packed_bytes: usize) -> Option<Better> {
    let rows = values.len();
    let (base, divisor) = frame::common_divisor(values);
    let mut body = Vec::new();
    let (codec, width) = if divisor == 1 {
        (id::INT_PLANES, planes::encode_ints(values, 1, 1, &mut body))
    } else {
        put_scaled(base, divisor, id::INT_PLANES, &mut body);
        let quotients = frame::quotients(values, base, divisor);
        (
            id::INT_SCALED,
            planes::encode_ints(&quotients, 1, 1, &mut body),
        )
    };
    better(
        Gain::Planes,
        codec,
        body,
        packed_bytes,
        planes_nanoseconds(width),
        rows,
    )
}

fn planes_nanoseconds(width: usize) -> f64 {
    width as f64 * ZSTD_NANOSECONDS + JOIN_NANOSECONDS
}

/// The body, if it is so much smaller than the packed one.
fn better(
    gain: Gain,
    codec: u8,
    body: Vec<u8>,
    packed: usize,
    nanoseconds: f64,
    rows: usize,
) -> Option<Better> {
    let cost = body.len() as f64 + rows as f64 * nanoseconds * BITS_PER_NANOSECOND / 8.0;
    let pays = body.len() + packed / LEAST_SHARE < packed && cost < packed as f64;
    pays.then_some(Better {
        gain,
        codec,
        body,
        cost,
    })
}

/// Pairs of neighbours looked at.
const SAMPLE: usize = 192;

/// What an entropy coder needs for a difference of a sample, in bits: the entropy of the lengths, and what is
/// below the highest bit.
fn difference_bits(values: &[i64]) -> f64 {
    let apart = (values.len() / SAMPLE).max(1);
    let differences = || {
        values
            .windows(2)
            .step_by(apart)
            .map(|pair| pair[1].abs_diff(pair[0]))
    };
    let divisor = differences().fold(0, greatest_common_divisor).max(1);
    let mut counts = [0u32; 65];
    differences()
        .for_each(|difference| counts[64 - (difference / divisor).leading_zeros() as usize] += 1);
    let total = f64::from(counts.iter().sum::<u32>());
    let bits: f64 = (0..)
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(length, count)| {
            // One of the bits is the sign.
            f64::from(count) * ((total / f64::from(count)).log2() + f64::from(length))
        })
        .sum();
    bits / total
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 && a != 1 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::super::{decode_body, encode_body, Guess};
    use super::*;
    use crate::codec::Tier;
    use crate::wire::Reader;

    /// splitmix64
    fn noise(i: i64) -> u64 {
        let z = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 27)
    }

    fn codec_of(values: &[i64], guess: &mut Guess) -> u8 {
        let mut bytes = Vec::new();
        let codec = encode_body(values, Tier::Fresh, guess, &mut bytes);
        let mut back = Vec::new();
        decode_body(codec, Reader::new(&bytes), values.len(), &mut back).unwrap();
        assert_eq!(back, values);
        codec
    }

    /// A few steps of very different length, as they come.
    fn heartbeat(block: i64, scale: i64) -> Vec<i64> {
        let step = |i: i64| [0, 0, 0, 1, 100, -100, 37, -38][noise(i) as usize % 8];
        (0..1024)
            .scan(0, |sum, i| {
                *sum += step(block * 1024 + i) * scale;
                Some(*sum)
            })
            .collect()
    }

    #[test]
    fn uneven_steps_and_repeating_values_are_framed() {
        let mut guess = Guess::default();
        for block in 0..20 {
            let codec = codec_of(&heartbeat(block, 5), &mut guess);
            assert!(matches!(codec, id::INT_ZSTD | id::INT_SCALED));
            assert_ne!(guess.gain, Gain::None);
        }
        let repeating: Vec<i64> = (0..1000).map(|i| noise(i % 300) as i64 & 4095).collect();
        assert_eq!(codec_of(&repeating, &mut Guess::default()), id::INT_ZSTD);
    }

    #[test]
    fn even_noise_stays_packed() {
        let mut guess = Guess::default();
        for block in 0..20 {
            let even: Vec<i64> = (0..1024)
                .map(|i| noise(block * 1024 + i) as i64 & 255)
                .collect();
            assert_eq!(codec_of(&even, &mut guess), id::INT_FRAME);
            assert_eq!(guess.gain, Gain::None);
        }
    }
}
