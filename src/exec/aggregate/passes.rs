//! A join gives a row of the table once for each row of the other side that has its value: the table is read in passes, of which each names a
//! value once. The values of a pass are some of those of the pass before: one that meets no row is the last.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Counts a value.
pub fn count<T: Hash + Eq, S: BuildHasher>(all: &mut HashMap<T, u32, S>, value: T) {
    let times = all.entry(value).or_insert(0);
    *times = times.saturating_add(1);
}

/// The values of each pass, in order: of pass n those that come at least n times.
pub fn passes<T: Ord + Clone, S>(
    counted: HashMap<T, u32, S>,
    is_semi: bool,
) -> impl Iterator<Item = Vec<T>> {
    let mut counted: Vec<(T, u32)> = counted.into_iter().collect();
    counted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut pass = 0;
    core::iter::from_fn(move || {
        pass += 1;
        counted.retain(|(_, times)| *times >= pass && (pass == 1 || !is_semi));
        let values: Vec<T> = counted.iter().map(|(value, _)| value.clone()).collect();
        (!values.is_empty()).then_some(values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_as_many_passes_as_it_comes_times() {
        let mut counted = HashMap::new();
        for value in [3, 1, 3, 2, 3, 1] {
            count(&mut counted, value);
        }
        let all: Vec<_> = passes(counted.clone(), false).collect();
        assert_eq!(all, [vec![1, 2, 3], vec![1, 3], vec![3]]);
        let once: Vec<_> = passes(counted, true).collect();
        assert_eq!(once, [vec![1, 2, 3]]);
        assert_eq!(passes(HashMap::<i64, u32>::new(), false).count(), 0);
    }
}
