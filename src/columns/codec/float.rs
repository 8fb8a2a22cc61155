//! Floats by their bits: as integers where that is shorter, else as they are.

use super::{id, int, Tier};
use crate::error::{Corrupt, Result};
use crate::wire::Reader;

/// Appends the body and returns its codec.
pub fn encode_f64(values: &[f64], tier: Tier, out: &mut Vec<u8>) -> u8 {
    let bits: Vec<i64> = values.iter().map(|v| v.to_bits() as i64).collect();
    encode_bits(&bits, 8, tier, out)
}

/// Appends the body and returns its codec.
pub fn encode_f32(values: &[f32], tier: Tier, out: &mut Vec<u8>) -> u8 {
    let bits: Vec<i64> = values.iter().map(|v| i64::from(v.to_bits())).collect();
    encode_bits(&bits, 4, tier, out)
}

fn encode_bits(bits: &[i64], width: usize, tier: Tier, out: &mut Vec<u8>) -> u8 {
    let at = out.len();
    int::encode(bits, tier, out);
    if out.len() - at < bits.len() * width {
        return id::FLOAT_BITS;
    }
    out.truncate(at);
    bits.iter()
        .for_each(|v| out.extend_from_slice(&v.to_le_bytes()[..width]));
    id::FLOAT_RAW
}

/// Reads `n` values of a body that takes up the rest of `reader`; `out` is cleared first.
pub fn decode_f64(codec: u8, mut reader: Reader, n: usize, out: &mut Vec<f64>) -> Result<()> {
    out.clear();
    match codec {
        id::FLOAT_RAW => {
            let bytes = reader.take(n * 8)?;
            out.extend(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)));
            reader.finish()
        }
        id::FLOAT_BITS => {
            let mut bits = Vec::new();
            int::decode(reader.rest(), n, &mut bits)?;
            out.extend(bits.iter().map(|&b| f64::from_bits(b as u64)));
            Ok(())
        }
        _ => Err(Corrupt::new("unknown codec of floats")),
    }
}

/// As `decode_f64`.
pub fn decode_f32(codec: u8, mut reader: Reader, n: usize, out: &mut Vec<f32>) -> Result<()> {
    out.clear();
    match codec {
        id::FLOAT_RAW => {
            let bytes = reader.take(n * 4)?;
            out.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)));
            reader.finish()
        }
        id::FLOAT_BITS => {
            let mut bits = Vec::new();
            int::decode(reader.rest(), n, &mut bits)?;
            for word in bits {
                let word = u32::try_from(word)
                    .map_err(|_| Corrupt::new("a float is wider than 32 bits"))?;
                out.push(f32::from_bits(word));
            }
            Ok(())
        }
        _ => Err(Corrupt::new("unknown codec of floats")),
    }
}
