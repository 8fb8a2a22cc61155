//! Values as they are kept for the next query: integers of as few bytes as all of a block fit into, from which doubles and bigints
//! come back bit for bit. They take less memory, and less time to come from it, than the values do.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use crate::codec::decimal::{Form, Kind, Reciprocal};
use crate::column::Values;
use std::ops::Range;

/// Doubles of at most so many decimals are looked at.
const MOST_DECIMALS: i8 = 4;

/// A line of the processor's caches, and how many of them are fetched before they are wanted.
const LINE_BYTES: usize = 64;
const MOST_LINES: usize = 32;

/// So many of the first values choose the number of decimals.
const SAMPLE: usize = 64;

/// Values that are kept narrow.
pub struct Narrow {
    ints: Ints,
    form: Option<Form>,
}

enum Ints {
    One(Box<[i8]>),
    Two(Box<[i16]>),
    Four(Box<[i32]>),
}

impl Ints {
    /// None where four bytes are too few.
    fn of(values: &[i64]) -> Option<Ints> {
        // All bits that tell a value from its sign.
        let used = values.iter().fold(0, |used, &v| used | (v ^ (v >> 63)));
        match 64 - used.leading_zeros() {
            0..=7 => Some(Ints::One(values.iter().map(|&v| v as i8).collect())),
            8..=15 => Some(Ints::Two(values.iter().map(|&v| v as i16).collect())),
            16..=31 => Some(Ints::Four(values.iter().map(|&v| v as i32).collect())),
            _ => None,
        }
    }
}

impl Narrow {
    /// None where values are of another type, or some take more than half of their bytes.
    pub fn of(values: &Values) -> Option<Narrow> {
        match values {
            Values::I64(values) => Ints::of(values).map(|ints| Narrow { ints, form: None }),
            Values::F64(values) => {
                let form = form_of(&values[..values.len().min(SAMPLE)])?;
                let mut ints = vec![0; values.len()];
                if form.convert(values, &mut ints) > 0 {
                    return None;
                }
                let form = Some(form);
                Ints::of(&ints).map(|ints| Narrow { ints, form })
            }
            _ => None,
        }
    }

    /// Writes the values of some rows over others.
    pub fn restore(&self, rows: Range<usize>, values: &mut Values) {
        match self.form {
            None => {
                let mut out = match core::mem::replace(values, Values::Absent(0)) {
                    Values::I64(own) => own,
                    _ => Vec::new(),
                };
                out.clear();
                match &self.ints {
                    Ints::One(ints) => out.extend(ints[rows].iter().map(|&v| i64::from(v))),
                    Ints::Two(ints) => out.extend(ints[rows].iter().map(|&v| i64::from(v))),
                    Ints::Four(ints) => out.extend(ints[rows].iter().map(|&v| i64::from(v))),
                }
                *values = Values::I64(out);
            }
            Some(form) => {
                let mut out = match core::mem::replace(values, Values::Absent(0)) {
                    Values::F64(own) => own,
                    _ => Vec::new(),
                };
                let divisor = form.divisor();
                match &self.ints {
                    Ints::One(ints) => double_bytes(&ints[rows], divisor, &mut out),
                    Ints::Two(ints) => double_shorts(&ints[rows], divisor, &mut out),
                    Ints::Four(ints) => double_ints(&ints[rows], divisor, &mut out),
                }
                *values = Values::F64(out);
            }
        }
    }

    /// Lets the processor fetch the values from memory while it does something else.
    pub fn prefetch(&self) {
        match &self.ints {
            Ints::One(ints) => prefetch(ints),
            Ints::Two(ints) => prefetch(ints),
            Ints::Four(ints) => prefetch(ints),
        }
    }

    /// Memory that it takes, besides its own place.
    pub fn bytes(&self) -> usize {
        match &self.ints {
            Ints::One(ints) => ints.len(),
            Ints::Two(ints) => 2 * ints.len(),
            Ints::Four(ints) => 4 * ints.len(),
        }
    }
}

