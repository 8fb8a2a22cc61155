//! Lossless decimal front end: doubles that were printed, averaged or scaled become small integers.
//! A `Form` says how an integer stands for a double; `Form::convert` turns a block into integers and
//! checks every value bit for bit, `Form::restore` goes back. What a form cannot express becomes a
//! correction of a few ULPs or an exception; see `float.rs` for the bytes.
//!
//! Why division: i / 10^e is correctly rounded, so every decimal literal of up to 15 digits comes back
//! from its digits, and only e has to be searched (ALP, Afroozeh et al. 2023, multiplies by two powers
//! and keeps exceptions). The other forms follow the arithmetic that produced the values: exporters
//! that compute i × 0.001, f32 widened to f64, averages over 3, 7, 9 × 10^e samples, multiples of 2^k.
//!
//! Rounding to the nearest integer uses the well-known trick of adding 1.5 × 2^52: all forms are a few
//! vector instructions without a conversion between integer and double registers.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use crate::error::{Corrupt, Result};
use crate::vector::narrow::Divisor;
use crate::wire::{Reader, POW10};

/// 1.5 × 2^52: added to a double below 2^51 it leaves the nearest integer in the low mantissa bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Largest exponent whose power of ten is a double exactly.
const MAX_EXPONENT: i8 = 22;

const INVERSE_POWERS: [f64; 23] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14,
    1e-15, 1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22,
];

/// What an integer `i` stands for. The discriminants are part of the format: the byte of exponent 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// i / 10^e
    Decimal = 0,
    /// i / (3 × 10^e)
    Thirds = 96,
    /// i / (7 × 10^e)
    Sevenths = 112,
    /// i / (9 × 10^e)
    Ninths = 128,
    /// i × 10^-e, the product rounded
    Scaled = 32,
    /// i / 10^e rounded to f32, then widened
    Single = 64,
    /// i × 2^e
    Binary = 146,
    /// The bits of the double, in an order that integers share
    Bits = 144,
    /// The bits of the f32 that the double is a widening of, likewise
    SingleBits = 145,
}

impl Kind {
    /// In the order of their bytes.
    const ALL: [Kind; 9] = [
        Kind::Decimal,
        Kind::Scaled,
        Kind::Single,
        Kind::Thirds,
        Kind::Sevenths,
        Kind::Ninths,
        Kind::Bits,
        Kind::SingleBits,
        Kind::Binary,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    kind: Kind,
    exponent: i8,
}

/// The arithmetic of a form: double = rounded integer `op` operand, guess = double × scale.
#[derive(Clone, Copy)]
enum Arithmetic {
    Divide {
        by: f64,
    },
    /// As `Divide`, where multiplications can do it (`Reciprocal`).
    DivideFast(Reciprocal),
    Multiply {
        by: f64,
        scale: f64,
    },
    Single {
        by: f64,
    },
    Bits,
    SingleBits,
}

impl Form {
    pub const BITS: Form = Form {
        kind: Kind::Bits,
        exponent: 0,
    };
    pub const SINGLE_BITS: Form = Form {
        kind: Kind::SingleBits,
        exponent: 0,
    };

    /// None if the kind cannot have that exponent.
    pub fn new(kind: Kind, exponent: i8) -> Option<Form> {
        let legal = match kind {
            Kind::Decimal | Kind::Scaled | Kind::Single => (0..=MAX_EXPONENT).contains(&exponent),
            // 9 × 10^15 is the largest such divisor below 2^53.
            Kind::Thirds | Kind::Sevenths | Kind::Ninths => (0..=15).contains(&exponent),
            Kind::Binary => true,
            Kind::Bits | Kind::SingleBits => exponent == 0,
        };
        legal.then_some(Form { kind, exponent })
    }

    /// One byte: kinds with a small exponent share their byte with it; `Binary` has a second byte.
    pub fn put(self, out: &mut Vec<u8>) {
        out.push(
            self.kind as u8
                + if self.kind == Kind::Binary {
                    0
                } else {
                    self.exponent as u8
                },
        );
        if self.kind == Kind::Binary {
            out.push(self.exponent as u8);
        }
    }

