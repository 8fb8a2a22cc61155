//! The delete map of a chunk: which rows are gone, and where updated rows went. It is a part of each
//! header version and holds no transaction ids: visibility is that of the header.
//!
//! Encoded: nothing when empty; otherwise a form byte (0: gaps between deleted rows as varints,
//! 1: bitmap), the deleted rows, then the updated ones as (gap, block, line pointer) varints.

use super::header::FormatError;
use super::note::Run;
use super::runs::{get_varint, put_varint};
use super::tid::Tid;
use crate::vector::Bitmap;
use std::rc::Rc;

const FORM_GAPS: u8 = 0;
const FORM_BITMAP: u8 = 1;
/// What an updated row takes at least.
const UPDATE_BYTES: usize = 3;

/// A copy shares where updated rows went, of which there may be many, and has what is added to it beside them.
#[derive(Clone, Debug, Default)]
pub struct DeleteMap {
    words: Vec<u64>,
    deleted: u32,
    /// Sorted by row; every one of them is deleted too.
    updated: Rc<Vec<(u32, Tid)>>,
    /// The same, of other rows.
    added: Vec<(u32, Tid)>,
}

impl PartialEq for DeleteMap {
    fn eq(&self, other: &DeleteMap) -> bool {
        self.words == other.words && self.updates().eq(other.updates())
    }
}

/// Where `row` is in a sorted list, or would be.
fn position(updates: &[(u32, Tid)], row: u32) -> Result<usize, usize> {
    updates.binary_search_by_key(&row, |entry| entry.0)
}

impl DeleteMap {
    pub fn is_empty(&self) -> bool {
        self.deleted == 0
    }

    /// Number of rows that are gone, updated ones included.
    pub fn deleted(&self) -> u32 {
        self.deleted
    }

    #[inline]
    pub fn contains(&self, row: u32) -> bool {
        self.words
            .get((row / 64) as usize)
            .is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// True when no row of `range` is gone.
    pub fn is_clear(&self, range: core::ops::Range<u32>) -> bool {
        self.deleted == 0 || self.left(range).is_all()
    }

    /// The rows of `range` that are not gone, counted from its start.
    pub fn left(&self, range: core::ops::Range<u32>) -> Bitmap {
        let mut rows = Bitmap::of_words(&self.words, range.start as usize..range.end as usize);
        rows.invert();
        rows
    }

    /// Where the row went, if it was updated.
    pub fn successor(&self, row: u32) -> Option<Tid> {
        let mut lists = [&self.added, &*self.updated].into_iter();
        lists.find_map(|list| position(list, row).ok().map(|at| list[at].1))
    }

    pub fn has_successors(&self) -> bool {
        !self.updated.is_empty() || !self.added.is_empty()
    }

    /// The rows that were updated, in order, and where they went.
    fn updates(&self) -> impl Iterator<Item = (u32, Tid)> + '_ {
        let mut updated = self.updated.iter().copied().peekable();
        let mut added = self.added.iter().copied().peekable();
        core::iter::from_fn(move || match (updated.peek(), added.peek()) {
            (Some(one), Some(other)) if other.0 < one.0 => added.next(),
            (Some(_), _) => updated.next(),
            (None, _) => added.next(),
        })
    }

