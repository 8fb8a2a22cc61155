//! Groups that go up in the order of time, for a LIMIT above: the table is read slice by slice of time, the first slice with as few
//! rows as the LIMIT lets expect, each one behind it with three times as many. Headers tell how many rows are where. A bucket on
//! the border of two slices goes up twice, the second time right after the first, and core's final step adds both up.

use super::clauses::{Bound, Clause};
use super::conditions::Bounded;
use super::cuts::{Cuts, Stretch, TimeSlice};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::scan::headers;
use varve_columns::vector::filter::Comparison;

/// Rows of a block: a slice decodes one of each chunk, so the first one has as many.
const BLOCK_ROWS: f64 = 1024.0;

/// What a plan says of slices.
#[derive(Clone, Copy)]
pub struct SlicePart {
    /// The time column, from 0.
    pub at: usize,
    pub descending: bool,
    /// Millionths of all rows that the first slice has.
    share: i32,
}

impl SlicePart {
    /// From the numbers that a plan has of it.
    pub fn of(numbers: &[i32]) -> Option<SlicePart> {
        match *numbers {
            [column, descending, share] => Some(SlicePart {
                at: column as usize - 1,
                descending: descending != 0,
                share,
            }),
            _ => None,
        }
    }
}

/// The slices of an execution.
pub struct Slices {
    part: SlicePart,
    cuts: Cuts,
}

impl Slices {
    pub fn new(part: SlicePart) -> Slices {
        let cuts = Cuts::new(part.descending, Vec::new(), 0.0);
        Slices { part, cuts }
    }

    pub fn is_descending(&self) -> bool {
        self.part.descending
    }

    /// Everything is one slice.
    pub fn begin_whole(&mut self) {
        *self = Slices::new(self.part);
    }

    /// Begins with the chunks that conditions leave. Without a series index, everything is one slice.
    ///
    /// # Safety
    /// `table` must be open, `snapshot` registered; `lane` is that of the time column.
    pub unsafe fn begin(
        &mut self,
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        clauses: &[Bound],
        lane: usize,
    ) {
        let (from, to) = wanted_times(clauses, lane);
        let mut chunks: Vec<Stretch> = Vec::new();
        if headers::usable_index(table, snapshot).is_some() {
            headers::each_header(table, snapshot, |_, header| {
                let Ok(header) = header else { return };
                let stretch = headers::times(&header).map(|(first, last)| Stretch {
                    first,
                    last,
                    rows: f64::from(header.rows - header.deleted),
                });
                chunks.extend(stretch.and_then(|stretch| stretch.between(from, to)));
            });
        }
        let all: f64 = chunks.iter().map(|chunk| chunk.rows).sum();
        let least = BLOCK_ROWS * chunks.len() as f64;
        let rows = (all * f64::from(self.part.share) / 1e6).max(least);
        self.cuts = Cuts::new(self.part.descending, chunks, rows);
    }

    /// The next slice.
    pub fn next(&mut self) -> Option<TimeSlice> {
        self.cuts.next()
    }
}

/// First and last of the times that conditions want.
fn wanted_times(clauses: &[Bound], lane: usize) -> (i64, i64) {
    let (mut from, mut to) = (i64::MIN, i64::MAX);
    for clause in clauses {
        match clause {
            Clause::One((Bounded::Int(comparison, time), on)) if *on == lane => match comparison {
                Comparison::Less => to = to.min(time.saturating_sub(1)),
                Comparison::LessOrEqual => to = to.min(*time),
                Comparison::Greater => from = from.max(time.saturating_add(1)),
                Comparison::GreaterOrEqual => from = from.max(*time),
                Comparison::Equal => (from, to) = (*time, *time),
                Comparison::NotEqual => {}
            },
            _ => {}
        }
    }
    (from, to)
}
