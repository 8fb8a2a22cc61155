//! Bodies of PostgreSQL's `numeric` as scaled integers: where all values of a block have one display scale,
//! fit into i64 and are in canonical form, the block is that scale and a stream of integers. Other blocks
//! go to `bytes`. Every value is encoded again and compared, so the bytes come back as they were.
//!
//! Body of a short numeric (src/backend/utils/adt/numeric.c): a 16-bit word of sign, display scale and
//! weight, then base-10,000 digits without leading and trailing zeros; the first one counts 10,000^weight.
//!
//! Bytes: scale (u8), stream of integers.

use super::bytes::{self, Strings};
use super::{id, int, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::Reader;

const SHORT: u16 = 0x8000;
const FLAGS: u16 = 0xC000;
const NEGATIVE: u16 = 0x2000;
const SCALE_SHIFT: u16 = 7;
const MAX_SCALE: u16 = 63;
const WEIGHT_MASK: u16 = 0x7F;
const BASE: i128 = 10_000;
/// Sixteen base-10,000 digits hold any scaled i64 with its padding.
const MAX_BODY: usize = 2 + 2 * 16;

/// The integers and their scale, if all values qualify.
pub fn scaled(strings: Strings) -> Option<(u16, Vec<i64>)> {
    let mut scale = None;
    let mut out = Vec::with_capacity(strings.ends.len());
    let mut body = Vec::with_capacity(MAX_BODY);
    for string in strings.iter() {
        let (own, value) = parse(string)?;
        if *scale.get_or_insert(own) != own {
            return None;
        }
        body.clear();
        put_body(value, own, &mut body);
        if body != string {
            return None;
        }
        out.push(value);
    }
    Some((scale?, out))
}

/// Scale and scaled value of a body.
pub fn parse(body: &[u8]) -> Option<(u16, i64)> {
    let (header, digits) = body.split_first_chunk::<2>()?;
    let header = u16::from_le_bytes(*header);
    if header & FLAGS != SHORT || body.len() > MAX_BODY || digits.len() % 2 != 0 {
        return None;
    }
    let scale = (header & !FLAGS & !NEGATIVE) >> SCALE_SHIFT;
    // Seven bits in two's complement.
    let weight = i32::from(((header & WEIGHT_MASK) << 9) as i16 >> 9);
    let digits = digits.as_chunks::<2>().0;
    let missing = weight + 1 + i32::from(scale.div_ceil(4)) - digits.len() as i32;
    if !(0..=8).contains(&missing) && !digits.is_empty() {
        return None;
    }
    let mut value = 0i128;
    let whole = digits.iter().map(|&digit| i16::from_le_bytes(digit));
    if digits.len() <= 4 {
        // At most 19 decimal digits.
        value = i128::from(whole.fold(0i64, |value, digit| value * BASE as i64 + i64::from(digit)));
    } else {
        for digit in whole {
            value = value.checked_mul(BASE)?.checked_add(i128::from(digit))?;
        }
    }
    if !digits.is_empty() {
        value = value.checked_mul(BASE.pow(missing as u32))?;
    }
    let value = match i64::try_from(value) {
        Ok(value) => divide_exactly(value, 10i64.pow(padding(scale)))?,
        Err(_) => {
            let padding = 10i128.pow(padding(scale));
            i64::try_from(value / padding)
                .ok()
                .filter(|_| value % padding == 0)?
        }
    };
    Some((
        scale,
        if header & NEGATIVE != 0 {
            value.checked_neg()?
        } else {
            value
        },
    ))
}

fn divide_exactly(value: i64, by: i64) -> Option<i64> {
    (value % by == 0).then_some(value / by)
}

/// Decimal digits between the display scale and the end of its last base-10,000 digit.
fn padding(scale: u16) -> u32 {
    u32::from(scale.div_ceil(4) * 4 - scale)
}

/// Appends the canonical body of `value / 10^scale`.
fn put_body(value: i64, scale: u16, out: &mut Vec<u8>) {
    let mut digits = [0u16; 16];
    let mut count = 0;
    let mut rest = u128::from(value.unsigned_abs()) * 10u128.pow(padding(scale));
    while rest > u128::from(u64::MAX) {
        digits[count] = (rest % BASE as u128) as u16;
        rest /= BASE as u128;
        count += 1;
    }
    let mut rest = rest as u64;
    while rest != 0 {
        digits[count] = (rest % BASE as u64) as u16;
        rest /= BASE as u64;
        count += 1;
    }
    let weight = if count == 0 {
        0
    } else {
        count as i32 - 1 - i32::from(scale.div_ceil(4))
    };
    let sign = if value < 0 { NEGATIVE } else { 0 };
    let header = SHORT | sign | scale << SCALE_SHIFT | weight as u16 & WEIGHT_MASK;
    let trailing = digits[..count].iter().take_while(|&&d| d == 0).count();
    let mut body = [0; MAX_BODY];
    body[..2].copy_from_slice(&header.to_le_bytes());
    for (slot, digit) in body[2..]
        .chunks_exact_mut(2)
        .zip(digits[trailing..count].iter().rev())
    {
        slot.copy_from_slice(&digit.to_le_bytes());
    }
    out.extend_from_slice(&body[..2 + 2 * (count - trailing)]);
}

/// Appends the body of a block and returns its codec.
pub fn encode(scale: u16, values: &[i64], tier: Tier, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    out.push(scale as u8);
    int::encode(values, tier, out);
    // Wide integers can have short bodies: 1 beside 10^18.
    if out.len() - at > values.len() * SHORTEST_BODY {
        let (mut ends, mut data) = (Vec::new(), Vec::new());
        put_bodies(values, scale, &mut ends, &mut data);
        let mut bodies = Vec::new();
        let strings = Strings {
            ends: &ends,
            data: &data,
        };
        let codec = bytes::encode(strings, tier, &mut bodies);
        if bodies.len() < out.len() - at {
            out.truncate(at);
            out.extend_from_slice(&bodies);
            return codec;
        }
    }
    id::NUMERIC_SCALED
}

/// Header and a digit.
const SHORTEST_BODY: usize = 4;

fn put_bodies(values: &[i64], scale: u16, ends: &mut Vec<u32>, data: &mut Vec<u8>) {
    for &value in values {
        put_body(value, scale, data);
        ends.push(data.len() as u32);
    }
}

/// Reads `n` bodies; `ends` and `data` are cleared first.
pub fn decode(mut reader: Reader, n: usize, ends: &mut Vec<u32>, data: &mut Vec<u8>) -> Result<()> {
    ends.clear();
    data.clear();
    let scale = u16::from(reader.u8()?);
    if scale > MAX_SCALE {
        return Err(Corrupt::new("a display scale is above 63"));
    }
    let mut values = Vec::new();
    int::decode(reader.rest(), n, &mut values)?;
    put_bodies(&values, scale, ends, data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(bodies: &[Vec<u8>]) -> (Vec<u32>, Vec<u8>) {
        let data = bodies.concat();
        let ends = bodies
            .iter()
            .scan(0, |end, b| {
                *end += b.len() as u32;
                Some(*end)
            })
            .collect();
        (ends, data)
    }

    #[test]
    fn scaled_integers_come_back_as_the_same_bodies() {
        for scale in [0, 1, 2, 3, 4, 5, 8, 20, 63] {
            let values = [0, 1, -1, 9999, 10_000, -123_456_789, i64::MAX, -i64::MAX];
            let bodies: Vec<Vec<u8>> = values
                .iter()
                .map(|&v| {
                    let mut body = Vec::new();
                    put_body(v, scale, &mut body);
                    body
                })
                .collect();
            let (ends, data) = strings(&bodies);
            let found = scaled(Strings {
                ends: &ends,
                data: &data,
            });
            assert_eq!(found, Some((scale, values.to_vec())), "scale {scale}");
            let mut out = Vec::new();
            let codec = encode(scale, &values, Tier::Fresh, &mut out);
            let (mut back_ends, mut back) = (vec![], vec![]);
            let reader = Reader::new(&out);
            match codec {
                id::NUMERIC_SCALED => {
                    decode(reader, values.len(), &mut back_ends, &mut back).unwrap()
                }
                _ => bytes::decode(codec, reader, values.len(), &mut back_ends, &mut back).unwrap(),
            }
            assert_eq!((back_ends, back), (ends, data));
        }
    }

    #[test]
    fn known_bodies_are_understood() {
        // 12345.678 with scale 3: weight 1, digits 1, 2345, 6780.
        let body = [0x81, 0x81, 1, 0, 0x29, 0x09, 0x7C, 0x1A];
        assert_eq!(parse(&body), Some((3, 12_345_678)));
        let mut again = Vec::new();
        put_body(12_345_678, 3, &mut again);
        assert_eq!(again, body);
    }

    #[test]
    fn nan_long_forms_and_mixed_scales_are_refused() {
        let nan = vec![0x00, 0xC0];
        let long = vec![0x00, 0x00, 0x00, 0x00, 1, 0];
        let mut one = Vec::new();
        put_body(1, 0, &mut one);
        let mut other = Vec::new();
        put_body(1, 2, &mut other);
        for bodies in [vec![nan], vec![long], vec![vec![]], vec![one, other]] {
            let (ends, data) = strings(&bodies);
            assert_eq!(
                scaled(Strings {
                    ends: &ends,
                    data: &data
                }),
                None
            );
        }
    }
}