    /// Marks a row as gone; false when it was already.
    pub fn delete(&mut self, row: u32) -> bool {
        if self.contains(row) {
            return false;
        }
        let word = (row / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (row % 64);
        self.deleted += 1;
        true
    }

    /// Marks rows side by side as gone. The first one that was gone already is returned; those before it are marked.
    fn delete_run(&mut self, rows: core::ops::Range<u32>) -> Result<(), u32> {
        let words = (rows.end as usize).div_ceil(64);
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        let mut row = rows.start;
        while row < rows.end {
            let count = (64 - row % 64).min(rows.end - row);
            let mask = (u64::MAX >> (64 - count)) << (row % 64);
            let word = &mut self.words[(row / 64) as usize];
            let gone = *word & mask;
            if gone != 0 {
                return Err(row / 64 * 64 + gone.trailing_zeros());
            }
            *word |= mask;
            self.deleted += count;
            row += count;
        }
        Ok(())
    }

    /// Marks a row as updated to the version at `successor`.
    pub fn update(&mut self, row: u32, successor: Tid) -> bool {
        if !self.delete(row) {
            return false;
        }
        let own = Rc::get_mut(&mut self.updated).filter(|_| self.added.is_empty());
        let list = own.unwrap_or(&mut self.added);
        let at = position(list, row).unwrap_or_else(|at| at);
        list.insert(at, (row, successor));
        true
    }

    /// Marks rows as gone, and as updated where they say where they went. The first one that was gone already is returned.
    pub fn add<'a>(&mut self, runs: impl IntoIterator<Item = &'a Run>) -> Result<(), u32> {
        for run in runs {
            self.delete_run(run.first..run.first + run.rows)?;
            self.added
                .extend(run.successor.map(|successor| (run.first, successor)));
        }
        // Few come to many that are sorted: a sort that merges runs moves these once.
        self.added.sort_by_key(|entry| entry.0);
        Ok(())
    }

    /// Adds the changes of `other`; a row that is gone already stays as it is.
    pub fn merge(&mut self, other: &DeleteMap) {
        for (row, successor) in other.updates() {
            if !self.contains(row) {
                self.added.push((row, successor));
            }
        }
        self.added.sort_unstable_by_key(|entry| entry.0);
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (own, others) in self.words.iter_mut().zip(&other.words) {
            *own |= others;
        }
        self.deleted = self.words.iter().map(|word| word.count_ones()).sum();
    }

    /// Memory that the map takes.
    pub fn bytes(&self) -> usize {
        let updates = self.updated.capacity() + self.added.capacity();
        self.words.capacity() * 8 + updates * size_of::<(u32, Tid)>()
    }

    fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        set_bits(&self.words)
    }

    /// The last row that is gone.
    fn last(&self) -> Option<u32> {
        let at = self.words.iter().rposition(|&word| word != 0)?;
        Some(at as u32 * 64 + self.words[at].ilog2())
    }

    /// The rows that are gone, in order, and where updated ones went.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Option<Tid>)> + '_ {
        let mut updated = self.updates().peekable();
        self.rows().map(move |row| {
            let successor = updated.next_if(|entry| entry.0 == row);
            (row, successor.map(|entry| entry.1))
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_empty() {
            return out;
        }
        let bitmap_bytes = self.words.len() * 8;
        let mut gaps = vec![FORM_GAPS];
        put_varint(&mut gaps, u64::from(self.deleted));
        let mut last = 0;
        for row in self.rows() {
            put_varint(&mut gaps, u64::from(row - last));
            last = row;
        }
        if gaps.len() <= bitmap_bytes {
            out = gaps;
        } else {
            out.push(FORM_BITMAP);
            put_varint(&mut out, self.words.len() as u64);
            for word in &self.words {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        let updates = self.updated.len() + self.added.len();
        put_varint(&mut out, updates as u64);
        let mut last = 0;
        for (row, tid) in self.updates() {
            put_varint(&mut out, u64::from(row - last));
            put_varint(&mut out, u64::from(tid.block));
            put_varint(&mut out, u64::from(tid.offset));
            last = row;
        }
        out
    }

    /// Reads the map of a chunk of `rows` rows.
    pub fn decode(bytes: &[u8], rows: u32) -> Result<DeleteMap, FormatError> {
        let mut map = DeleteMap::default();
        let Some((&form, mut input)) = bytes.split_first() else {
            return Ok(map);
        };
        let input = &mut input;
        let next_row = |input: &mut &[u8], last: u32| -> Result<u32, FormatError> {
            let row = u64::from(last) + get_varint(input)?;
            if row >= u64::from(rows) {
                return Err(FormatError("row of the delete map"));
            }
            Ok(row as u32)
        };
        match form {
            FORM_GAPS => {
                let mut last = 0;
                for _ in 0..get_varint(input)? {
                    last = next_row(input, last)?;
                    map.delete(last);
                }
            }
            FORM_BITMAP => {
                let words = get_varint(input)? as usize;
                if words > (rows as usize).div_ceil(64) || words * 8 > input.len() {
                    return Err(FormatError("bitmap of the delete map"));
                }
                let (bitmap, rest) = input.split_at(words * 8);
                *input = rest;
                map.words = bitmap
                    .chunks_exact(8)
                    .map(|word| u64::from_le_bytes(word.try_into().expect("BUG: eight bytes")))
                    .collect();
                map.deleted = map.words.iter().map(|word| word.count_ones()).sum();
                if map.last().is_some_and(|row| row >= rows) {
                    return Err(FormatError("row of the delete map"));
                }
            }
            _ => return Err(FormatError("form of the delete map")),
        }
        let mut last = 0;
        let count = get_varint(input)?;
        let most = input.len() / UPDATE_BYTES;
        let mut updated = Vec::with_capacity(most.min(count as usize));
        for _ in 0..count {
            last = next_row(input, last)?;
            let tid = Tid {
                block: u32::try_from(get_varint(input)?)
                    .map_err(|_| FormatError("successor of a row"))?,
                offset: u16::try_from(get_varint(input)?)
                    .map_err(|_| FormatError("successor of a row"))?,
            };
            if !map.contains(last) {
                return Err(FormatError("successor of a live row"));
            }
            updated.push((last, tid));
        }
        map.updated = Rc::new(updated);
        if !input.is_empty() {
            return Err(FormatError("end of the delete map"));
        }
        Ok(map)
    }
}

/// The numbers of bits that are set.
pub fn set_bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    let some = words.iter().enumerate().filter(|(_, &word)| word != 0);
    some.flat_map(|(at, &word)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(at as u32 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid(n: u32) -> Tid {
        Tid {
            block: n,
            offset: (n % 200) as u16 + 1,
        }
    }

    #[test]
    fn maps_come_back_sparse_and_dense() {
        for step in [1, 2, 3, 100, 5000] {
            let mut map = DeleteMap::default();
            for row in (0..65_536).step_by(step) {
                if row % 7 == 0 {
                    assert!(map.update(row, tid(row)));
                } else {
                    assert!(map.delete(row));
                }
            }
            let bytes = map.encode();
            let back = DeleteMap::decode(&bytes, 65_536).expect("own bytes");
            for row in 0..65_536 {
                assert_eq!(back.contains(row), map.contains(row));
                assert_eq!(back.successor(row), map.successor(row));
            }
            for range in [
                0..0,
                0..65_536,
                1..64,
                63..4_999,
                5_000..5_001,
                65_000..70_000,
            ] {
                let left: Vec<_> = range.clone().filter(|&row| !map.contains(row)).collect();
                assert_eq!(map.is_clear(range.clone()), left.len() == range.len());
                let found = map.left(range.clone());
                let found: Vec<_> = found.iter().map(|row| range.start + row as u32).collect();
                assert_eq!(found, left);
            }
            assert_eq!(back.deleted(), map.deleted());
            assert!(DeleteMap::decode(&bytes, 100).is_err());
        }
        assert!(DeleteMap::default().encode().is_empty());
        assert_eq!(DeleteMap::decode(&[], 5), Ok(DeleteMap::default()));
    }

    #[test]
    fn merging_adds_rows_and_keeps_what_was_there() {
        let (mut map, mut other) = (DeleteMap::default(), DeleteMap::default());
        map.delete(3);
        map.update(700, tid(1));
        other.update(3, tid(2));
        other.update(5, tid(3));
        other.update(700, tid(4));
        other.delete(9_000);
        map.merge(&other);
        assert_eq!(map.deleted(), 4);
        assert_eq!(map.successor(3), None);
        assert_eq!(map.successor(5), Some(tid(3)));
        assert_eq!(map.successor(700), Some(tid(1)));
        assert!(map.contains(9_000));
        let back = DeleteMap::decode(&map.encode(), 10_000).expect("own bytes");
        assert_eq!(back.encode(), map.encode());
    }

    #[test]
    fn rows_that_are_added_together_are_those_added_one_by_one() {
        let rows = [
            (900, Some(tid(1))),
            (3, None),
            (64, Some(tid(2))),
            (5, Some(tid(3))),
        ];
        let alone = |(first, successor)| Run {
            first,
            rows: 1,
            successor,
        };
        let (mut one, mut all) = (DeleteMap::default(), DeleteMap::default());
        one.update(70, tid(9));
        all.update(70, tid(9));
        for (row, successor) in rows {
            match successor {
                Some(successor) => one.update(row, successor),
                None => one.delete(row),
            };
        }
        assert_eq!(all.add(&rows.map(alone)), Ok(()));
        assert_eq!(all, one);
        assert_eq!(all.entries().count(), 5);
        assert_eq!(all.last(), Some(900));
        assert_eq!(all.add(&[(7, None), (64, None)].map(alone)), Err(64));
        assert_eq!(DeleteMap::default().last(), None);
    }

    #[test]
    fn a_run_is_the_rows_of_which_it_is() {
        for (first, rows) in [
            (0, 1),
            (0, 64),
            (63, 2),
            (64, 64),
            (1, 127),
            (100, 5_000),
            (6_399, 1),
        ] {
            let run = Run {
                first,
                rows,
                successor: None,
            };
            let (mut by_run, mut by_row) = (DeleteMap::default(), DeleteMap::default());
            (first..first + rows).for_each(|row| {
                by_row.delete(row);
            });
            assert_eq!(by_run.add([&run]), Ok(()));
            assert_eq!(by_run.deleted(), rows);
            assert_eq!(by_run, by_row);
            assert_eq!(by_run.add([&run]), Err(first));
        }
    }

    #[test]
    fn a_copy_has_what_is_added_to_it_and_the_map_has_not() {
        let mut map = DeleteMap::default();
        for row in (0..3_000).step_by(3) {
            map.update(row, tid(row));
        }
        let (mut copy, mut anew) = (map.clone(), DeleteMap::default());
        let added = [(2_000, Some(tid(1))), (4, Some(tid(2))), (70, None)];
        let added = added.map(|(first, successor)| Run {
            first,
            rows: 1,
            successor,
        });
        assert_eq!(copy.add(&added), Ok(()));
        assert!(copy.update(1, tid(3)));
        copy.merge(
            &[5_000, 7]
                .iter()
                .fold(DeleteMap::default(), |mut other, &row| {
                    other.update(row, tid(row));
                    other
                }),
        );
        for (row, successor) in copy.entries().collect::<Vec<_>>().into_iter().rev() {
            match successor {
                Some(successor) => anew.update(row, successor),
                None => anew.delete(row),
            };
        }
        assert_eq!(copy, anew);
        assert_eq!(copy.encode(), anew.encode());
        assert_eq!(copy.deleted(), 1_006);
        let back = DeleteMap::decode(&copy.encode(), 6_000);
        assert_eq!(back.as_ref(), Ok(&copy));
        assert_eq!(copy.successor(4), Some(tid(2)));
        assert_eq!(copy.successor(2_997), Some(tid(2_997)));
        assert_eq!(copy.successor(70), None);
        assert!(!map.contains(4) && map.successor(4).is_none());
        assert_eq!(map.deleted(), 1_000);
    }

    #[test]
    fn truncated_maps_are_errors_or_smaller() {
        let mut map = DeleteMap::default();
        (0..400).step_by(3).for_each(|row| {
            map.update(row, tid(row));
        });
        let bytes = map.encode();
        for end in 1..bytes.len() {
            assert!(DeleteMap::decode(&bytes[..end], 400).is_err());
        }
    }
}
