//! Bytes in and out: little-endian words, LEB128 varints, zigzag, tagged floats. `Reader` checks every
//! length before it is used; nothing here allocates by a length that was read.

use crate::error::{Corrupt, Result};

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

pub fn put_zigzag128(out: &mut Vec<u8>, value: i128) {
    let mut rest = ((value << 1) ^ (value >> 127)) as u128;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A double as exponent and integer (`i / 10^e`) where that gives back its bits, else as its bits.
pub fn put_float(out: &mut Vec<u8>, value: f64) {
    match as_decimal(value) {
        Some((exponent, integer)) => {
            out.push(exponent);
            put_zigzag(out, integer);
        }
        None => {
            out.push(FLOAT_BITS);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

const FLOAT_BITS: u8 = 0xFF;

/// Powers of ten that a double represents exactly.
pub const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Largest exponent of a tagged float.
pub const MAX_EXPONENT: u8 = 15;

const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// `value * 10^exponent` as an integer, if dividing it again gives back the bits of `value`.
#[inline]
pub fn to_decimal(value: f64, exponent: u8) -> Option<i64> {
    let power = POW10[exponent as usize];
    let scaled = (value * power).round_ties_even();
    if scaled.abs() < EXACT_INTEGERS && (scaled as i64 as f64 / power).to_bits() == value.to_bits()
    {
        Some(scaled as i64)
    } else {
        None
    }
}

/// The smallest exponent, and its integer, at which `value` is a decimal.
pub fn as_decimal(value: f64) -> Option<(u8, i64)> {
    (0..=MAX_EXPONENT).find_map(|e| to_decimal(value, e).map(|i| (e, i)))
}

#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that `put_varint` writes for `value`.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

/// A cursor over bytes that are not trusted.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

const SHORT: Corrupt = Corrupt::new("bytes end too early");

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(bytes).ok_or(SHORT)?;
        self.rest = tail;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = tail;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(Corrupt::new("a varint is longer than 64 bits"));
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt::new("a varint is longer than 64 bits"))
    }

    /// A varint that must not exceed `limit`.
    pub fn varint_up_to(&mut self, limit: usize) -> Result<usize> {
        let value = self.varint()?;
        if value > limit as u64 {
            return Err(Corrupt::new("a length or count is out of range"));
        }
        Ok(value as usize)
    }

    pub fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    pub fn zigzag128(&mut self) -> Result<i128> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8()?;
            if shift == 126 && byte > 3 {
                break;
            }
            value |= u128::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok((value >> 1) as i128 ^ -((value & 1) as i128));
            }
        }
        Err(Corrupt::new("a varint is longer than 128 bits"))
    }

    pub fn float(&mut self) -> Result<f64> {
        match self.u8()? {
            FLOAT_BITS => Ok(f64::from_bits(self.u64()?)),
            exponent if exponent <= MAX_EXPONENT => {
                Ok(self.zigzag()? as f64 / POW10[exponent as usize])
            }
            _ => Err(Corrupt::new("unknown form of a float")),
        }
    }

    /// The end: anything left over is an error.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Corrupt::new("bytes are left over"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            assert_eq!(out.len(), varint_bytes(zigzag(value)));
            assert_eq!(Reader::new(&out).zigzag(), Ok(value));
        }
        for value in [0, -1, i128::MAX, i128::MIN, 1 << 90] {
            let mut out = Vec::new();
            put_zigzag128(&mut out, value);
            assert_eq!(Reader::new(&out).zigzag128(), Ok(value));
        }
    }

    #[test]
    fn floats_come_back_bit_for_bit() {
        let odd = f64::from_bits(0x7FF8_0000_DEAD_BEEF);
        for value in [
            0.0,
            -0.0,
            0.1,
            21.5,
            -3.25e15,
            1e300,
            f64::NAN,
            odd,
            f64::NEG_INFINITY,
            5e-324,
        ] {
            let mut out = Vec::new();
            put_float(&mut out, value);
            assert_eq!(
                Reader::new(&out).float().map(f64::to_bits),
                Ok(value.to_bits())
            );
        }
    }

    #[test]
    fn short_or_long_bytes_are_errors() {
        assert!(Reader::new(&[0x80]).varint().is_err());
        assert!(Reader::new(&[0xFF; 10]).varint().is_err());
        assert!(Reader::new(&[0xFF; 19]).zigzag128().is_err());
        assert!(Reader::new(&[1]).u32().is_err());
        assert!(Reader::new(&[1]).finish().is_err());
    }
}
