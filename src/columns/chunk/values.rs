//! The non-null values of a stretch of one column, widened to the few shapes that codecs take; and what
//! the summaries say about them.

use std::ops::Range;

use crate::codec::bytes::Strings;
use crate::codec::numeric;
use crate::column::{Column, Kind, Values};
use crate::summary::{compare_floats, Bound, Prefix, Sum, Summary};

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
            Dense::F64(v) => float_summary(v, |&f| f),
            Dense::F32(v) => float_summary(v, |&f| f64::from(f)),
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
            Dense::F64(v) => Sum::Float(lane_sum(v, |&f| (f - mean) * (f - mean))),
            Dense::F32(v) => Sum::Float(lane_sum(v, |&f| {
                (f64::from(f) - mean) * (f64::from(f) - mean)
            })),
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

const LANES: usize = 8;

/// Sum in eight lanes that are added up at the end.
fn lane_sum<T>(values: &[T], term: impl Fn(&T) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let groups = values.chunks_exact(LANES);
    let tail: f64 = groups.remainder().iter().map(&term).sum();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane += term(value);
        }
    }
    lanes.iter().sum::<f64>() + tail
}

fn float_summary<T>(values: &[T], widen: impl Fn(&T) -> f64) -> (Bound, Bound, Sum, Bound, Bound) {
    let (mut low, mut high) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let mut nans = [0u64; LANES];
    for group in values.chunks(LANES) {
        for (i, value) in group.iter().enumerate() {
            let value = widen(value);
            low[i] = if value < low[i] { value } else { low[i] };
            high[i] = if value > high[i] { value } else { high[i] };
            nans[i] += u64::from(value.is_nan());
        }
    }
    let nans: u64 = nans.iter().sum();
    let fold = |lanes: [f64; LANES], worse| {
        lanes
            .into_iter()
            .reduce(|a, b| if compare_floats(a, b) == worse { b } else { a })
            .unwrap_or(0.0)
    };
    // Adding 0.0 turns -0.0 into 0.0.
    let min = fold(low, std::cmp::Ordering::Greater) + 0.0;
    let max = fold(high, std::cmp::Ordering::Less) + 0.0;
    let min = if nans == values.len() as u64 {
        f64::NAN
    } else {
        min
    };
    let max = if nans > 0 { f64::NAN } else { max };
    let sum = lane_sum(values, &widen);
    let (first, last) = (widen(&values[0]), widen(&values[values.len() - 1]));
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
