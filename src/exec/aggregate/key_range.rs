//! Where ranges of keys end, which one has which number, and which ones a worker leaves to its leader.

use std::time::Duration;

/// A worker's process ends about so long after its last row, and its leader waits for that.
const END_OF_WORKER: Duration = Duration::from_millis(4);

/// Does a worker leave the last ranges to the leader, where it took so long for one? The leader then reads these while the worker ends.
pub fn is_left_to_leader(ranges: u64, each: Duration) -> bool {
    each.as_nanos().saturating_mul(ranges.into()) <= END_OF_WORKER.as_nanos()
}

/// Rows that one process reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyRange {
    All,
    /// Values from the first one on, before the second one.
    Values(Option<i64>, Option<i64>),
    Nulls,
}

impl KeyRange {
    /// The range of this number, among cuts; None behind the last one.
    pub fn of(cuts: &[i64], number: usize) -> Option<KeyRange> {
        let at = |number: usize| cuts.get(number).copied();
        match number {
            0 if cuts.is_empty() => Some(KeyRange::All),
            _ if cuts.is_empty() => None,
            0 => Some(KeyRange::Values(None, at(0))),
            _ if number <= cuts.len() => Some(KeyRange::Values(at(number - 1), at(number))),
            _ => (number == cuts.len() + 1).then_some(KeyRange::Nulls),
        }
    }
}

/// Where about so many ranges of values with these weights end. Those of the last quarter are half as large as the others: who takes the last ones leaves the
/// other processes less to wait for.
pub fn cuts(mut weights: Vec<(i64, u64)>, ranges: u64) -> Vec<i64> {
    weights.sort_unstable();
    let all: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let (mut met, mut own) = (0, 0);
    let mut cuts = Vec::new();
    let mut last = None;
    for (value, weight) in weights {
        // Of 40 ranges, 24 with three quarters of all, and 16 with one.
        let tenths = if 4 * met < 3 * all { 8 } else { 16 };
        if own > 0 && own * ranges * tenths >= 10 * all && last != Some(value) {
            cuts.push(value);
            own = 0;
        }
        (met, own) = (met + weight, own + weight);
        last = Some(value);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(cuts: &[i64]) -> Vec<KeyRange> {
        (0..)
            .map_while(|number| KeyRange::of(cuts, number))
            .collect()
    }

    #[test]
    fn each_value_is_in_one_range() {
        assert_eq!(ranges(&[]), [KeyRange::All]);
        let wanted = [
            KeyRange::Values(None, Some(3)),
            KeyRange::Values(Some(3), Some(9)),
            KeyRange::Values(Some(9), None),
            KeyRange::Nulls,
        ];
        assert_eq!(ranges(&[3, 9]), wanted);
    }

    #[test]
    fn a_worker_leaves_what_takes_no_longer_than_its_end() {
        let (short, long) = (END_OF_WORKER / 4, END_OF_WORKER * 2);
        assert!(is_left_to_leader(4, short));
        assert!(!is_left_to_leader(5, short));
        assert!(!is_left_to_leader(1, long));
        assert!(!is_left_to_leader(2, Duration::MAX));
    }

    #[test]
    fn the_last_ranges_are_half_as_large() {
        let cuts = cuts((0..1000).map(|value| (value, 3)).collect(), 10);
        assert_eq!(cuts, [125, 250, 375, 500, 625, 750, 813, 876, 939]);
    }

    #[test]
    fn a_value_is_not_divided() {
        assert!(cuts(Vec::new(), 9).is_empty());
        assert!(cuts(vec![(7, 1_000_000)], 9).is_empty());
        assert_eq!(cuts(vec![(7, 1_000_000), (9, 1), (8, 1)], 9), [8]);
        assert_eq!(cuts(vec![(9, 1), (7, 1), (9, 1), (9, 1)], 5), [9]);
    }
}