    pub fn get(reader: &mut Reader) -> Result<Form> {
        const UNKNOWN: Corrupt = Corrupt::new("unknown form of floats");
        let byte = reader.u8()?;
        let kind = Kind::ALL
            .into_iter()
            .rfind(|kind| *kind as u8 <= byte)
            .ok_or(UNKNOWN)?;
        let offset = byte - kind as u8;
        let exponent = match kind {
            Kind::Binary if offset > 0 => return Err(UNKNOWN),
            Kind::Binary => reader.u8()? as i8,
            _ => offset as i8,
        };
        Form::new(kind, exponent).ok_or(UNKNOWN)
    }

    /// The same kind with one and two more digits.
    pub fn finer(self) -> impl Iterator<Item = Form> {
        let digits = if matches!(self.kind, Kind::Binary | Kind::Bits | Kind::SingleBits) {
            0
        } else {
            2
        };
        (1..=digits).filter_map(move |more| Form::new(self.kind, self.exponent + more))
    }

    pub fn kind(self) -> Kind {
        self.kind
    }

    fn arithmetic(self) -> Arithmetic {
        let e = self.exponent as usize;
        match self.kind {
            Kind::Decimal => divide(POW10[e]),
            Kind::Thirds => divide(3.0 * POW10[e]),
            Kind::Sevenths => divide(7.0 * POW10[e]),
            Kind::Ninths => divide(9.0 * POW10[e]),
            Kind::Scaled => Arithmetic::Multiply {
                by: INVERSE_POWERS[e],
                scale: POW10[e],
            },
            Kind::Single => Arithmetic::Single { by: POW10[e] },
            Kind::Binary => Arithmetic::Multiply {
                by: f64::from_bits(((1023 + self.exponent as i64) as u64) << 52),
                scale: f64::from_bits(((1023 - self.exponent as i64) as u64) << 52),
            },
            Kind::Bits => Arithmetic::Bits,
            Kind::SingleBits => Arithmetic::SingleBits,
        }
    }

    /// The integer nearest to each value into `ints` (same length); returns how many values do not
    /// come back bit for bit from theirs.
    pub fn convert(self, values: &[f64], ints: &mut [i64]) -> usize {
        assert_eq!(
            values.len(),
            ints.len(),
            "BUG: a form converts slot by slot"
        );
        match self.arithmetic() {
            Arithmetic::Divide { by: 1.0 } => convert_product(values, 1.0, 1.0, ints),
            Arithmetic::Divide { by } => convert_quotient(values, by, ints),
            Arithmetic::DivideFast(by) => convert_fast(values, by, ints),
            Arithmetic::Multiply { by, scale } => convert_product(values, by, scale, ints),
            Arithmetic::Single { by } => convert_single(values, by, ints),
            Arithmetic::Bits => order_bits(values, ints),
            Arithmetic::SingleBits => order_single_bits(values, ints),
        }
    }

    /// Integers in place to the bits of the doubles that they stand for.
    pub fn restore(self, slots: &mut [i64]) {
        match self.arithmetic() {
            Arithmetic::Divide { by: 1.0 } => restore_integer(slots),
            Arithmetic::Divide { by } => restore_quotient(slots, by),
            Arithmetic::DivideFast(by) => restore_fast(slots, by),
            Arithmetic::Multiply { by, .. } => restore_product(slots, by),
            Arithmetic::Single { by } => restore_single(slots, by),
            Arithmetic::Bits => restore_bits(slots),
            Arithmetic::SingleBits => restore_single_bits(slots),
        }
    }

    /// What the integers of a decimal form are divided by.
    pub(crate) fn divisor(self) -> Divisor {
        match self.arithmetic() {
            Arithmetic::Divide { by: 1.0 } => Divisor::One,
            Arithmetic::Divide { by } => Divisor::Slow(by),
            Arithmetic::DivideFast(by) => Divisor::Fast(by),
            _ => unreachable!("BUG: a form that does not divide"),
        }
    }

    /// Whether every double is its integer times or divided by a constant, rounded once: sums may then be
    /// taken of the integers.
    pub fn is_linear(self) -> bool {
        matches!(
            self.arithmetic(),
            Arithmetic::Divide { .. } | Arithmetic::DivideFast(_) | Arithmetic::Multiply { .. }
        )
    }

