//! Comparisons of a column with a constant, into a bitmap. Nulls are the caller's: intersect with the
//! validity.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::Bitmap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// Keeps the rows of `rows` whose value compares so with `constant`. Values are i16, i32 or i64.
pub fn compare_ints<T: Copy + Ord>(
    values: &[T],
    comparison: Comparison,
    constant: T,
    rows: &mut Bitmap,
) {
    match comparison {
        Comparison::Less => keep(values, |v| v < constant, rows),
        Comparison::LessOrEqual => keep(values, |v| v <= constant, rows),
        Comparison::Equal => keep(values, |v| v == constant, rows),
        Comparison::NotEqual => keep(values, |v| v != constant, rows),
        Comparison::GreaterOrEqual => keep(values, |v| v >= constant, rows),
        Comparison::Greater => keep(values, |v| v > constant, rows),
    }
}

/// Lists up to this length are compared one by one with all values at once; in longer ones each value is looked for.
const SHORT_LIST: usize = 16;

/// Keeps the rows of `rows` whose value is in an ascending list.
pub fn among_ints(values: &[i64], wanted: &[i64], rows: &mut Bitmap) {
    assert_eq!(values.len(), rows.rows(), "BUG: a bitmap of another block");
    match wanted.len() {
        0..=SHORT_LIST => keep_among(values, wanted, rows.words_mut()),
        _ => rows.retain(|row| wanted.binary_search(&values[row]).is_ok()),
    }
}

/// The same for doubles in PostgreSQL's order.
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN is above every number: what is not below or equal is above"
)]
pub fn compare_f64(values: &[f64], comparison: Comparison, constant: f64, rows: &mut Bitmap) {
    if constant.is_nan() {
        return match comparison {
            Comparison::Less | Comparison::NotEqual => keep(values, |v| !v.is_nan(), rows),
            Comparison::Equal | Comparison::GreaterOrEqual => keep(values, f64::is_nan, rows),
            Comparison::LessOrEqual => {}
            Comparison::Greater => rows.words_mut().fill(0),
        };
    }
    match comparison {
        Comparison::Less => keep(values, |v| v < constant, rows),
        Comparison::LessOrEqual => keep(values, |v| v <= constant, rows),
        Comparison::Equal => keep(values, |v| v == constant, rows),
        Comparison::NotEqual => keep(values, |v| v != constant, rows),
        Comparison::GreaterOrEqual => keep(values, |v| !(v < constant), rows),
        Comparison::Greater => keep(values, |v| !(v <= constant), rows),
    }
}

/// The same for f32, against a double: as PostgreSQL compares float4 with float8.
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN is above every number: what is not below or equal is above"
)]
pub fn compare_f32(values: &[f32], comparison: Comparison, constant: f64, rows: &mut Bitmap) {
    if constant.is_nan() {
        return match comparison {
            Comparison::Less | Comparison::NotEqual => keep(values, |v| !v.is_nan(), rows),
            Comparison::Equal | Comparison::GreaterOrEqual => keep(values, f32::is_nan, rows),
            Comparison::LessOrEqual => {}
            Comparison::Greater => rows.words_mut().fill(0),
        };
    }
    match comparison {
        Comparison::Less => keep(values, |v| (v as f64) < constant, rows),
        Comparison::LessOrEqual => keep(values, |v| v as f64 <= constant, rows),
        Comparison::Equal => keep(values, |v| v as f64 == constant, rows),
        Comparison::NotEqual => keep(values, |v| v as f64 != constant, rows),
        Comparison::GreaterOrEqual => keep(values, |v| !((v as f64) < constant), rows),
        Comparison::Greater => keep(values, |v| !(v as f64 <= constant), rows),
    }
}

