//! States that the node keeps itself: of counts, sums, averages, extremes and moments over numbers, times and booleans. A state is
//! three words. Each fold has two forms, over a vector and over one value; both do what core's transition function does.
//!
//! Doubles are added in lanes, block by block, and blocks are combined as core combines the states of parallel workers. Where a
//! result is not finite, the block is added again row by row, as core would, so that it raises what core raises.

use super::known::{are_small, Known};
use super::slice::Slice;
use crate::pg::error::{self, Code};
use crate::pg::Datum;
use varve_columns::summary::{compare_floats, Bound, Sum};
use varve_columns::vector::aggregate;
use varve_columns::vector::Bitmap;

/// A state; zeroes are the empty one.
pub type Cell = [u64; 3];

/// What is kept, by the transition function that it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fold {
    /// `count(*)`: [rows].
    Rows,
    /// `count(x)`: [values].
    Values,
    /// Sums of integers: [low, high, values].
    SumInt(SumOf),
    /// Extremes of what is stored as integers: [value, is there one].
    LeastInt,
    GreatestInt,
    /// Extremes of floats, as doubles: [bits, is there one].
    LeastFloat(Width),
    GreatestFloat(Width),
    /// `float8pl` and `float4pl`: [bits, is there one].
    SumFloat(Width),
    /// N, Sx, Sxx: as bits of doubles.
    Moments,
}

/// How a sum of integers goes up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SumOf {
    /// A bigint, null for no values.
    Int8,
    /// `{count, sum}`.
    Pair,
    /// What int8_avg_accum keeps, serialized.
    Poly,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Width {
    Single,
    Double,
}

/// Up to so many values are looked at one by one: a kernel takes longer to begin.
const FEW: usize = 16;

impl Fold {
    /// Adds the selected values; none of them is null.
    pub fn vector(self, cell: &mut Cell, values: Slice, rows: Option<&Bitmap>) {
        match (self, values) {
            (Fold::LeastInt | Fold::GreatestInt, Slice::Ints(values))
                if rows.is_none() && values.len() <= FEW =>
            {
                values.iter().for_each(|&value| self.offer_int(cell, value));
            }
            (Fold::LeastFloat(_), Slice::Floats(values))
                if rows.is_none() && values.len() <= FEW =>
            {
                offer_floats(cell, values, is_less);
            }
            (Fold::GreatestFloat(_), Slice::Floats(values))
                if rows.is_none() && values.len() <= FEW =>
            {
                offer_floats(cell, values, |kept, value| is_less(value, kept));
            }
            (Fold::Rows | Fold::Values, values) => {
                cell[0] += aggregate::count(values.len(), rows) as u64;
            }
            (Fold::SumInt(_), Slice::Ints(values)) => {
                let count = aggregate::count(values.len(), rows);
                add_ints(cell, aggregate::sum_i64(values, rows), count as u64);
            }
            (Fold::LeastInt | Fold::GreatestInt, Slice::Ints(values)) => {
                if let Some(found) = aggregate::extremes_i64(values, rows) {
                    self.offer_int(cell, found.min);
                    self.offer_int(cell, found.max);
                }
            }
            (Fold::LeastFloat(_) | Fold::GreatestFloat(_), Slice::Floats(values)) => {
                if let Some(found) = aggregate::extremes_f64(values, rows) {
                    self.offer_float(cell, found.min);
                    self.offer_float(cell, found.max);
                }
            }
            (Fold::SumFloat(Width::Double), Slice::Floats(values)) => {
                sum_doubles(cell, values, rows);
            }
            (Fold::SumFloat(Width::Single), Slice::Floats(values)) => {
                each(values, rows, |value| add_single(cell, value as f32));
            }
            (Fold::Moments, Slice::Floats(values)) => add_moments(cell, values, rows),
            (fold, _) => panic!("BUG: {fold:?} of values of another kind"),
        }
    }

    /// Adds the selected values to a state of which nothing but the mean is wanted; None where that is not finite.
    pub fn mean(self, cell: &Cell, values: Slice, rows: Option<&Bitmap>) -> Option<Cell> {
        let (Fold::Moments, Slice::Floats(values)) = (self, values) else {
            return None;
        };
        match aggregate::count(values.len(), rows) {
            0 => Some(*cell),
            count => with_moments(cell, count as u64, aggregate::sum_f64(values, rows), 0.0),
        }
    }

