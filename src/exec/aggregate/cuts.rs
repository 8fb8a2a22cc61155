//! Cutting time into slices of so many rows each, one after the other in one direction, by what is known of stretches of rows.
//! Every time is in one slice. Nothing here knows PostgreSQL: `make check` runs the tests.

/// How many more rows a slice has than the one before it.
const GROWTH: f64 = 3.0;

/// Times of a slice: from the first on, and before the second; None: all there are.
pub type TimeSlice = (Option<i64>, Option<i64>);

/// Rows, taken to be as many at each time from the first to the last.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub first: i64,
    pub last: i64,
    pub rows: f64,
}

impl Stretch {
    /// The part of it from one time to another, both included.
    pub fn between(self, from: i64, to: i64) -> Option<Stretch> {
        let (first, last) = (self.first.max(from), self.last.min(to));
        let width = |first: i64, last: i64| i128::from(last) - i128::from(first) + 1;
        (first <= last).then(|| Stretch {
            first,
            last,
            rows: self.rows * (width(first, last) as f64 / width(self.first, self.last) as f64),
        })
    }
}

/// The slices, one after the other.
#[derive(Debug)]
pub struct Cuts {
    descending: bool,
    stretches: Vec<Stretch>,
    /// Rows of the next slice, and of those before it.
    rows: f64,
    rows_before: f64,
    /// Where the next slice begins; None before the first.
    edge: Option<i64>,
    is_over: bool,
}

impl Cuts {
    /// The first slice has about so many rows.
    pub fn new(descending: bool, stretches: Vec<Stretch>, rows: f64) -> Cuts {
        Cuts {
            descending,
            stretches,
            rows: rows.max(1.0),
            rows_before: 0.0,
            edge: None,
            is_over: false,
        }
    }

    /// The next slice.
    pub fn next(&mut self) -> Option<TimeSlice> {
        if self.is_over {
            return None;
        }
        let begins = self.edge;
        self.rows_before += self.rows;
        self.rows *= GROWTH;
        let ends = self.edge_behind(self.rows_before);
        // At least a time.
        let ends = ends.filter(|&end| match (begins, self.descending) {
            (None, _) => true,
            (Some(begin), true) => end < begin,
            (Some(begin), false) => end > begin,
        });
        self.edge = ends;
        self.is_over = ends.is_none();
        Some(match self.descending {
            true => (ends, begins),
            false => (begins, ends),
        })
    }

    /// The time behind which slices end that have so many rows; None where that is all there are.
    fn edge_behind(&self, rows: f64) -> Option<i64> {
        let mut low = self.stretches.iter().map(|stretch| stretch.first).min()?;
        let mut high = self.stretches.iter().map(|stretch| stretch.last).max()?;
        let part = |from: i64, to: i64| -> f64 {
            let parts = self
                .stretches
                .iter()
                .filter_map(|stretch| stretch.between(from, to));
            parts.map(|part| part.rows).sum()
        };
        if part(low, high) <= rows {
            return None;
        }
        let (least, greatest) = (low, high);
        while low < high {
            // The last time with enough rows from it on, or the first with enough before it.
            let middle = ((i128::from(low) + i128::from(high) + 1) >> 1) as i64;
            let is_enough = match self.descending {
                true => part(middle, greatest) >= rows,
                false => part(least, middle - 1) < rows,
            };
            match is_enough {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        match self.descending {
            true => (low > least).then_some(low),
            false => (low < greatest).then_some(low + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(descending: bool, chunks: &[(i64, i64, f64)], share: i32) -> Vec<TimeSlice> {
        let chunks = chunks
            .iter()
            .map(|&(first, last, rows)| Stretch { first, last, rows });
        let stretches: Vec<_> = chunks.collect();
        let all: f64 = stretches.iter().map(|stretch| stretch.rows).sum();
        let mut slices = Cuts::new(descending, stretches, all * f64::from(share) / 1e6);
        core::iter::from_fn(|| slices.next()).collect()
    }

    fn have_every_time_once(slices: &[TimeSlice], times: impl Iterator<Item = i64>) {
        for time in times {
            let has = |slice: &&TimeSlice| {
                slice.0.is_none_or(|from| time >= from)
                    && slice.1.is_none_or(|before| time < before)
            };
            assert_eq!(slices.iter().filter(has).count(), 1, "{time} in {slices:?}");
        }
    }

    #[test]
    fn slices_have_every_time_once() {
        let even = [(0, 999, 500.0), (0, 999, 500.0)];
        let descending = slices(true, &even, 10_000);
        assert_eq!(descending[0], (Some(990), None));
        assert_eq!(descending[1], (Some(960), Some(990)));
        assert_eq!(descending.last().map(|slice| slice.0), Some(None));
        let ascending = slices(false, &even, 10_000);
        assert_eq!(ascending[0], (None, Some(10)));
        assert_eq!(ascending[1], (Some(10), Some(40)));
        assert_eq!(ascending.last().map(|slice| slice.1), Some(None));
        for part in [descending, ascending] {
            have_every_time_once(&part, -5..2_000);
        }
    }

    #[test]
    fn gaps_and_lonely_times_cost_a_slice_at_most() {
        let with_gap = [(5, 5, 1.0), (1_000_000, 1_000_999, 1000.0)];
        let ascending = slices(false, &with_gap, 10_000);
        let rows_of = |slice: &TimeSlice| {
            let from = slice.0.unwrap_or(0).max(1_000_000);
            slice.1.unwrap_or(1_001_000).min(1_001_000) - from
        };
        assert!(rows_of(&ascending[0]) <= 20, "{ascending:?}");
        assert!(rows_of(&ascending[1]) <= 40, "{ascending:?}");
        have_every_time_once(
            &ascending,
            [0, 5, 6, 500, 1_000_000, 1_000_500, 2_000_000].into_iter(),
        );
        for chunks in [
            &[][..],
            &[(7, 7, 3.0)],
            &[(i64::MIN, i64::MAX, 1e9), (0, 0, 5.0)],
        ] {
            for descending in [true, false] {
                let all = slices(descending, chunks, 1);
                assert!(all.len() < 30, "{all:?}");
                have_every_time_once(&all, [i64::MIN, -1, 0, 7, 8, i64::MAX - 1].into_iter());
            }
        }
    }
}
