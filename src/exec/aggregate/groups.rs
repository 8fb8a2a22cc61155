//! The groups that were met so far: their columns, and a state of each aggregate. Groups are told apart by the bytes of their columns:
//! what SQL takes for equal though its bytes differ, core's final step brings together.

use super::fold::Cell;
use super::share::Share;
use crate::pg::memory::{self, Context};
use crate::pg::unbound::datum_copy;
use crate::pg::value_layout::Layout;
use crate::pg::varlena::{detoasted, with_body};
use crate::pg::{Datum, Oid};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::Hasher;

/// A column that tells groups apart.
#[derive(Clone, Copy)]
pub struct KeyType {
    pub length: i16,
    pub by_value: bool,
}

impl KeyType {
    pub fn of(typ: Oid) -> KeyType {
        let Layout { len, by_value } = Layout::of(typ);
        KeyType {
            length: len,
            by_value,
        }
    }

    /// Appends what tells a value apart.
    ///
    /// # Safety
    /// The value must be of the type.
    unsafe fn put(self, key: &mut Vec<u8>, value: Datum, isnull: bool) {
        key.push(u8::from(isnull));
        if isnull {
            return;
        }
        if self.by_value {
            let bytes = (value.value() as u64).to_ne_bytes();
            return key.extend_from_slice(&bytes[..self.length as usize]);
        }
        // SAFETY: by contract.
        unsafe {
            if self.length > 0 {
                let start: *const u8 = value.cast_mut_ptr();
                key.extend_from_slice(core::slice::from_raw_parts(start, self.length as usize));
            } else {
                with_body(value, self.length, |body| {
                    key.extend_from_slice(&(body.len() as u32).to_ne_bytes());
                    key.extend_from_slice(body);
                });
            }
        }
    }

    /// Are two values the same bytes?
    ///
    /// # Safety
    /// They must be of the type.
    pub unsafe fn same(self, a: Datum, b: Datum) -> bool {
        if self.by_value && self.length == 8 {
            return a == b;
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        // SAFETY: by contract.
        unsafe {
            self.put(&mut left, a, false);
            self.put(&mut right, b, false);
        }
        left == right
    }

    /// The same, of values or nulls.
    ///
    /// # Safety
    /// As `same`.
    pub unsafe fn same_or_null(
        self,
        (a, a_null): (Datum, bool),
        (b, b_null): (Datum, bool),
    ) -> bool {
        if a_null || b_null {
            return a_null == b_null;
        }
        // SAFETY: by contract.
        unsafe { self.same(a, b) }
    }

    /// A copy in the current memory context, detoasted.
    ///
    /// # Safety
    /// The value must be of the type, and not null; inside a guarded entry point.
    unsafe fn copy(self, value: Datum) -> Datum {
        // SAFETY: the caller's contract.
        unsafe {
            if self.length == -1 {
                let plain = detoasted(value);
                if plain != value {
                    return plain;
                }
            }
            datum_copy(value, self.by_value, i32::from(self.length))
        }
    }
}

/// Bytes of a key that have place beside the group's number: two columns of eight.
const KEY_BYTES: usize = 24;

/// Bytes of an entry of the table of groups.
const ENTRY_BYTES: usize = KEY_BYTES + 24;

/// Most memory that is asked for before there is a group.
const MOST_ROOM: usize = 512 << 10;

/// Spreads what a quick hash has in its low bits alone.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// All groups, or those of a share.
pub struct Groups {
    types: Vec<KeyType>,
    cells_each: usize,
    share: Share,
    known: FxHashMap<SmallVec<[u8; KEY_BYTES]>, u32>,
    /// Those of one column whose values are words, but for null; none while these rise from group to group.
    known_words: FxHashMap<u64, u32>,
    words_rise: bool,
    /// `types.len()` of each group.
    pub values: Vec<(Datum, bool)>,
    /// `cells_each` of each group.
    pub cells: Vec<Cell>,
    count: usize,
    key: Vec<u8>,
    last: Vec<u8>,
    last_group: Option<u32>,
    key_bytes: usize,
}

impl Groups {
    pub fn new(types: Vec<KeyType>, cells_each: usize) -> Groups {
        Groups {
            types,
            cells_each,
            share: Share::default(),
            known: FxHashMap::default(),
            known_words: FxHashMap::default(),
            words_rise: true,
            values: Vec::new(),
            cells: Vec::new(),
            count: 0,
            key: Vec::new(),
            last: Vec::new(),
            last_group: None,
            key_bytes: 0,
        }
    }