    /// Adds one value that is not null.
    pub fn value(self, cell: &mut Cell, value: Datum, bytes: i16) {
        match self {
            Fold::Rows | Fold::Values => cell[0] += 1,
            Fold::SumInt(_) => add_ints(cell, i128::from(int_of(value, bytes)), 1),
            Fold::LeastInt | Fold::GreatestInt => self.offer_int(cell, int_of(value, bytes)),
            Fold::LeastFloat(width) | Fold::GreatestFloat(width) => {
                self.offer_float(cell, float_of(value, width));
            }
            Fold::SumFloat(Width::Double) => add_double(cell, float_of(value, Width::Double)),
            Fold::SumFloat(Width::Single) => {
                add_single(cell, float_of(value, Width::Single) as f32);
            }
            Fold::Moments => {
                let width = match bytes {
                    4 => Width::Single,
                    _ => Width::Double,
                };
                accumulate(cell, float_of(value, width));
            }
        }
    }

    fn offer_int(self, cell: &mut Cell, value: i64) {
        let kept = cell[0] as i64;
        let better = match self {
            Fold::LeastInt => value < kept,
            _ => value > kept,
        };
        if cell[1] == 0 || better {
            *cell = [value as u64, 1, 0];
        }
    }

    /// Core keeps the later one of equal values, and those of different sign are equal.
    fn offer_float(self, cell: &mut Cell, value: f64) {
        if !self.beats(cell, value) {
            *cell = [value.to_bits(), 1, 0];
        }
    }

    /// Is there a value already that stays, whatever the sign of `value` is if that is zero?
    fn beats(self, cell: &Cell, value: f64) -> bool {
        let order = compare_floats(f64::from_bits(cell[0]), value);
        cell[1] != 0
            && match self {
                Fold::LeastFloat(_) => order.is_lt(),
                _ => order.is_gt(),
            }
    }

    /// The state with what is known of some values, instead of themselves; None where that does not say what they do: of zeroes
    /// the bounds do not tell the sign, of sums that are not finite not what core would raise, and `float4pl` rounds each one. The mean alone needs
    /// no squares, as long as these could not overflow.
    pub fn with(self, cell: &Cell, known: &Known, mean_only: bool) -> Option<Cell> {
        let mut cell = *cell;
        let values = known.rows - known.nulls;
        match (self, &known.min, &known.max, &known.sum) {
            (Fold::Rows, ..) => cell[0] += u64::from(known.rows),
            (Fold::Values, ..) => cell[0] += u64::from(values),
            _ if values == 0 => {}
            (Fold::SumInt(_), _, _, &Sum::Int(sum)) => add_ints(&mut cell, sum, values.into()),
            (Fold::LeastInt, &Bound::Int(min), ..) => self.offer_int(&mut cell, min),
            (Fold::GreatestInt, _, &Bound::Int(max), _) => self.offer_int(&mut cell, max),
            (Fold::LeastFloat(_), &Bound::Float(bound), ..)
            | (Fold::GreatestFloat(_), _, &Bound::Float(bound), _) => {
                if bound == 0.0 && !self.beats(&cell, bound) {
                    return None;
                }
                self.offer_float(&mut cell, bound);
            }
            (Fold::SumFloat(Width::Double), _, _, &Sum::Float(sum)) => {
                let total = match cell[1] {
                    0 => sum,
                    _ => f64::from_bits(cell[0]) + sum,
                };
                if !total.is_finite() {
                    return None;
                }
                cell = [total.to_bits(), 1, 0];
            }
            (Fold::Moments, &Bound::Float(min), &Bound::Float(max), &Sum::Float(sum)) => {
                let squares = match known.squares {
                    Sum::Float(squares) => squares,
                    _ if mean_only && are_small(min, max) => 0.0,
                    _ => return None,
                };
                cell = with_moments(&cell, values.into(), sum, squares)?;
            }
            _ => return None,
        }
        Some(cell)
    }

    /// May what is known of values without decoding them be enough?
    pub fn is_told(self) -> bool {
        self != Fold::SumFloat(Width::Single)
    }

    pub fn is_extreme(self) -> bool {
        use Fold::{GreatestFloat, GreatestInt, LeastFloat, LeastInt};
        matches!(
            self,
            LeastInt | GreatestInt | LeastFloat(_) | GreatestFloat(_)
        )
    }

    /// Is the state an extreme that no values change which lie between these bounds?
    pub fn is_unmoved_by(self, cell: &Cell, known: &Known) -> bool {
        self.is_extreme() && self.with(cell, known, false) == Some(*cell)
    }
}

/// The integer in a datum of so many bytes.
pub fn int_of(value: Datum, bytes: i16) -> i64 {
    match bytes {
        1 => i64::from(value.value() as i8),
        2 => i64::from(value.value() as i16),
        4 => i64::from(value.value() as i32),
        _ => value.value() as i64,
    }
}

pub fn float_of(value: Datum, width: Width) -> f64 {
    match width {
        Width::Single => f64::from(f32::from_bits(value.value() as u32)),
        Width::Double => f64::from_bits(value.value() as u64),
    }
}

