//! The non-null values of a stretch of one column, widened to the few shapes that codecs take; and what
//! the summaries say about them.

use std::ops::Range;

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use crate::codec::bytes::Strings;
use crate::codec::numeric;
use crate::column::{Column, Kind, Values};
use crate::summary::{Bound, Prefix, Sum, Summary};

/// Non-null values of a block.
pub enum Dense {
    Ints(Vec<i64>),
    F64(Vec<f64>),
    F32(Vec<f32>),
    Fixed(Vec<u8>, usize),
    Strings {
        ends: Vec<u32>,
        data: Vec<u8>,
    },
    /// Numerics that are scaled integers.
    Scaled(u16, Vec<i64>),
}

impl Dense {
    /// The values of `rows` that are not null.
    pub fn gather(column: &Column, rows: Range<usize>) -> Dense {
        let valid = column.validity.as_ref().map(|v| &v[rows.clone()]);
        match &column.values {
            Values::Absent(_) => Dense::Ints(Vec::new()),
            Values::Bool(v) => Dense::Ints(pick(&v[rows], valid, |&b| i64::from(b))),
            Values::I16(v) => Dense::Ints(pick(&v[rows], valid, |&i| i64::from(i))),
            Values::I32(v) => Dense::Ints(pick(&v[rows], valid, |&i| i64::from(i))),
            Values::I64(v) => Dense::Ints(pick(&v[rows], valid, |&i| i)),
            Values::F32(v) => Dense::F32(pick(&v[rows], valid, |&f| f)),
            Values::F64(v) => Dense::F64(pick(&v[rows], valid, |&f| f)),
            Values::Fixed { width, data } => {
                let width = *width as usize;
                let mut out = Vec::with_capacity(rows.len() * width);
                for (i, value) in data[rows.start * width..rows.end * width]
                    .chunks_exact(width)
                    .enumerate()
                {
                    if valid.is_none_or(|v| v[i]) {
                        out.extend_from_slice(value);
                    }
                }
                Dense::Fixed(out, width)
            }
            Values::Bytes { ends, data } => {
                let all = Strings { ends, data };
                let (mut ends, mut data) = (Vec::with_capacity(rows.len()), Vec::new());
                for row in rows.clone() {
                    if valid.is_none_or(|v| v[row - rows.start]) {
                        data.extend_from_slice(all.get(row));
                        ends.push(data.len() as u32);
                    }
                }
                Dense::of_strings(column.kind, ends, data)
            }
        }
    }

    fn of_strings(kind: Kind, ends: Vec<u32>, data: Vec<u8>) -> Dense {
        if kind == Kind::Numeric {
            if let Some((scale, values)) = numeric::scaled(Strings {
                ends: &ends,
                data: &data,
            }) {
                return Dense::Scaled(scale, values);
            }
        }
        Dense::Strings { ends, data }
    }

    pub fn len(&self) -> usize {
        match self {
            Dense::Ints(v) | Dense::Scaled(_, v) => v.len(),
            Dense::F64(v) => v.len(),
            Dense::F32(v) => v.len(),
            Dense::Fixed(data, width) => data.len() / width,
            Dense::Strings { ends, .. } => ends.len(),
        }
    }

    /// Summary of at least one value. `squares` is left out.
    pub fn summarize(&self, kind: Kind) -> Summary {
        let count = self.len() as u32;
        let (min, max, sum, first, last) = match self {
            Dense::Ints(v) => {
                let (min, max, sum) = int_stats(v);
                (
                    Bound::Int(min),
                    Bound::Int(max),
                    Sum::Int(sum),
                    Bound::Int(v[0]),
                    Bound::Int(v[v.len() - 1]),
                )
            }
            Dense::Scaled(scale, v) => {
                let scale = *scale;
                let bound = |unscaled| Bound::Decimal { unscaled, scale };
                let (min, max, unscaled) = int_stats(v);
                let sum = Sum::Decimal { unscaled, scale };
                (
                    bound(min),
                    bound(max),
                    sum,
                    bound(v[0]),
                    bound(v[v.len() - 1]),
                )
            }
            Dense::F64(v) => float_summary(v),
            Dense::F32(v) => float_summary(&widen(v)),
            Dense::Fixed(data, width) => string_summary(|| data.chunks_exact(*width)),
            Dense::Strings { .. } if kind == Kind::Numeric => (
                Bound::None,
                Bound::None,
                Sum::None,
                Bound::None,
                Bound::None,
            ),
            Dense::Strings { ends, data } => string_summary(|| {
                let strings = Strings { ends, data };
                (0..ends.len()).map(move |i| strings.get(i))
            }),
        };
        Summary {
            count,
            min,
            max,
            sum,
            squares: Sum::None,
            first,
            last,
        }
    }

