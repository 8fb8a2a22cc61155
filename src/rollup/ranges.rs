//! Sets of times as disjoint ranges, both ends included. A set that gets too many ranges closes its narrowest gaps: it may grow,
//! never shrink, which suits ranges that have to be computed anew.

/// Disjoint ranges in ascending order; `i64::MIN` and `i64::MAX` are the ends of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0.iter().copied()
    }

    pub fn contains(&self, time: i64) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < time);
        self.0.get(at).is_some_and(|&(first, _)| first <= time)
    }

    /// Adds a range; ranges that overlap it or lie beside it become one with it.
    pub fn add(&mut self, first: i64, last: i64) {
        if first > last {
            return;
        }
        let from = self.0.partition_point(|r| r.1 < first.saturating_sub(1));
        let to = self.0.partition_point(|r| r.0 <= last.saturating_add(1));
        let joined = self.0[from..to]
            .iter()
            .fold((first, last), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.0.splice(from..to, [joined]);
    }

    /// Has a range of the set a time in common with this one?
    pub fn overlaps(&self, first: i64, last: i64) -> bool {
        let at = self.0.partition_point(|range| range.1 < first);
        self.0.get(at).is_some_and(|range| range.0 <= last)
    }

    /// Leaves out all times before `first`.
    pub fn start_at(&mut self, first: i64) {
        self.0.retain_mut(|range| {
            range.0 = range.0.max(first);
            range.0 <= range.1
        });
    }

    /// Closes the narrowest gaps until at most `most` ranges are left.
    pub fn limit(&mut self, most: usize) {
        while self.0.len() > most.max(1) {
            let gap = |at: usize| self.0[at + 1].0.abs_diff(self.0[at].1);
            let Some(at) = (0..self.0.len() - 1).min_by_key(|&at| gap(at)) else {
                return;
            };
            let (_, last) = self.0.remove(at + 1);
            self.0[at].1 = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranges: &[(i64, i64)]) -> Ranges {
        let mut all = Ranges::default();
        ranges.iter().for_each(|r| all.add(r.0, r.1));
        all
    }

    #[test]
    fn neighbours_and_overlaps_become_one() {
        assert_eq!(of(&[(5, 7), (1, 2), (3, 4)]).0, vec![(1, 7)]);
        assert_eq!(of(&[(1, 2), (8, 9), (2, 8)]).0, vec![(1, 9)]);
        assert_eq!(of(&[(1, 2), (4, 5)]).0, vec![(1, 2), (4, 5)]);
        assert_eq!(of(&[(2, 1)]).0, vec![]);
    }

    #[test]
    fn what_comes_before_the_start_is_left_out() {
        let mut some = of(&[(0, 4), (6, 9), (20, 21)]);
        some.start_at(8);
        assert_eq!(some.0, vec![(8, 9), (20, 21)]);
    }

    #[test]
    fn the_ends_of_time_are_times() {
        let all = of(&[(i64::MIN, 0), (1, i64::MAX)]);
        assert_eq!(all.0, vec![(i64::MIN, i64::MAX)]);
        assert!(all.contains(i64::MIN) && all.contains(i64::MAX));
    }

    #[test]
    fn a_limited_set_still_has_every_time() {
        let mut some = of(&[(0, 1), (10, 11), (13, 14), (30, 31)]);
        some.limit(2);
        assert_eq!(some.0, vec![(0, 14), (30, 31)]);
        assert!(!some.contains(20) && some.contains(5));
        assert!(some.overlaps(14, 29) && some.overlaps(15, 30) && !some.overlaps(15, 29));
    }
}