pub fn int_sum(cell: &Cell) -> i128 {
    (u128::from(cell[0]) | u128::from(cell[1]) << 64) as i128
}

/// As `compare_floats` has it.
#[inline(always)]
fn is_less(one: f64, other: f64) -> bool {
    one < other || other.is_nan() && !one.is_nan()
}

/// `offer_float` of each value, of an extreme that stays where `stays` says so of it and the value.
#[inline(always)]
fn offer_floats(cell: &mut Cell, values: &[f64], stays: impl Fn(f64, f64) -> bool) {
    let (mut kept, mut rest) = (f64::from_bits(cell[0]), values);
    if cell[1] == 0 {
        let Some((&first, others)) = values.split_first() else {
            return;
        };
        (kept, rest) = (first, others);
    }
    for &value in rest {
        if !stays(kept, value) {
            kept = value;
        }
    }
    *cell = [kept.to_bits(), 1, 0];
}

fn add_ints(cell: &mut Cell, sum: i128, count: u64) {
    let total = int_sum(cell).wrapping_add(sum) as u128;
    *cell = [total as u64, (total >> 64) as u64, cell[2] + count];
}

fn each(values: &[f64], rows: Option<&Bitmap>, mut visit: impl FnMut(f64)) {
    match rows {
        None => values.iter().for_each(|&value| visit(value)),
        Some(rows) => rows.iter().for_each(|row| visit(values[row])),
    }
}

fn sum_doubles(cell: &mut Cell, values: &[f64], rows: Option<&Bitmap>) {
    if aggregate::count(values.len(), rows) == 0 {
        return;
    }
    let sum = aggregate::sum_f64(values, rows);
    let total = match cell[1] {
        0 => sum,
        _ => f64::from_bits(cell[0]) + sum,
    };
    if total.is_finite() {
        *cell = [total.to_bits(), 1, 0];
    } else {
        each(values, rows, |value| add_double(cell, value));
    }
}

/// float8pl.
fn add_double(cell: &mut Cell, value: f64) {
    if cell[1] == 0 {
        *cell = [value.to_bits(), 1, 0];
        return;
    }
    let kept = f64::from_bits(cell[0]);
    let sum = kept + value;
    if sum.is_infinite() && !kept.is_infinite() && !value.is_infinite() {
        overflow();
    }
    cell[0] = sum.to_bits();
}

/// float4pl.
fn add_single(cell: &mut Cell, value: f32) {
    if cell[1] == 0 {
        *cell = [f64::from(value).to_bits(), 1, 0];
        return;
    }
    let kept = f64::from_bits(cell[0]) as f32;
    let sum = kept + value;
    if sum.is_infinite() && !kept.is_infinite() && !value.is_infinite() {
        overflow();
    }
    cell[0] = f64::from(sum).to_bits();
}

fn add_moments(cell: &mut Cell, values: &[f64], rows: Option<&Bitmap>) {
    let block = aggregate::moments_f64(values, rows);
    if block.count == 0 {
        return;
    }
    match with_moments(cell, block.count, block.sum, block.square_deviations) {
        Some(combined) => *cell = combined,
        None => each(values, rows, |value| accumulate(cell, value)),
    }
}

/// A state of moments and that of other values, combined as float8_combine does it; None where that is not finite.
fn with_moments(cell: &Cell, count: u64, other: f64, deviations: f64) -> Option<Cell> {
    let [n, sum, squares] = cell.map(f64::from_bits);
    let m = count as f64;
    let combined = if n == 0.0 {
        [m, other, deviations]
    } else {
        let total = n + m;
        let gap = sum / n - other / m;
        let between = n * m * gap * gap / total;
        [total, sum + other, squares + deviations + between]
    };
    let is_finite = combined.iter().all(|part| part.is_finite());
    is_finite.then(|| combined.map(f64::to_bits))
}

/// float8_accum.
fn accumulate(cell: &mut Cell, value: f64) {
    let [before, sum, squares] = cell.map(f64::from_bits);
    let count = before + 1.0;
    let total = sum + value;
    let mut deviations = squares;
    if before > 0.0 {
        let gap = value * count - total;
        deviations += gap * gap / (count * before);
        if total.is_infinite() || deviations.is_infinite() {
            if !sum.is_infinite() && !value.is_infinite() {
                overflow();
            }
            deviations = f64::NAN;
        }
    } else if !value.is_finite() {
        deviations = f64::NAN;
    }
    *cell = [count, total, deviations].map(f64::to_bits);
}

#[cold]
fn overflow() -> ! {
    error::raise(
        Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: overflow",
        "",
        "",
    )
}