    /// What `Summary::squares` describes, around the given mean for floats; exact for integers.
    pub fn squares(&self, mean: f64) -> Sum {
        match self {
            Dense::Ints(v) => match v.iter().try_fold(0i128, |sum, &i| {
                i32::try_from(i)
                    .ok()
                    .map(|i| sum + i128::from(i64::from(i) * i64::from(i)))
            }) {
                Some(sum) => Sum::Int(sum),
                None => Sum::None,
            },
            Dense::F64(v) => Sum::Float(square_differences(v, mean)),
            Dense::F32(v) => Sum::Float(square_differences(&widen(v), mean)),
            _ => Sum::None,
        }
    }
}

fn pick<T, U>(values: &[T], valid: Option<&[bool]>, widen: impl Fn(&T) -> U) -> Vec<U> {
    match valid {
        None => values.iter().map(widen).collect(),
        Some(valid) => values
            .iter()
            .zip(valid)
            .filter(|(_, &ok)| ok)
            .map(|(v, _)| widen(v))
            .collect(),
    }
}

fn int_stats(values: &[i64]) -> (i64, i64, i128) {
    let (min, max) = values
        .iter()
        .fold((i64::MAX, i64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let range = max.wrapping_sub(min) as u64;
    // Differences to the minimum cannot overflow 64 bits where the range leaves room for all of them.
    let sum = if range < u64::MAX / values.len() as u64 {
        let offsets: u64 = values.iter().map(|&v| v.wrapping_sub(min) as u64).sum();
        i128::from(min) * values.len() as i128 + i128::from(offsets)
    } else {
        values.iter().map(|&v| i128::from(v)).sum()
    };
    (min, max, sum)
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&f| f64::from(f)).collect()
}

const LANES: usize = 8;

/// What eight lanes found in every eighth value.
struct Lanes {
    low: [f64; LANES],
    high: [f64; LANES],
    sum: [f64; LANES],
    nans: [u64; LANES],
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn scan_floats(values: &[f64], lanes: &mut Lanes) {
    let mut add = |i: usize, value: f64| {
        lanes.low[i] = if value < lanes.low[i] {
            value
        } else {
            lanes.low[i]
        };
        lanes.high[i] = if value > lanes.high[i] {
            value
        } else {
            lanes.high[i]
        };
        lanes.sum[i] += value;
        lanes.nans[i] += u64::from(value.is_nan());
    };
    let (groups, tail) = values.as_chunks::<LANES>();
    for group in groups {
        for (i, &value) in group.iter().enumerate() {
            add(i, value);
        }
    }
    tail.iter()
        .enumerate()
        .for_each(|(i, &value)| add(i, value));
}

/// Sum of squared differences from the mean, in eight lanes.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn square_differences(values: &[f64], mean: f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (groups, tail) = values.as_chunks::<LANES>();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane += (value - mean) * (value - mean);
        }
    }
    let tail: f64 = tail
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    lanes.iter().sum::<f64>() + tail
}

fn float_summary(values: &[f64]) -> (Bound, Bound, Sum, Bound, Bound) {
    let mut lanes = Lanes {
        low: [f64::INFINITY; LANES],
        high: [f64::NEG_INFINITY; LANES],
        // The sum of nothing, so that a sum of -0.0 alone is -0.0 as well.
        sum: [-0.0; LANES],
        nans: [0; LANES],
    };
    scan_floats(values, &mut lanes);
    let nans: u64 = lanes.nans.iter().sum();
    // Adding 0.0 turns -0.0 into 0.0.
    let mut min = lanes.low.into_iter().fold(f64::INFINITY, f64::min) + 0.0;
    let mut max = lanes.high.into_iter().fold(f64::NEG_INFINITY, f64::max) + 0.0;
    if nans > 0 {
        max = f64::NAN;
    }
    if nans == values.len() as u64 {
        min = f64::NAN;
    }
    let sum = lanes.sum.iter().sum();
    let (first, last) = (values[0], values[values.len() - 1]);
    (
        Bound::Float(min),
        Bound::Float(max),
        Sum::Float(sum),
        Bound::Float(first),
        Bound::Float(last),
    )
}

fn string_summary<'a, I>(values: impl Fn() -> I) -> (Bound, Bound, Sum, Bound, Bound)
where
    I: Iterator<Item = &'a [u8]>,
{
    let (mut min, mut max, mut first, mut last) = (None, None, None, None);
    for value in values() {
        min = min.filter(|&m| m <= value).or(Some(value));
        max = max.filter(|&m| m >= value).or(Some(value));
        first = first.or(Some(value));
        last = Some(value);
    }
    let floor = |v: Option<&[u8]>| v.map_or(Bound::None, |v| Bound::Prefix(Prefix::floor(v)));
    let ceil = max
        .and_then(Prefix::ceil)
        .map_or(Bound::None, Bound::Prefix);
    (floor(min), ceil, Sum::None, floor(first), floor(last))
}
