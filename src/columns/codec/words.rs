//! Finding the distinct byte strings of a block: an open hash table of indexes, so that labels cost a
//! hash and a comparison each, and runs of one label a comparison.

use std::hash::{BuildHasher, RandomState};

/// Distinct strings in order of first appearance, and the index of each value's.
pub struct Words<'a> {
    pub words: Vec<&'a [u8]>,
    pub codes: Vec<i64>,
}

/// The words of `values`, if there are at most `most` and they have at most `bytes` in all.
pub fn find<'a>(
    values: impl ExactSizeIterator<Item = &'a [u8]>,
    most: usize,
    bytes: usize,
) -> Option<Words<'a>> {
    let mut found = Words {
        words: Vec::new(),
        codes: Vec::with_capacity(values.len()),
    };
    // At most half full. Seeded, so that nobody can choose labels that collide.
    let mut table = vec![0u32; (2 * most.min(values.len()) + 2).next_power_of_two()];
    let seed = RandomState::new().hash_one(0u8) | 1;
    let (mut last, mut last_code, mut room) = (&[][..], -1, bytes);
    for value in values {
        if last_code < 0 || value != last {
            last_code = look_up(value, &found.words, &mut table, seed);
            if last_code == found.words.len() as i64 {
                room = room.checked_sub(value.len())?;
                if found.words.len() == most {
                    return None;
                }
                found.words.push(value);
            }
            last = value;
        }
        found.codes.push(last_code);
    }
    Some(found)
}

/// The index of `value` among `words`, or the next index, which is then in the table.
fn look_up(value: &[u8], words: &[&[u8]], table: &mut [u32], seed: u64) -> i64 {
    let mask = table.len() - 1;
    let mut slot = hash(value, seed) as usize & mask;
    loop {
        match table[slot] {
            0 => {
                table[slot] = words.len() as u32 + 1;
                return words.len() as i64;
            }
            code if words
                .get(code as usize - 1)
                .is_some_and(|word| *word == value) =>
            {
                return i64::from(code) - 1
            }
            _ => slot = (slot + 1) & mask,
        }
    }
}

/// Multiply and fold, eight bytes at a time.
fn hash(value: &[u8], seed: u64) -> u64 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(0x9E37_79B9_7F4A_7C15u64 ^ seed);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, tail) = value.as_chunks::<8>();
    let state = words.iter().fold(seed ^ value.len() as u64, |state, word| {
        fold(state, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    fold(fold(state, u64::from_le_bytes(last)), seed)
}

/// Longest word that `Table` copies without a call.
const SHORT: usize = 32;

/// Words by code, for decoding.
pub struct Table<'a> {
    words: Vec<&'a [u8]>,
    /// The words with zeros behind them, if all are short.
    short: Vec<[u8; SHORT]>,
}

impl<'a> Table<'a> {
    pub fn new(words: Vec<&'a [u8]>) -> Self {
        let all_short = words.iter().all(|word| word.len() <= SHORT);
        let pad = |word: &&[u8]| {
            let mut short = [0; SHORT];
            short[..word.len()].copy_from_slice(word);
            short
        };
        let short = if all_short {
            words.iter().map(pad).collect()
        } else {
            Vec::new()
        };
        Table { words, short }
    }

    /// Appends the words of `codes` to `data`, and their ends to `ends`. `None` if a code is not in the
    /// table or the data would become longer than `limit`.
    pub fn expand(
        &self,
        codes: &[i64],
        limit: usize,
        ends: &mut Vec<u32>,
        data: &mut Vec<u8>,
    ) -> Option<()> {
        let start = data.len();
        let mut end = start;
        ends.reserve(codes.len());
        for &code in codes {
            end += self.words.get(usize::try_from(code).ok()?)?.len();
            if end > limit {
                return None;
            }
            ends.push(end as u32);
        }
        if self.short.is_empty() {
            data.reserve(end - start);
            codes
                .iter()
                .for_each(|&code| data.extend_from_slice(self.words[code as usize]));
            return Some(());
        }
        data.resize(end + SHORT, 0);
        let mut at = start;
        for (&code, &end) in codes.iter().zip(&ends[ends.len() - codes.len()..]) {
            data[at..at + SHORT].copy_from_slice(&self.short[code as usize]);
            at = end as usize;
        }
        data.truncate(end);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_order_and_expanded_again() {
        let values: Vec<Vec<u8>> = (0..3000usize)
            .map(|i| vec![b'x'; i * 7 % 40 / (1 + i % 3)])
            .collect();
        for longest in [20, 50] {
            let values: Vec<&[u8]> = values.iter().map(|v| &v[..v.len().min(longest)]).collect();
            let found = find(values.iter().copied(), 100, 10_000).unwrap();
            let (mut ends, mut data) = (vec![], vec![]);
            Table::new(found.words.clone())
                .expand(&found.codes, 1 << 30, &mut ends, &mut data)
                .unwrap();
            assert_eq!(data, values.concat());
            assert_eq!(ends.last().copied(), Some(data.len() as u32));
            assert!(find(values.iter().copied(), found.words.len() - 1, 10_000).is_none());
            assert!(find(values.iter().copied(), 100, 100).is_none());
            assert!(Table::new(found.words)
                .expand(&[99], 1 << 30, &mut ends, &mut data)
                .is_none());
        }
    }
}
