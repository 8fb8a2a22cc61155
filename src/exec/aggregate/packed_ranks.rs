//! Ranks of groups by two columns, packed so that one comparison tells which of two groups comes first.

/// Groups with their ranks, each as one integer: two of them compare as the ranks do. Its lowest 32 bits are the group. None where the ranks are
/// further apart than fit into the others.
pub fn pack(all: &[([u64; 2], u32)]) -> Option<Vec<u128>> {
    let bounds = |at: usize| {
        let ranks = all.iter().map(|(ranks, _)| ranks[at]);
        ranks.fold((u64::MAX, 0), |(least, most), rank| {
            (rank.min(least), rank.max(most))
        })
    };
    let [first, second] = [bounds(0), bounds(1)];
    let bits = |(least, most): (u64, u64)| u64::BITS - most.saturating_sub(least).leading_zeros();
    let place = u32::BITS + bits(second);
    (place + bits(first) <= u128::BITS).then(|| {
        let pack = |&([one, other], group): &([u64; 2], u32)| {
            let (one, other) = (u128::from(one - first.0), u128::from(other - second.0));
            one << place | other << u32::BITS | u128::from(group)
        };
        all.iter().map(pack).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::pack;

    #[test]
    fn packed_groups_compare_as_their_ranks() {
        let ends = [0, 1, 7, u64::MAX / 3, 1 << 63, u64::MAX - 1, u64::MAX];
        for (least, most) in [(0, 2), (0, 4), (3, 7), (4, 7), (0, 7)] {
            let ranks = &ends[least..most];
            for wide in 0..2 {
                let pair = |one: u64, other: u64| match wide {
                    0 => [one, other % 1_000],
                    _ => [other % 1_000, one],
                };
                let each = ranks
                    .iter()
                    .flat_map(|&one| ranks.iter().map(move |&other| (one, other)));
                let all: Vec<([u64; 2], u32)> = (each.enumerate())
                    .map(|(at, (one, other))| (pair(one, other), u32::MAX - at as u32))
                    .collect();
                let packed = pack(&all).expect("64 and 10 bits fit");
                let mut sorted = packed.clone();
                sorted.sort_unstable();
                let mut expected = all.clone();
                expected.sort_unstable();
                let groups = sorted.iter().map(|&one| one as u32);
                assert!(groups.eq(expected.iter().map(|one| one.1)));
            }
        }
        assert!(pack(&[([0, 0], 0), ([u64::MAX, u64::MAX], 1)]).is_none());
        assert_eq!(pack(&[([5, 9], 3)]), Some(vec![3]));
    }
}
