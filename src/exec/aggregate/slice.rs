//! Values on their way into states.

use std::ops::Range;

/// Values of some rows of a block; slots of nulls hold anything.
#[derive(Clone, Copy)]
pub enum Slice<'a> {
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    /// Of some other type: only their number counts.
    Others(usize),
}

impl<'a> Slice<'a> {
    pub fn len(&self) -> usize {
        match self {
            Slice::Ints(values) => values.len(),
            Slice::Floats(values) => values.len(),
            Slice::Others(count) => *count,
        }
    }

    pub fn part(&self, range: Range<usize>) -> Slice<'a> {
        match self {
            Slice::Ints(values) => Slice::Ints(&values[range]),
            Slice::Floats(values) => Slice::Floats(&values[range]),
            Slice::Others(_) => Slice::Others(range.len()),
        }
    }
}