/// Lets the processor fetch some values from memory, the first ones.
fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(LINE_BYTES / size_of::<T>()).take(MOST_LINES) {
        use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: nothing but a hint.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// The decimals that bring all values back.
fn form_of(values: &[f64]) -> Option<Form> {
    let mut ints = [0; SAMPLE];
    let ints = &mut ints[..values.len()];
    let mut forms = (0..=MOST_DECIMALS).filter_map(|digits| Form::new(Kind::Decimal, digits));
    forms.find(|form| form.convert(values, ints) == 0)
}

/// What integers are divided by.
#[derive(Clone, Copy)]
pub(crate) enum Divisor {
    One,
    Fast(Reciprocal),
    Slow(f64),
}

#[inline(always)]
fn doubles<T: Copy + Into<f64>>(ints: &[T], divisor: Divisor, out: &mut Vec<f64>) {
    out.clear();
    let ints = ints.iter().map(|&int| int.into());
    match divisor {
        Divisor::One => out.extend(ints),
        Divisor::Fast(by) => out.extend(ints.map(|int| by.divide(int))),
        Divisor::Slow(by) => out.extend(ints.map(|int| int / by)),
    }
}

macro_rules! doubles_of {
    ($name:ident, $int:ty) => {
        #[cfg_attr(
            not(feature = "portable"),
            multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))
        )]
        fn $name(ints: &[$int], divisor: Divisor, out: &mut Vec<f64>) {
            doubles(ints, divisor, out);
        }
    };
}

doubles_of!(double_bytes, i8);
doubles_of!(double_shorts, i16);
doubles_of!(double_ints, i32);

#[cfg(test)]
mod tests {
    use super::*;

    fn back(values: &Values, rows: Range<usize>) -> Option<(Values, usize)> {
        let narrow = Narrow::of(values)?;
        let mut out = Values::Absent(0);
        narrow.restore(rows, &mut out);
        Some((out, narrow.bytes()))
    }

    #[test]
    fn doubles_come_back_bit_for_bit() {
        for (digits, spread, bytes) in [(0, 100, 1), (1, 120, 1), (2, 9_000, 2), (4, 1 << 30, 4)] {
            let by = 10f64.powi(digits);
            let values: Vec<f64> = (0..1000)
                .map(|i| ((i * 7_919_713_i64) % (2 * spread) - spread) as f64 / by)
                .collect();
            let (out, taken) = back(&Values::F64(values.clone()), 3..998).unwrap();
            let Values::F64(out) = out else {
                panic!("BUG: doubles have become something else");
            };
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&out), bits(&values[3..998]), "{digits} digits");
            assert_eq!(taken, bytes * values.len(), "{digits} digits");
        }
    }

    #[test]
    fn what_is_no_small_decimal_stays_as_it_is() {
        let rest = (0..200).map(f64::from);
        for odd in [-0.0, f64::NAN, f64::INFINITY, 0.1 + 0.2, 1e10, 1e300] {
            // Among the first, and behind those that choose the form.
            for at in [0, 150] {
                let mut values: Vec<f64> = rest.clone().collect();
                values[at] = odd;
                assert!(
                    back(&Values::F64(values), 0..200).is_none(),
                    "{odd} at {at}"
                );
            }
        }
    }

    #[test]
    fn bigints_come_back_where_they_are_small() {
        for (values, bytes) in [
            (vec![], 0),
            (vec![-128, 127], 2),
            (vec![0, 128], 4),
            (vec![-32_769], 4),
            (vec![i64::from(i32::MIN), i64::from(i32::MAX)], 8),
        ] {
            let rows = 0..values.len();
            let values = Values::I64(values);
            assert_eq!(back(&values, rows), Some((values, bytes)));
        }
        assert!(back(&Values::I64(vec![1 << 31]), 0..1).is_none());
        assert!(back(&Values::I64(vec![i64::MIN]), 0..1).is_none());
        assert!(back(&Values::I32(vec![1]), 0..1).is_none());
    }
}