    /// With room for as many groups as are expected, or for some of them, in a part of the bytes that all of them may take.
    pub fn with_room(
        types: Vec<KeyType>,
        cells_each: usize,
        count: f64,
        most_bytes: usize,
    ) -> Groups {
        let bytes_each = Groups::bytes_of(1.0, types.len(), cells_each) as usize;
        let count = (count as usize).min(MOST_ROOM.min(most_bytes / 4) / bytes_each);
        let mut groups = Groups::new(types, cells_each);
        if !groups.has_words() {
            groups.known.reserve(count);
        }
        groups.values.reserve(count * groups.types.len());
        groups.cells.reserve(count * cells_each);
        groups
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Bytes of a column's values, as its type says.
    pub fn length(&self, column: usize) -> i16 {
        self.types[column].length
    }

    /// Memory that so many groups take, at most, of so many columns and aggregates.
    pub fn bytes_of(count: f64, columns: usize, aggregates: usize) -> f64 {
        let of_values = columns * size_of::<(Datum, bool)>();
        // Tables of keys have up to twice the room that they need.
        count * (2 * ENTRY_BYTES + of_values + aggregates * size_of::<Cell>()) as f64
    }

    /// Memory besides what lives in memory contexts.
    pub fn bytes(&self) -> usize {
        self.key_bytes
            + self.known.capacity() * ENTRY_BYTES
            + self.known_words.capacity() * size_of::<(u64, u32)>()
            + self.values.capacity() * core::mem::size_of::<(Datum, bool)>()
            + self.cells.capacity() * core::mem::size_of::<Cell>()
    }

    pub fn clear(&mut self) {
        let share = self.share;
        *self = Groups::new(core::mem::take(&mut self.types), self.cells_each);
        self.share = share;
    }

    pub fn share(&self) -> Share {
        self.share
    }

    /// Has no others than those of a share from now on.
    pub fn keep_to(&mut self, share: Share) {
        self.share = share;
    }

    /// May the group with these columns be had?
    ///
    /// # Safety
    /// As `find`.
    #[inline]
    pub unsafe fn takes(&mut self, values: &[(Datum, bool)]) -> bool {
        if self.share.is_all() {
            return true;
        }
        self.key.clear();
        for (typ, &(value, isnull)) in self.types.iter().zip(values) {
            // SAFETY: by contract.
            unsafe { typ.put(&mut self.key, value, isnull) };
        }
        let mut hasher = FxHasher::default();
        hasher.write(&self.key);
        self.share.has(hasher.finish().wrapping_mul(SPREAD))
    }

    /// Are groups told apart by one word?
    fn has_words(&self) -> bool {
        matches!(
            self.types[..],
            [KeyType {
                length: 8,
                by_value: true
            }]
        )
    }

    /// The number of the group with these columns; `start` makes the states of a new one.
    ///
    /// # Safety
    /// The values must be of the columns' types; `context` is where columns of groups live. Inside a guard.
    pub unsafe fn find(
        &mut self,
        values: &[(Datum, bool)],
        context: Context,
        start: impl FnOnce(&mut Vec<Cell>),
    ) -> u32 {
        // Without columns there is one group, whose key is nothing to look for.
        if self.types.is_empty() && self.count > 0 {
            return 0;
        }
        let next = self.count as u32;
        if self.has_words() {
            if let &[(value, false)] = values {
                let group = self.find_word(value.value() as u64);
                if group == next {
                    self.count += 1;
                    self.values.push((value, false));
                    start(&mut self.cells);
                }
                self.last_group = Some(group);
                return group;
            }
            self.look_words_up();
            self.last_group = None;
        }
        self.key.clear();
        for (typ, &(value, isnull)) in self.types.iter().zip(values) {
            // SAFETY: by contract.
            unsafe { typ.put(&mut self.key, value, isnull) };
        }
        if let Some(last) = self.last_group {
            if self.last == self.key {
                return last;
            }
        }
        let group = match self.known.get(&self.key[..]) {
            Some(group) => *group,
            None => {
                self.count += 1;
                self.key_bytes += self.key.len();
                self.known.insert(SmallVec::from_slice(&self.key), next);
                // SAFETY: by contract.
                unsafe {
                    memory::within(context, || {
                        for (typ, &(value, isnull)) in self.types.iter().zip(values) {
                            let copy = if isnull { value } else { typ.copy(value) };
                            self.values.push((copy, isnull));
                        }
                    });
                }
                start(&mut self.cells);
                next
            }
        };
        core::mem::swap(&mut self.last, &mut self.key);
        self.last_group = Some(group);
        group
    }

    /// The group of a word, which is the next one if it is new. What comes behind the last one that was asked for is asked for next, as a rule.
    fn find_word(&mut self, word: u64) -> u32 {
        let next = self.count as u32;
        let word_of = |value: &(Datum, bool)| value.0.value() as i64;
        let behind = self.last_group.map_or(0, |group| group as usize + 1);
        if let Some(&(known, false)) = self.values.get(behind) {
            if known.value() as u64 == word {
                return behind as u32;
            }
        }
        if self.words_rise {
            let last = self.values.last().map(word_of);
            if last.is_none_or(|last| last < word as i64) {
                return next;
            }
            match self.values.binary_search_by_key(&(word as i64), word_of) {
                Ok(known) => return known as u32,
                Err(_) => self.look_words_up(),
            }
        }
        *self.known_words.entry(word).or_insert(next)
    }

    /// Words do not rise any more: they are looked up from now on.
    fn look_words_up(&mut self) {
        if core::mem::take(&mut self.words_rise) {
            self.known_words.reserve(2 * self.count);
            let words = self.values.iter().zip(0..);
            let words = words.map(|(&(value, _), group)| (value.value() as u64, group));
            self.known_words.extend(words);
        }
    }

    /// Where a group's states begin in `cells`.
    pub fn first_cell(&self, group: u32) -> usize {
        group as usize * self.cells_each
    }
}
