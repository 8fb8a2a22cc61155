//! What a chunk says about values without decoding them: bounds, sums, first and last, per column and
//! per block. Order is that of PostgreSQL: NaN is the greatest double, -0.0 equals 0.0; byte strings
//! compare bytewise.

use std::cmp::Ordering;

/// Longest byte string that a bound holds in full.
pub const PREFIX_BYTES: usize = 16;

/// A minimum, maximum, first or last value.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Not known, or there is no value.
    None,
    /// Integers; booleans as 0 and 1.
    Int(i64),
    /// f32 are widened. As a minimum or maximum never -0.0.
    Float(f64),
    Prefix(Prefix),
    /// `unscaled / 10^scale`, a numeric.
    Decimal {
        unscaled: i64,
        scale: u16,
    },
}

/// A byte string, or a bound of one: where `rounded`, a minimum is not above the true one and a maximum
/// not below it; a rounded first or last value is a prefix of the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; PREFIX_BYTES],
    len: u8,
    pub rounded: bool,
}

/// A sum (or sum of squares) of values.
#[derive(Clone, Copy, Debug)]
pub enum Sum {
    None,
    /// Exact.
    Int(i128),
    /// Correct to about the rounding of a few additions.
    Float(f64),
    /// Exact: `unscaled / 10^scale`.
    Decimal {
        unscaled: i128,
        scale: u16,
    },
}

/// Over the non-null values of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub count: u32,
    pub min: Bound,
    pub max: Bound,
    pub sum: Sum,
    /// Integers within 32 bits: the exact sum of squares. Floats: the sum of squared differences from
    /// the mean (Sxx of Youngs and Cramer, as PostgreSQL keeps it), which can be merged without
    /// cancellation. Else `None`.
    pub squares: Sum,
    /// First and last non-null value in row order, bit for bit.
    pub first: Bound,
    pub last: Bound,
}

impl Prefix {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// At most `PREFIX_BYTES` of `value`; shorter ones are whole.
    pub fn floor(value: &[u8]) -> Self {
        let len = value.len().min(PREFIX_BYTES);
        let mut bytes = [0; PREFIX_BYTES];
        bytes[..len].copy_from_slice(&value[..len]);
        Prefix {
            bytes,
            len: len as u8,
            rounded: value.len() > PREFIX_BYTES,
        }
    }

    /// The least prefix not below `value`; `None` if it would have to be longer.
    pub fn ceil(value: &[u8]) -> Option<Self> {
        let mut prefix = Prefix::floor(value);
        while prefix.rounded {
            let last = prefix.len.checked_sub(1)? as usize;
            match prefix.bytes[last].checked_add(1) {
                Some(next) => {
                    prefix.bytes[last] = next;
                    return Some(prefix);
                }
                None => {
                    prefix.bytes[last] = 0;
                    prefix.len -= 1;
                }
            }
        }
        Some(prefix)
    }

    /// From stored bytes; the caller has checked the length.
    pub(crate) fn stored(value: &[u8], rounded: bool) -> Self {
        Prefix {
            rounded,
            ..Prefix::floor(value)
        }
    }
}

/// PostgreSQL's order of float8.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl PartialEq for Bound {
    /// Floats are compared by their bits, so that a bound equals its copy.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Bound::None, Bound::None) => true,
            (Bound::Int(a), Bound::Int(b)) => a == b,
            (Bound::Float(a), Bound::Float(b)) => a.to_bits() == b.to_bits(),
            (Bound::Prefix(a), Bound::Prefix(b)) => a == b,
            (
                Bound::Decimal {
                    unscaled: a,
                    scale: s,
                },
                Bound::Decimal {
                    unscaled: b,
                    scale: t,
                },
            ) => a == b && s == t,
            _ => false,
        }
    }
}

impl PartialEq for Sum {
    /// As for `Bound`.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Sum::None, Sum::None) => true,
            (Sum::Int(a), Sum::Int(b)) => a == b,
            (Sum::Float(a), Sum::Float(b)) => a.to_bits() == b.to_bits(),
            (
                Sum::Decimal {
                    unscaled: a,
                    scale: s,
                },
                Sum::Decimal {
                    unscaled: b,
                    scale: t,
                },
            ) => a == b && s == t,
            _ => false,
        }
    }
}

impl Summary {
    pub const EMPTY: Summary = Summary {
        count: 0,
        min: Bound::None,
        max: Bound::None,
        sum: Sum::None,
        squares: Sum::None,
        first: Bound::None,
        last: Bound::None,
    };
}
