//! Sets of rows of a chunk, as ascending ranges.

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
}
