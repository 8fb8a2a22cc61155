//! The series of a round by their keys. There may be as many as rows, so what is kept of each is small: its key's bytes behind those of
//! the others, and no node or list of its own.

use super::source::Span;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::Hasher as _;

/// The rows of one series in a round.
pub struct Series {
    pub span: Span,
    /// Those of each window, of a short one: of one window as a rule.
    pub windows: SmallVec<[Run; 1]>,
    /// Gets chunks of its own.
    pub own: bool,
    /// Its chunks may be entered under its key.
    pub keyed: bool,
}

/// The rows of one short series in one window.
pub struct Run {
    /// The window's number.
    pub number: i64,
    pub span: Span,
    /// Rows up to here lie among keyed chunks; those behind may be entered under their key.
    pub late_until: Option<i64>,
}

#[derive(Default)]
pub struct SeriesMap {
    /// The keys' bytes, one after the other.
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
    series: Vec<Series>,
    /// Numbers of series, by their keys.
    numbers: HashTable<u32>,
}

impl SeriesMap {
    pub fn get(&self, key: &[u8]) -> Option<&Series> {
        let number = self.find(key)?;
        Some(&self.series[number])
    }

    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Series> {
        let number = self.find(key)?;
        Some(&mut self.series[number])
    }

    /// Takes in a series that is not there.
    pub fn insert(&mut self, key: &[u8], series: Series) {
        let number = self.series.len() as u32;
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.series.push(series);
        let (keys, ends) = (&self.keys, &self.ends);
        self.numbers.insert_unique(hash(key), number, |&number| {
            hash(key_of(keys, ends, number as usize))
        });
    }

    pub fn values(&self) -> core::slice::Iter<'_, Series> {
        self.series.iter()
    }

    pub fn values_mut(&mut self) -> core::slice::IterMut<'_, Series> {
        self.series.iter_mut()
    }

    /// Numbers of the series, in the order of their keys.
    pub fn sorted(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.series.len() as u32).collect();
        numbers.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)));
        numbers
    }

    /// The key of a series, by its number.
    pub fn key(&self, number: u32) -> &[u8] {
        key_of(&self.keys, &self.ends, number as usize)
    }

    /// A series, by its number.
    pub fn series(&self, number: u32) -> &Series {
        &self.series[number as usize]
    }

    /// A series and its key, by its number.
    pub fn series_mut(&mut self, number: u32) -> (&[u8], &mut Series) {
        let number = number as usize;
        (
            key_of(&self.keys, &self.ends, number),
            &mut self.series[number],
        )
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        let is_it = |&number: &u32| self.key(number) == key;
        let number = self.numbers.find(hash(key), is_it)?;
        Some(*number as usize)
    }
}

fn key_of<'a>(keys: &'a [u8], ends: &[usize], number: usize) -> &'a [u8] {
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &keys[start..ends[number]]
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}
