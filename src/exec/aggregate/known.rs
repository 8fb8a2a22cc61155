//! What headers and directories say of the values of some rows, in place of the values.

use std::ops::Range;
use varve_columns::chunk::BlockEntry;
use varve_columns::summary::{Bound, Sum, Summary};

/// What is known of the values of some rows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub rows: u32,
    pub nulls: u32,
    pub min: Bound,
    pub max: Bound,
    pub sum: Sum,
    /// Of differences from the mean, for floats.
    pub squares: Sum,
}

impl Known {
    pub fn new(rows: u32, nulls: u32, summary: &Summary) -> Known {
        Known {
            rows,
            nulls,
            min: summary.min,
            max: summary.max,
            sum: summary.sum,
            squares: summary.squares,
        }
    }

    /// Of rows, whatever their values.
    pub fn of_rows(rows: u32) -> Known {
        Known::new(rows, 0, &Summary::EMPTY)
    }

    pub fn of_block(block: &BlockEntry) -> Known {
        Known {
            rows: block.rows.len() as u32,
            nulls: block.nulls,
            min: block.min,
            max: block.max,
            sum: block.sum,
            squares: Sum::None,
        }
    }
}

/// Is a run, of a window that begins at row `window`, a block?
pub fn covers(block: &BlockEntry, window: u32, run: &Range<usize>) -> bool {
    block.rows.start == window + run.start as u32 && block.rows.end == window + run.end as u32
}

/// Squares of so small doubles, and sums of as many of them as there can be, are finite.
const SMALL: f64 = 1e100;

pub fn are_small(min: f64, max: f64) -> bool {
    min.abs() <= SMALL && max.abs() <= SMALL
}

/// Can squares of a block's doubles not overflow?
pub fn has_small_values(block: &BlockEntry) -> bool {
    match (&block.min, &block.max) {
        (&Bound::Float(min), &Bound::Float(max)) => are_small(min, max),
        _ => false,
    }
}
