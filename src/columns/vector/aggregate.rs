//! Aggregates over decoded values; `rows` selects some of them (filters, nulls, deleted rows), `None` all.
//!
//! Floats are added in sixteen lanes, so a sum may differ from PostgreSQL's left-to-right sum in its last
//! bits. Variance comes from deviations (two passes over a block, blocks merged as PostgreSQL's
//! `float8_combine` does: Youngs and Cramer 1971, Chan et al. 1979), never from raw squares.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::Bitmap;

/// Sums run in so many independent lanes: two AVX-512 registers.
const LANES: usize = 16;

/// Rows of a step: those of a bitmap word.
const STEP: usize = 64;

/// Count, sum and sum of squared deviations from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    pub count: u64,
    pub sum: f64,
    pub square_deviations: f64,
}

impl Moments {
    pub const EMPTY: Moments = Moments {
        count: 0,
        sum: 0.0,
        square_deviations: 0.0,
    };

    pub fn merge(self, other: Moments) -> Moments {
        if self.count == 0 {
            return other;
        }
        if other.count == 0 {
            return self;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let gap = self.sum / n - other.sum / m;
        Moments {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            square_deviations: self.square_deviations
                + other.square_deviations
                + n * m * gap * gap / (n + m),
        }
    }
}

/// Least and greatest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes<T> {
    pub min: T,
    pub max: T,
}

/// How many values are selected.
pub fn count(values: usize, rows: Option<&Bitmap>) -> usize {
    rows.map_or(values, Bitmap::count)
}

/// First selected value.
pub fn first<T: Copy>(values: &[T], rows: Option<&Bitmap>) -> Option<T> {
    values.get(rows.map_or(Some(0), Bitmap::first)?).copied()
}

/// Last selected value.
pub fn last<T: Copy>(values: &[T], rows: Option<&Bitmap>) -> Option<T> {
    values
        .get(rows.map_or(values.len().checked_sub(1), Bitmap::last)?)
        .copied()
}

/// -0.0 for no rows: the value that adds nothing, not even a sign.
pub fn sum_f64(values: &[f64], rows: Option<&Bitmap>) -> f64 {
    let mut lanes = [-0.0; LANES];
    each_step(values, rows, |values, word| match word {
        u64::MAX => add_all(values, &mut lanes),
        word => add_some(values, word, &mut lanes),
    });
    lanes.iter().sum()
}

/// None for no rows. NaN is the greatest value.
pub fn extremes_f64(values: &[f64], rows: Option<&Bitmap>) -> Option<Extremes<f64>> {
    let mut numbers = Extremes {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };
    let (mut selected, mut nans) = (0, 0);
    each_step(values, rows, |values, word| {
        selected += word_rows(values, word);
        nans += extremes_step(values, word, &mut numbers);
    });
    let Extremes { min, max } = numbers;
    match (selected, nans) {
        (0, _) => None,
        (_, 0) => Some(numbers),
        (selected, nans) if selected == nans => Some(Extremes {
            min: f64::NAN,
            max: f64::NAN,
        }),
        _ => Some(Extremes {
            min,
            max: if nans > 0 { f64::NAN } else { max },
        }),
    }
}

/// For variance and standard deviation.
pub fn moments_f64(values: &[f64], rows: Option<&Bitmap>) -> Moments {
    let count = count(values.len(), rows) as u64;
    if count == 0 {
        return Moments::EMPTY;
    }
    let sum = sum_f64(values, rows);
    let mean = sum / count as f64;
    let mut lanes = [0.0; LANES];
    each_step(values, rows, |values, word| {
        square_some(values, word, mean, &mut lanes)
    });
    Moments {
        count,
        sum,
        square_deviations: lanes.iter().sum(),
    }
}

/// Exact.
pub fn sum_i64(values: &[i64], rows: Option<&Bitmap>) -> i128 {
    let mut total = 0;
    each_step(values, rows, |values, word| total += sum_ints(values, word));
    total
}

/// None for no rows.
pub fn extremes_i64(values: &[i64], rows: Option<&Bitmap>) -> Option<Extremes<i64>> {
    let mut found = Extremes {
        min: i64::MAX,
        max: i64::MIN,
    };
    let mut selected = 0;
    each_step(values, rows, |values, word| {
        selected += word_rows(values, word);
        extremes_ints(values, word, &mut found);
    });
    (selected > 0).then_some(found)
}

/// Exact; None if it does not fit.
pub fn sum_squares_i64(values: &[i64], rows: Option<&Bitmap>) -> Option<i128> {
    let mut total = Some(0i128);
    each_step(values, rows, |values, word| {
        for (bit, value) in values.iter().enumerate() {
            if word == u64::MAX || word >> bit & 1 == 1 {
                let square = i128::from(*value) * i128::from(*value);
                total = total.and_then(|total| total.checked_add(square));
            }
        }
    });
    total
}