    /// What a sum of the integers stands for (`is_linear` forms).
    pub fn scale_sum(self, sum: i128) -> f64 {
        match self.arithmetic() {
            Arithmetic::Divide { by } | Arithmetic::DivideFast(Reciprocal { by, .. }) => {
                sum as f64 / by
            }
            Arithmetic::Multiply { by, .. } => sum as f64 * by,
            _ => unreachable!("BUG: a sum of integers that are not proportional to their values"),
        }
    }
}

/// Division by three multiplications (Markstein 1990): a first quotient that is wrong by at most one ULP,
/// its exact remainder, and the correction, which rounds as the division would. The theorem wants the
/// rounded reciprocal, and a first quotient as good as said; that holds where the reciprocal's error is at
/// most 2^-54 of it. Dividends are integers below 2^53, far from underflow and overflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reciprocal {
    by: f64,
    inverse: f64,
}

impl Reciprocal {
    fn of(by: f64) -> Option<Reciprocal> {
        const LIMIT: f64 = 1.0 / (1u64 << 54) as f64;
        let inverse = 1.0 / by;
        let error = inverse.mul_add(by, -1.0);
        (has_fma() && error.abs() <= LIMIT).then_some(Reciprocal { by, inverse })
    }

    #[inline(always)]
    pub(crate) fn divide(self, dividend: f64) -> f64 {
        let quotient = dividend * self.inverse;
        let remainder = quotient.mul_add(-self.by, dividend);
        let corrected = remainder.mul_add(self.inverse, quotient);
        // Integers beyond 2^62 may stand for infinities.
        if quotient.is_infinite() {
            quotient
        } else {
            corrected
        }
    }
}

fn divide(by: f64) -> Arithmetic {
    match Reciprocal::of(by) {
        Some(reciprocal) if by != 1.0 => Arithmetic::DivideFast(reciprocal),
        _ => Arithmetic::Divide { by },
    }
}

/// Without fused multiplication in hardware the division is faster.
fn has_fma() -> bool {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
    return false;
}

/// Beyond this the sum with `ROUND` is no longer an integer plus `ROUND`.
const WIDEST: f64 = 2_251_799_813_685_248.0;

/// The nearest integer as a double and as an integer; zero where there is none. (A NaN would come back
/// from the difference of its bits to `ROUND`'s, but such an integer packs badly.)
#[inline(always)]
fn nearest(scaled: f64) -> (f64, i64) {
    let shifted = if scaled.abs() <= WIDEST {
        scaled + ROUND
    } else {
        ROUND
    };
    (
        shifted - ROUND,
        (shifted.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64),
    )
}

#[inline(always)]
fn to_double(int: i64) -> f64 {
    f64::from_bits(int.wrapping_add(ROUND.to_bits() as i64) as u64) - ROUND
}

