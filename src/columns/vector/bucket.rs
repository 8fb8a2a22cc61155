//! Buckets of a sorted time column: which rows fall into the same interval. Boundaries are found by
//! galloping, so that wide buckets cost a few comparisons each.

use std::ops::Range;

/// Rows of one bucket, and its first instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub start: i64,
    pub rows: Range<usize>,
}

/// Buckets of `width` > 0 that are aligned to `origin`, in the order of `times` (ascending).
pub fn fixed(times: &[i64], width: i64, origin: i64) -> Vec<Bucket> {
    assert!(width > 0, "BUG: a bucket without width");
    split(times, |time| {
        let offset = i128::from(time) - i128::from(origin);
        let start = offset.div_euclid(i128::from(width)) * i128::from(width) + i128::from(origin);
        (saturate(start), saturate(start + i128::from(width) - 1))
    })
}

/// Buckets of any calendar: `bounds` gives first and last instant of the bucket of a time.
pub fn split(times: &[i64], mut bounds: impl FnMut(i64) -> (i64, i64)) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    let mut row = 0;
    while let Some(time) = times.get(row) {
        let (start, last) = bounds(*time);
        let end = row + 1 + count_up_to(&times[row + 1..], last);
        buckets.push(Bucket {
            start,
            rows: row..end,
        });
        row = end;
    }
    buckets
}

/// How many times at the front of `times` (ascending) are at most `last`.
pub fn count_up_to(times: &[i64], last: i64) -> usize {
    let mut step = 1;
    let mut known = 0;
    while known + step <= times.len() && times[known + step - 1] <= last {
        known += step;
        step *= 2;
    }
    let end = times.len().min(known + step);
    known + times[known..end].partition_point(|time| *time <= last)
}

fn saturate(instant: i128) -> i64 {
    instant.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_bucket_of_its_time() {
        let mut times: Vec<i64> = (0..5000)
            .map(|i: i64| i * i % 977 + i * 13 - 20_000)
            .collect();
        times.extend([i64::MIN, i64::MAX, i64::MIN, 0, 0]);
        times.sort_unstable();
        for (width, origin) in [(1, 0), (60, 7), (3600, -5), (1 << 40, 3), (i64::MAX, 0)] {
            let buckets = fixed(&times, width, origin);
            let mut next = 0;
            for bucket in &buckets {
                assert_eq!(bucket.rows.start, next);
                next = bucket.rows.end;
                for time in &times[bucket.rows.clone()] {
                    let end = i128::from(bucket.start) + i128::from(width);
                    assert!(bucket.start <= *time && i128::from(*time) < end);
                }
            }
            assert_eq!(next, times.len());
            assert!(buckets.windows(2).all(|pair| pair[0].start < pair[1].start));
        }
    }

    #[test]
    fn no_rows_no_buckets() {
        assert!(fixed(&[], 10, 0).is_empty());
    }
}