/// Calls `step` for each run of up to 64 values with its word of `rows`; skips empty words. Without
/// `rows`, or in a full word, the word is all ones, also for a shorter last run.
fn each_step<T>(values: &[T], rows: Option<&Bitmap>, mut step: impl FnMut(&[T], u64)) {
    let Some(rows) = rows else {
        return values
            .chunks(1024)
            .for_each(|values| step(values, u64::MAX));
    };
    assert_eq!(values.len(), rows.rows(), "BUG: a bitmap of another block");
    for (values, word) in values.chunks(STEP).zip(rows.words()) {
        if *word != 0 {
            step(values, *word);
        }
    }
}

/// Selected rows of a step.
fn word_rows<T>(values: &[T], word: u64) -> usize {
    if word == u64::MAX {
        values.len()
    } else {
        word.count_ones() as usize
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn add_all(values: &[f64], lanes: &mut [f64; LANES]) {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut sums = *lanes;
    for values in whole {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value;
    }
    *lanes = sums;
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn add_some(values: &[f64], word: u64, lanes: &mut [f64; LANES]) {
    masked(values, word, |mask, lane, value| {
        lanes[lane] += f64::from_bits(value.to_bits() & mask | (-0.0f64).to_bits() & !mask);
    });
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn square_some(values: &[f64], word: u64, mean: f64, lanes: &mut [f64; LANES]) {
    masked(values, word, |mask, lane, value| {
        let deviation = f64::from_bits((value - mean).to_bits() & mask);
        lanes[lane] += deviation * deviation;
    });
}

/// Updates the extremes of the numbers; returns how many NaN are selected.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn extremes_step(values: &[f64], word: u64, numbers: &mut Extremes<f64>) -> usize {
    let mut low = [numbers.min; LANES];
    let mut high = [numbers.max; LANES];
    let mut nans = [0u64; LANES];
    masked(values, word, |mask, lane, value| {
        // What is not selected competes as the extreme itself.
        let pick = |other: f64| f64::from_bits(value.to_bits() & mask | other.to_bits() & !mask);
        let (candidate_low, candidate_high) = (pick(low[lane]), pick(high[lane]));
        low[lane] = if candidate_low < low[lane] {
            candidate_low
        } else {
            low[lane]
        };
        high[lane] = if candidate_high > high[lane] {
            candidate_high
        } else {
            high[lane]
        };
        nans[lane] += value.is_nan() as u64 & mask;
    });
    numbers.min = low
        .iter()
        .fold(numbers.min, |a, b| if *b < a { *b } else { a });
    numbers.max = high
        .iter()
        .fold(numbers.max, |a, b| if *b > a { *b } else { a });
    nans.iter().sum::<u64>() as usize
}

/// Calls `each` with a mask of all or no bits, the lane and the value. Inlined into kernels, where the
/// sixteen lanes of a row become vector registers. A word of all ones holds for any number of values.
#[inline(always)]
fn masked(values: &[f64], word: u64, mut each: impl FnMut(u64, usize, f64)) {
    let (rows, rest) = values.as_chunks::<LANES>();
    if word == u64::MAX {
        for row in rows {
            for (lane, value) in row.iter().enumerate() {
                each(u64::MAX, lane, *value);
            }
        }
    } else {
        for (index, row) in rows.iter().enumerate() {
            let bits = word >> (index * LANES);
            for (lane, value) in row.iter().enumerate() {
                each(((bits >> lane) & 1).wrapping_neg(), lane, *value);
            }
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        let selected = word == u64::MAX || word >> (rows.len() * LANES + lane) & 1 == 1;
        each(if selected { u64::MAX } else { 0 }, lane, *value);
    }
}

/// Low and high halves apart: neither overflows in 2^31 rows.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn sum_ints(values: &[i64], word: u64) -> i128 {
    let (mut low, mut high) = (0u64, 0i64);
    if word == u64::MAX {
        for value in values {
            low += *value as u64 & 0xffff_ffff;
            high += *value >> 32;
        }
    } else {
        for (bit, value) in values.iter().enumerate() {
            let value = if word >> bit & 1 == 1 { *value } else { 0 };
            low += value as u64 & 0xffff_ffff;
            high += value >> 32;
        }
    }
    (i128::from(high) << 32) + i128::from(low)
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn extremes_ints(values: &[i64], word: u64, found: &mut Extremes<i64>) {
    let Extremes { mut min, mut max } = *found;
    if word == u64::MAX {
        for value in values {
            min = min.min(*value);
            max = max.max(*value);
        }
    } else {
        for (bit, value) in values.iter().enumerate() {
            let selected = word >> bit & 1 == 1;
            min = min.min(if selected { *value } else { i64::MAX });
            max = max.max(if selected { *value } else { i64::MIN });
        }
    }
    *found = Extremes { min, max };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(i: usize) -> u64 {
        (i as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    }

    /// Bitmaps of `rows` rows: none given, all, some, few, none.
    fn selections(rows: usize) -> Vec<Option<Bitmap>> {
        let flags = |keep: &dyn Fn(usize) -> bool| {
            Bitmap::from_flags(&(0..rows).map(keep).collect::<Vec<_>>())
        };
        vec![
            None,
            Some(Bitmap::all(rows)),
            Some(flags(&|i| noise(i) % 3 == 1)),
            Some(flags(&|i| i % 200 == 199)),
            Some(Bitmap::none(rows)),
        ]
    }

    fn selected<T: Copy>(values: &[T], rows: &Option<Bitmap>) -> Vec<T> {
        let keep = |i: &usize| rows.as_ref().is_none_or(|rows| rows.contains(*i));
        (0..values.len()).filter(keep).map(|i| values[i]).collect()
    }

    const SIZES: [usize; 8] = [0, 1, 15, 64, 65, 1000, 1024, 2500];

    #[test]
    fn doubles_agree_with_a_plain_loop() {
        for n in SIZES {
            let values: Vec<f64> = (0..n)
                .map(|i| (noise(i) % 2000) as f64 / 8.0 - 100.0)
                .collect();
            for rows in selections(n) {
                let plain = selected(&values, &rows);
                let rows = rows.as_ref();
                assert_eq!(count(n, rows), plain.len());
                assert_eq!(first(&values, rows), plain.first().copied());
                assert_eq!(last(&values, rows), plain.last().copied());
                // Eighths add without rounding.
                assert_eq!(sum_f64(&values, rows), plain.iter().sum::<f64>());
                let extremes = extremes_f64(&values, rows);
                assert_eq!(
                    extremes.map(|e| e.min),
                    plain.iter().copied().reduce(f64::min)
                );
                assert_eq!(
                    extremes.map(|e| e.max),
                    plain.iter().copied().reduce(f64::max)
                );
                let moments = moments_f64(&values, rows);
                let mean = plain.iter().sum::<f64>() / plain.len().max(1) as f64;
                let expected: f64 = plain.iter().map(|v| (v - mean) * (v - mean)).sum();
                assert_eq!(moments.count, plain.len() as u64);
                assert!((moments.square_deviations - expected).abs() <= expected * 1e-12);
            }
        }
    }

    #[test]
    fn integers_agree_with_a_plain_loop_at_their_extremes() {
        for n in SIZES {
            let values: Vec<i64> = (0..n)
                .map(|i| match i % 4 {
                    0 => i64::MAX,
                    1 => i64::MIN,
                    2 => -1,
                    _ => noise(i) as i64,
                })
                .collect();
            for rows in selections(n) {
                let plain = selected(&values, &rows);
                let rows = rows.as_ref();
                assert_eq!(
                    sum_i64(&values, rows),
                    plain.iter().map(|v| i128::from(*v)).sum()
                );
                let extremes = extremes_i64(&values, rows);
                assert_eq!(extremes.map(|e| e.min), plain.iter().copied().min());
                assert_eq!(extremes.map(|e| e.max), plain.iter().copied().max());
                let squares = plain.iter().try_fold(0i128, |sum, v| {
                    sum.checked_add(i128::from(*v) * i128::from(*v))
                });
                assert_eq!(sum_squares_i64(&values, rows), squares);
            }
        }
    }

    #[test]
    fn nan_is_the_greatest_double() {
        let extremes = |values: &[f64]| extremes_f64(values, None).map(|e| (e.min, e.max));
        let (min, max) = extremes(&[1.0, f64::NAN, -3.0]).unwrap();
        assert!(min == -3.0 && max.is_nan());
        let (min, max) = extremes(&[f64::NAN]).unwrap();
        assert!(min.is_nan() && max.is_nan());
        assert_eq!(
            extremes(&[f64::INFINITY, f64::INFINITY]),
            Some((f64::INFINITY, f64::INFINITY))
        );
        assert_eq!(extremes(&[]), None);
    }

    #[test]
    fn merged_moments_are_those_of_the_whole() {
        let values: Vec<f64> = (0..3000).map(|i| 1e9 + (noise(i) % 100) as f64).collect();
        let whole = moments_f64(&values, None);
        let merged = values.chunks(700).fold(Moments::EMPTY, |sum, part| {
            sum.merge(moments_f64(part, None))
        });
        assert_eq!(whole.count, merged.count);
        assert!((whole.square_deviations / merged.square_deviations - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_sum_of_negative_zeros_keeps_its_sign() {
        assert!(sum_f64(&[-0.0, -0.0], None).is_sign_negative());
    }
}
