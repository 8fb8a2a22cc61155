//! Sets of rows of a chunk, as ascending ranges, and where sorted values are found.

use std::ops::Range;

/// Rows that are in any of the ranges, as ascending ranges with rows between them.
pub fn united(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// Rows that are in both of two ascending lists of ranges.
pub fn intersect(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut at, mut other) = (0, 0);
    let mut both = Vec::new();
    while at < a.len() && other < b.len() {
        let (left, right) = (&a[at], &b[other]);
        let part = left.start.max(right.start)..left.end.min(right.end);
        if !part.is_empty() {
            both.push(part);
        }
        match left.end < right.end {
            true => at += 1,
            false => other += 1,
        }
    }
    both
}

/// Where values, which rise, are one of those that are `wanted`, which rise too.
pub fn runs_of<'a>(
    values: &'a [i64],
    wanted: &'a [i64],
) -> impl Iterator<Item = Range<usize>> + 'a {
    let bounds = values.first().zip(values.last());
    let among = bounds.map_or(0..0, |(first, last)| {
        let start = wanted.partition_point(|value| value < first);
        start..start + wanted[start..].partition_point(|value| value <= last)
    });
    let mut start = 0;
    wanted[among].iter().filter_map(move |value| {
        start += values[start..].partition_point(|other| other < value);
        let first = start;
        start += values[start..].partition_point(|other| other == value);
        (first < start).then_some(first..start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_united_and_intersected() {
        let some = united(vec![5..9, 0..2, 2..3, 8..12]);
        assert_eq!(some, [0..3, 5..12]);
        assert_eq!(intersect(&some, &[1..6, 11..20]), [1..3, 5..6, 11..12]);
        assert!(intersect(&some, &[]).is_empty());
    }

    #[test]
    fn runs_of_wanted_values_are_found() {
        let values = [2, 2, 3, 5, 5, 5, 9];
        let found = |wanted: &[i64]| runs_of(&values, wanted).collect::<Vec<_>>();
        assert_eq!(found(&[1, 2, 4, 5, 9, 11]), [0..2, 3..6, 6..7]);
        assert_eq!(found(&[3, 9]), [2..3, 6..7]);
        assert!(found(&[0, 1, 4, 10]).is_empty());
        assert!(found(&[]).is_empty());
        assert!(runs_of(&[], &[1]).next().is_none());
    }
}