/// Two's complement order of the values' order; -NaN first, +NaN last. Its own inverse.
#[inline(always)]
fn order(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[inline(always)]
fn order_single(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn convert_quotient(values: &[f64], by: f64, ints: &mut [i64]) -> usize {
    let mut wrong = 0;
    for (value, int) in values.iter().zip(ints) {
        let (rounded, nearest) = nearest(value * by);
        *int = nearest;
        wrong += ((rounded / by).to_bits() != value.to_bits()) as u64;
    }
    wrong as usize
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))
)]
fn convert_fast(values: &[f64], by: Reciprocal, ints: &mut [i64]) -> usize {
    let mut wrong = 0;
    for (value, int) in values.iter().zip(ints) {
        let (rounded, nearest) = nearest(value * by.by);
        *int = nearest;
        wrong += (by.divide(rounded).to_bits() != value.to_bits()) as u64;
    }
    wrong as usize
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn convert_product(values: &[f64], by: f64, scale: f64, ints: &mut [i64]) -> usize {
    let mut wrong = 0;
    for (value, int) in values.iter().zip(ints) {
        let (rounded, nearest) = nearest(value * scale);
        *int = nearest;
        wrong += ((rounded * by).to_bits() != value.to_bits()) as u64;
    }
    wrong as usize
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn convert_single(values: &[f64], by: f64, ints: &mut [i64]) -> usize {
    let mut wrong = 0;
    for (value, int) in values.iter().zip(ints) {
        let (rounded, nearest) = nearest(value * by);
        *int = nearest;
        wrong += (((rounded / by) as f32 as f64).to_bits() != value.to_bits()) as u64;
    }
    wrong as usize
}

fn order_bits(values: &[f64], ints: &mut [i64]) -> usize {
    for (value, int) in values.iter().zip(ints) {
        *int = order(value.to_bits() as i64);
    }
    0
}

fn order_single_bits(values: &[f64], ints: &mut [i64]) -> usize {
    let mut wrong = 0;
    for (value, int) in values.iter().zip(ints) {
        let single = narrow(value.to_bits());
        *int = order_single(single as i32) as i64;
        wrong += (widen(single) != value.to_bits()) as usize;
    }
    wrong
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn restore_integer(slots: &mut [i64]) {
    for slot in slots {
        *slot = to_double(*slot).to_bits() as i64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn restore_quotient(slots: &mut [i64], by: f64) {
    for slot in slots {
        *slot = (to_double(*slot) / by).to_bits() as i64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))
)]
fn restore_fast(slots: &mut [i64], by: Reciprocal) {
    for slot in slots {
        *slot = by.divide(to_double(*slot)).to_bits() as i64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn restore_product(slots: &mut [i64], by: f64) {
    for slot in slots {
        *slot = (to_double(*slot) * by).to_bits() as i64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn restore_single(slots: &mut [i64], by: f64) {
    for slot in slots {
        *slot = ((to_double(*slot) / by) as f32 as f64).to_bits() as i64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn restore_bits(slots: &mut [i64]) {
    for slot in slots {
        *slot = order(*slot);
    }
}

fn restore_single_bits(slots: &mut [i64]) {
    for slot in slots {
        *slot = widen(order_single(*slot as i32) as u32) as i64;
    }
}

const SINGLE_NAN: u32 = 0x7f80_0000;
const DOUBLE_NAN: u64 = 0x7ff0_0000_0000_0000;

/// The bits of an f32 as those of a double. Unlike `as f64` it keeps a signalling NaN as it is.
#[inline(always)]
pub fn widen(single: u32) -> u64 {
    if single & SINGLE_NAN == SINGLE_NAN {
        let sign = (single as u64 >> 31) << 63;
        return sign | DOUBLE_NAN | ((single & 0x007f_ffff) as u64) << 29;
    }
    (f32::from_bits(single) as f64).to_bits()
}

/// Inverse of `widen` on what `widen` yields; rounds anything else.
#[inline(always)]
pub fn narrow(double: u64) -> u32 {
    if double & DOUBLE_NAN == DOUBLE_NAN {
        let sign = (double >> 63 << 31) as u32;
        return sign | SINGLE_NAN | (double >> 29) as u32 & 0x007f_ffff;
    }
    (f64::from_bits(double) as f32).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    fn noise(i: u64) -> u64 {
        let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn multiplications_divide_as_the_division_does() {
        let divisors = (0..23)
            .map(|e| POW10[e])
            .chain((0..16).flat_map(|e| [3.0, 7.0, 9.0].map(|k| k * POW10[e])));
        let mut fast = 0;
        for by in divisors {
            let Some(reciprocal) = Reciprocal::of(by) else {
                continue;
            };
            fast += 1;
            for i in 0..200_000 {
                // All magnitudes up to 2^53, and multiples of the divisor and their neighbours.
                let dividend = (noise(i) >> (11 + i % 53)) as f64;
                let near = (dividend % 1e6) * (by % 1e9) + (i % 3) as f64 - 1.0;
                for dividend in [dividend, 0.0 - dividend, near] {
                    let quotient = reciprocal.divide(dividend);
                    assert_eq!(
                        quotient.to_bits(),
                        (dividend / by).to_bits(),
                        "{dividend} / {by}"
                    );
                }
            }
        }
        assert!(fast == 0 || fast > 20, "{fast} of 71 divisors are fast");
    }

    #[test]
    fn forms_and_f32_come_back() {
        for byte in 0..=u8::MAX {
            if let Ok(form) = Form::get(&mut Reader::new(&[byte, 5])) {
                let mut bytes = Vec::new();
                form.put(&mut bytes);
                assert_eq!(bytes[0], byte);
                assert_eq!(Form::get(&mut Reader::new(&bytes)).unwrap(), form);
                let mut slots: Vec<i64> = (-40..40).map(|i| i * 1_000_003).collect();
                let ints = slots.clone();
                form.restore(&mut slots);
                let values: Vec<f64> = slots
                    .iter()
                    .map(|bits| f64::from_bits(*bits as u64))
                    .collect();
                let mut back = vec![0; values.len()];
                let wrong = form.convert(&values, &mut back);
                if !matches!(form.kind(), Kind::Single | Kind::Scaled) {
                    assert_eq!((wrong, &back), (0, &ints), "{form:?}");
                }
            }
        }
        for i in 0..100_000 {
            let single = noise(i) as u32;
            assert_eq!(narrow(widen(single)), single);
        }
    }
}
