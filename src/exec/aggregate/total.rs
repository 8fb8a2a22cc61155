//! What values say together, added up block by block.

use super::known::Known;
use super::slice::Slice;
use varve_columns::summary::{Bound, Sum, Summary};
use varve_columns::vector::aggregate::{self, Extremes, Moments};
use varve_columns::vector::Bitmap;

/// Of values that were met so far.
#[derive(Default)]
pub struct Total {
    count: u32,
    ints: Option<Extremes<i64>>,
    floats: Option<Extremes<f64>>,
    int_sum: i128,
    float_sum: Option<f64>,
    moments: Option<Moments>,
}

impl Total {
    /// Adds all values of a block, or counts them, by what is known of them; false where that does not say.
    pub fn add_known(&mut self, known: &Known, is_counted: bool) -> bool {
        let count = known.rows - known.nulls;
        match (known.min, known.max, known.sum) {
            _ if count == 0 || is_counted => {}
            (Bound::Int(min), Bound::Int(max), Sum::Int(sum)) => {
                self.int_sum += sum;
                self.add_ints(Some(Extremes { min, max }));
            }
            (Bound::Float(min), Bound::Float(max), Sum::Float(sum)) if sum.is_finite() => {
                self.add_floats(Some(Extremes { min, max }), sum);
            }
            _ => return false,
        }
        self.count += count;
        true
    }

    fn add_ints(&mut self, found: Option<Extremes<i64>>) {
        self.ints = match (self.ints, found) {
            (Some(one), Some(other)) => Some(Extremes {
                min: one.min.min(other.min),
                max: one.max.max(other.max),
            }),
            (one, other) => one.or(other),
        };
    }

    fn add_floats(&mut self, found: Option<Extremes<f64>>, sum: f64) {
        self.floats = match (self.floats, found) {
            (Some(one), Some(other)) => Some(both(one, other)),
            (one, other) => one.or(other),
        };
        self.float_sum = Some(self.float_sum.map_or(sum, |known| known + sum));
    }

    pub fn add(&mut self, values: Slice, rows: &Bitmap, with_squares: bool) {
        let rows = (!rows.is_all()).then_some(rows);
        self.count += aggregate::count(values.len(), rows) as u32;
        match values {
            Slice::Ints(values) => {
                self.int_sum += aggregate::sum_i64(values, rows);
                self.add_ints(aggregate::extremes_i64(values, rows));
            }
            Slice::Floats(values) => {
                if with_squares {
                    let known = self.moments.unwrap_or(Moments::EMPTY);
                    self.moments = Some(known.merge(aggregate::moments_f64(values, rows)));
                }
                let sum = aggregate::sum_f64(values, rows);
                self.add_floats(aggregate::extremes_f64(values, rows), sum);
            }
            Slice::Others(_) => {}
        }
    }

    pub fn summary(&self, with_squares: bool) -> Summary {
        let mut summary = Summary {
            count: self.count,
            ..Summary::EMPTY
        };
        if let Some(Extremes { min, max }) = self.ints {
            (summary.min, summary.max) = (Bound::Int(min), Bound::Int(max));
            summary.sum = Sum::Int(self.int_sum);
        }
        if let (Some(Extremes { min, max }), Some(sum)) = (self.floats, self.float_sum) {
            (summary.min, summary.max) = (Bound::Float(min), Bound::Float(max));
            summary.sum = Sum::Float(sum);
        }
        if let (Some(moments), true) = (self.moments, with_squares) {
            summary.squares = Sum::Float(moments.square_deviations);
        }
        summary
    }
}

/// NaN is the greatest value.
fn both(one: Extremes<f64>, other: Extremes<f64>) -> Extremes<f64> {
    Extremes {
        min: one.min.min(other.min),
        max: match one.max.is_nan() {
            true => one.max,
            false if other.max.is_nan() => other.max,
            false => one.max.max(other.max),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_the_greatest_value() {
        let of = |min, max| Extremes { min, max };
        let (plain, nans) = (of(1.0, 2.0), of(f64::NAN, f64::NAN));
        let mixed = both(plain, nans);
        assert!(mixed.min == 1.0 && mixed.max.is_nan());
        let mixed = both(nans, plain);
        assert!(mixed.min == 1.0 && mixed.max.is_nan());
        assert!(both(nans, nans).min.is_nan());
        assert_eq!(both(plain, of(-1.0, 1.5)), of(-1.0, 2.0));
    }

    #[test]
    fn values_that_are_left_are_added_up() {
        let mut total = Total::default();
        let mut rows = Bitmap::all(4);
        rows.remove(2);
        total.add(Slice::Floats(&[1.0, 4.0, 99.0, 1.0]), &rows, true);
        total.add(Slice::Floats(&[6.0]), &Bitmap::all(1), true);
        total.add(Slice::Floats(&[7.0]), &Bitmap::none(1), true);
        let known = Known {
            rows: 3,
            nulls: 3,
            min: Bound::None,
            max: Bound::None,
            sum: Sum::None,
            squares: Sum::None,
        };
        assert!(total.add_known(&known, false));
        assert!(!total.add_known(&Known { nulls: 2, ..known }, false));
        let summary = total.summary(true);
        assert_eq!(summary.count, 4);
        assert_eq!(summary.min, Bound::Float(1.0));
        assert_eq!(summary.max, Bound::Float(6.0));
        assert_eq!(summary.sum, Sum::Float(12.0));
        assert_eq!(summary.squares, Sum::Float(18.0));
    }
}
