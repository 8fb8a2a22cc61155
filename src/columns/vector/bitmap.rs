//! A set of the rows of a block: one bit each, bits beyond the last row are zero.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    rows: usize,
}

impl Bitmap {
    pub fn none(rows: usize) -> Bitmap {
        Bitmap {
            words: vec![0; rows.div_ceil(64)],
            rows,
        }
    }

    pub fn all(rows: usize) -> Bitmap {
        let mut bitmap = Bitmap {
            words: vec![u64::MAX; rows.div_ceil(64)],
            rows,
        };
        bitmap.clear_beyond();
        bitmap
    }

    /// The rows where `flags` is true (the validity of a column, for example).
    pub fn from_flags(flags: &[bool]) -> Bitmap {
        let words = flags
            .chunks(64)
            .map(|flags| {
                flags
                    .iter()
                    .enumerate()
                    .fold(0, |word, (bit, flag)| word | (*flag as u64) << bit)
            })
            .collect();
        Bitmap {
            words,
            rows: flags.len(),
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    pub fn contains(&self, row: usize) -> bool {
        row < self.rows && self.words[row / 64] >> (row % 64) & 1 == 1
    }

    pub fn insert(&mut self, row: usize) {
        assert!(
            row < self.rows,
            "BUG: row {row} of a bitmap of {} rows",
            self.rows
        );
        self.words[row / 64] |= 1 << (row % 64);
    }

    pub fn remove(&mut self, row: usize) {
        assert!(
            row < self.rows,
            "BUG: row {row} of a bitmap of {} rows",
            self.rows
        );
        self.words[row / 64] &= !(1 << (row % 64));
    }

    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    pub fn is_none(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub fn is_all(&self) -> bool {
        self.count() == self.rows
    }

    /// Keeps the rows of a range.
    pub fn keep_range(&mut self, range: Range<usize>) {
        for (at, word) in self.words.iter_mut().enumerate() {
            let bit = |row: usize| row.saturating_sub(at * 64).min(64) as u32;
            let below = |bits: u32| 1u64.checked_shl(bits).map_or(u64::MAX, |one| one - 1);
            *word &= below(bit(range.end)) & !below(bit(range.start));
        }
    }

    /// Keeps the rows that are also in `other`.
    pub fn intersect(&mut self, other: &Bitmap) {
        self.combine(other, |mine, theirs| mine & theirs);
    }

    /// The rows `range`, counted from its start.
    pub fn slice(&self, range: Range<usize>) -> Bitmap {
        assert!(
            range.start <= range.end && range.end <= self.rows,
            "BUG: rows {range:?} of a bitmap of {} rows",
            self.rows
        );
        Bitmap::of_words(&self.words, range)
    }

    /// The bits `range` of some words, and zeroes behind their end, counted from its start.
    pub fn of_words(words: &[u64], range: Range<usize>) -> Bitmap {
        let (first, shift) = (range.start / 64, range.start % 64);
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let words = (first..first + range.len().div_ceil(64)).map(|at| match shift {
            0 => word(at),
            _ => word(at) >> shift | word(at + 1) << (64 - shift),
        });
        let mut bitmap = Bitmap {
            words: words.collect(),
            rows: range.len(),
        };
        bitmap.clear_beyond();
        bitmap
    }

    pub fn unite(&mut self, other: &Bitmap) {
        self.combine(other, |mine, theirs| mine | theirs);
    }

    /// Keeps the rows that are not in `other`.
    pub fn subtract(&mut self, other: &Bitmap) {
        self.combine(other, |mine, theirs| mine & !theirs);
    }

    pub fn invert(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.clear_beyond();
    }

    pub fn first(&self) -> Option<usize> {
        let index = self.words.iter().position(|word| *word != 0)?;
        Some(index * 64 + self.words[index].trailing_zeros() as usize)
    }

    pub fn last(&self) -> Option<usize> {
        let index = self.words.iter().rposition(|word| *word != 0)?;
        Some(index * 64 + 63 - self.words[index].leading_zeros() as usize)
    }

    /// The rows in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Keeps the rows for which `holds`, which is asked for the rows that there are.
    pub fn retain(&mut self, holds: impl Fn(usize) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                *word &= !(u64::from(!holds(index * 64 + bit)) << bit);
            }
        }
    }

    fn combine(&mut self, other: &Bitmap, with: impl Fn(u64, u64) -> u64) {
        assert_eq!(self.rows, other.rows, "BUG: bitmaps of different blocks");
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine = with(*mine, *theirs);
        }
    }

    fn clear_beyond(&mut self) {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.rows % 64) {
            *last &= (1 << used) - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_behave_like_sets_of_rows() {
        for rows in [0, 1, 63, 64, 65, 130, 1024] {
            let thirds: Vec<bool> = (0..rows).map(|row| row % 3 == 0).collect();
            let halves: Vec<bool> = (0..rows).map(|row| row % 2 == 0).collect();
            let rows_where =
                |keep: &dyn Fn(usize) -> bool| (0..rows).filter(|r| keep(*r)).collect::<Vec<_>>();
            for range in [0..0, 0..rows, rows / 2..rows, rows / 3..rows / 2 + 1] {
                let range = range.start..range.end.min(rows);
                let mut some = Bitmap::from_flags(&thirds);
                some.keep_range(range.clone());
                let expected = rows_where(&|row| row % 3 == 0 && range.contains(&row));
                assert_eq!(some.iter().collect::<Vec<_>>(), expected);
            }
            let mut both = Bitmap::from_flags(&thirds);
            both.intersect(&Bitmap::from_flags(&halves));
            assert_eq!(both.iter().collect::<Vec<_>>(), rows_where(&|r| r % 6 == 0));
            assert_eq!(both.first(), (rows > 0).then_some(0));
            assert_eq!(both.last(), rows_where(&|r| r % 6 == 0).last().copied());
            let mut either = Bitmap::from_flags(&thirds);
            either.unite(&Bitmap::from_flags(&halves));
            either.invert();
            assert_eq!(
                either.iter().collect::<Vec<_>>(),
                rows_where(&|r| r % 2 == 1 && r % 3 != 0)
            );
            either.subtract(&Bitmap::all(rows));
            assert!(either.is_none());
            assert!(Bitmap::all(rows).is_all());
            assert_eq!(Bitmap::all(rows).count(), rows);
            let mut one = Bitmap::none(rows);
            if rows > 0 {
                one.insert(rows - 1);
                assert!(one.contains(rows - 1) && !one.contains(rows));
                one.remove(rows - 1);
            }
            assert!(one.is_none());
        }
    }

    #[test]
    fn a_slice_has_the_rows_of_its_range() {
        let flags: Vec<bool> = (0..300).map(|row| row * row % 7 < 3).collect();
        let all = Bitmap::from_flags(&flags);
        for (start, end) in [
            (0, 300),
            (0, 64),
            (1, 65),
            (63, 64),
            (64, 200),
            (130, 300),
            (7, 7),
        ] {
            let expected = Bitmap::from_flags(&flags[start..end]);
            assert_eq!(all.slice(start..end), expected);
        }
    }
}