fn keep<T: Copy, M: Fn(T) -> bool + Copy>(values: &[T], matches: M, rows: &mut Bitmap) {
    assert_eq!(values.len(), rows.rows(), "BUG: a bitmap of another block");
    keep_words(values, matches, rows.words_mut());
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(
        targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"),
        dispatcher = "direct"
    )
)]
fn keep_words<T: Copy, M: Fn(T) -> bool + Copy>(values: &[T], matches: M, words: &mut [u64]) {
    let whole = values.chunks_exact(64);
    let rest = whole.remainder();
    for (values, word) in whole.zip(words.iter_mut()) {
        let mut flags = [0u8; 64];
        for (flag, value) in flags.iter_mut().zip(values) {
            *flag = matches(*value) as u8;
        }
        *word &= gather(&flags);
    }
    if !rest.is_empty() {
        let mut flags = [0u8; 64];
        for (flag, value) in flags.iter_mut().zip(rest) {
            *flag = matches(*value) as u8;
        }
        words[values.len() / 64] &= gather(&flags);
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn keep_among(values: &[i64], wanted: &[i64], words: &mut [u64]) {
    for (values, word) in values.chunks(64).zip(words) {
        if *word == 0 {
            continue;
        }
        let mut flags = [0u8; 64];
        for one in wanted {
            for (flag, value) in flags.iter_mut().zip(values) {
                *flag |= (value == one) as u8;
            }
        }
        *word &= gather(&flags);
    }
}

/// Sixty-four flags of 0 or 1 to bits. The product moves the eight flags of a word into its top byte.
#[inline(always)]
fn gather(flags: &[u8; 64]) -> u64 {
    let mut bits = 0;
    for (index, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        let byte = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= byte << (8 * index);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    const ALL: [Comparison; 6] = [
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::GreaterOrEqual,
        Comparison::Greater,
    ];

    fn holds(comparison: Comparison, ordering: Ordering) -> bool {
        match comparison {
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
            Comparison::Greater => ordering.is_gt(),
        }
    }

    /// PostgreSQL's float8_cmp_internal.
    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    #[test]
    fn floats_compare_as_postgres_does() {
        let pool = [
            0.0,
            -0.0,
            1.5,
            -1.5,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-310,
            3.0,
        ];
        for rows in [0, 1, 63, 64, 65, 200] {
            let values: Vec<f64> = (0..rows).map(|i| pool[i * 7 % 9]).collect();
            let singles: Vec<f32> = values.iter().map(|v| *v as f32).collect();
            for constant in pool {
                for comparison in ALL {
                    let mut found = Bitmap::all(rows);
                    compare_f64(&values, comparison, constant, &mut found);
                    let flags: Vec<bool> = values
                        .iter()
                        .map(|v| holds(comparison, order(*v, constant)))
                        .collect();
                    assert_eq!(
                        found,
                        Bitmap::from_flags(&flags),
                        "{comparison:?} {constant}"
                    );
                    let mut found = Bitmap::all(rows);
                    compare_f32(&singles, comparison, constant, &mut found);
                    let flags: Vec<bool> = singles
                        .iter()
                        .map(|v| holds(comparison, order(*v as f64, constant)))
                        .collect();
                    assert_eq!(
                        found,
                        Bitmap::from_flags(&flags),
                        "{comparison:?} {constant}"
                    );
                }
            }
        }
    }

    #[test]
    fn ints_are_looked_for_in_lists_of_any_length() {
        let values: Vec<i64> = (0..150).map(|i| i * 37 % 101 - 50).collect();
        for length in [0, 1, 8, SHORT_LIST, SHORT_LIST + 1, 60] {
            let wanted: Vec<i64> = (0..length as i64).map(|i| i * 2 - 40).collect();
            let mut found = Bitmap::all(150);
            found.remove(7);
            among_ints(&values, &wanted, &mut found);
            let flags: Vec<bool> = (0..150)
                .map(|i| i != 7 && wanted.contains(&values[i]))
                .collect();
            assert_eq!(found, Bitmap::from_flags(&flags), "{length}");
        }
    }

    #[test]
    fn ints_compare_and_only_narrow_the_rows() {
        let values: Vec<i32> = (0..150).map(|i| i * 37 % 101 - 50).collect();
        for comparison in ALL {
            let mut found = Bitmap::all(150);
            found.remove(7);
            compare_ints(&values, comparison, values[7], &mut found);
            let flags: Vec<bool> = (0..150)
                .map(|i| i != 7 && holds(comparison, values[i].cmp(&values[7])))
                .collect();
            assert_eq!(found, Bitmap::from_flags(&flags));
        }
    }
}
