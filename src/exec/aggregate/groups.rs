//! The groups that were met so far: their columns, and a state of each aggregate. Groups are told apart by the bytes of their columns:
//! what SQL takes for equal though its bytes differ, core's final step brings together.

use super::fold::Cell;
use super::key_type::KeyType;
use super::share::Share;
use crate::pg::memory::{self, Context};
use crate::pg::Datum;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// The hash of a group's columns, and its number.
type Entry = (u32, u32);

/// Bytes of an entry of the table of groups.
const ENTRY_BYTES: usize = size_of::<Entry>() + 1;

/// What a copy of a value takes that is passed by reference, with what the allocator adds.
const COPY_BYTES: usize = 72;

/// Most memory that there is before there is a group.
const MOST_ROOM: usize = 512 << 10;

/// The same, where all groups may take so many bytes.
fn most_room(most_bytes: usize) -> usize {
    MOST_ROOM.min(most_bytes / 4)
}

/// Spreads what a quick hash has in its low bits alone.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// All groups, or those of a share.
pub struct Groups {
    types: Vec<KeyType>,
    /// All columns are passed by value.
    is_plain: bool,
    cells_each: usize,
    share: Share,
    /// None while all groups are told apart by one word that rises from group to group.
    known: HashTable<Entry>,
    words_rise: bool,
    /// `types.len()` of each group.
    pub values: Vec<(Datum, bool)>,
    /// `cells_each` of each group.
    pub cells: Vec<Cell>,
    count: usize,
    /// Whose columns were asked for last.
    last: Option<u32>,
}

/// The bits of a hash that the table of groups goes by: others than those of a share.
fn table_hash(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// What the table takes for the hash of an entry: both ends of it count.
fn entry_hash(&(hash, _): &Entry) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Groups {
    pub fn new(types: Vec<KeyType>, cells_each: usize) -> Groups {
        Groups {
            is_plain: types.iter().all(|typ| typ.by_value),
            words_rise: is_word(&types),
            types,
            cells_each,
            share: Share::default(),
            known: HashTable::new(),
            values: Vec::new(),
            cells: Vec::new(),
            count: 0,
            last: None,
        }
    }

    /// With room for as many groups as are expected, or for some of them, in a part of the bytes that all of them may take.
    pub fn with_room(
        types: Vec<KeyType>,
        cells_each: usize,
        count: f64,
        most_bytes: usize,
    ) -> Groups {
        let bytes_each = Groups::bytes_of(1.0, types.iter().copied(), cells_each) as usize;
        let count = (count as usize).min(most_room(most_bytes) / bytes_each);
        let mut groups = Groups::new(types, cells_each);
        if !groups.words_rise {
            groups.known.reserve(count, entry_hash);
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

    /// Memory that so many groups of these columns take, with so many aggregates, if copies of values are short.
    pub fn bytes_of(count: f64, columns: impl Iterator<Item = KeyType>, aggregates: usize) -> f64 {
        let of_value = |typ: KeyType| {
            let of_copy = if typ.by_value { 0 } else { COPY_BYTES };
            size_of::<(Datum, bool)>() + of_copy
        };
        let of_values: usize = columns.map(of_value).sum();
        // Tables have up to twice the room that they need.
        count * (2 * ENTRY_BYTES + of_values + aggregates * size_of::<Cell>()) as f64
    }

    /// Memory besides what lives in memory contexts.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * ENTRY_BYTES
            + self.values.capacity() * size_of::<(Datum, bool)>()
            + self.cells.capacity() * size_of::<Cell>()
    }

    /// Forgets all groups. Those that come next have their room, if it is a part of the bytes that all of them may take.
    pub fn clear(&mut self, most_bytes: usize) {
        if self.bytes() > most_room(most_bytes) {
            let share = self.share;
            *self = Groups::new(core::mem::take(&mut self.types), self.cells_each);
            self.share = share;
            return;
        }
        self.known.clear();
        self.words_rise = is_word(&self.types);
        self.values.clear();
        self.cells.clear();
        (self.count, self.last) = (0, None);
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
    pub unsafe fn takes(&self, values: &[(Datum, bool)]) -> bool {
        // SAFETY: by contract.
        self.share.is_all()
            || self
                .share
                .has(unsafe { self.hash(values) }.wrapping_mul(SPREAD))
    }

    /// # Safety
    /// As `find`.
    unsafe fn hash(&self, values: &[(Datum, bool)]) -> u64 {
        let mut hasher = FxHasher::default();
        for (typ, &value) in self.types.iter().zip(values) {
            // SAFETY: by contract.
            unsafe { typ.hash(value, &mut hasher) };
        }
        hasher.finish()
    }

    /// Does a group have these columns?
    ///
    /// # Safety
    /// As `find`.
    #[inline]
    unsafe fn is(&self, group: u32, values: &[(Datum, bool)]) -> bool {
        let own = &self.values[group as usize * self.types.len()..];
        let mut columns = self.types.iter().zip(own).zip(values);
        // SAFETY: by contract.
        columns.all(|((typ, &own), &value)| unsafe { typ.same_or_null(own, value) })
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
        // SAFETY: by contract.
        let group = unsafe {
            self.known(values).unwrap_or_else(|| {
                let next = self.count as u32;
                self.count += 1;
                match self.is_plain {
                    true => self.values.extend_from_slice(values),
                    false => memory::within(context, || self.copy(values)),
                }
                start(&mut self.cells);
                next
            })
        };
        self.last = Some(group);
        group
    }

    /// Copies the columns of a new group into the current memory context.
    ///
    /// # Safety
    /// As `find`.
    unsafe fn copy(&mut self, values: &[(Datum, bool)]) {
        for (typ, &(value, isnull)) in self.types.iter().zip(values) {
            let copy = match isnull {
                true => value,
                // SAFETY: by contract.
                false => unsafe { typ.copy(value) },
            };
            self.values.push((copy, isnull));
        }
    }

    /// The number of the group with these columns. None where there is none; the next one is known by them then.
    ///
    /// # Safety
    /// As `find`.
    unsafe fn known(&mut self, values: &[(Datum, bool)]) -> Option<u32> {
        // SAFETY: by contract.
        unsafe {
            if let Some(last) = self.last {
                // What comes behind the last one that was asked for is asked for next, as a rule.
                let near = [last, last + 1].into_iter();
                let mut near = near.filter(|&group| self.is_plain && (group as usize) < self.count);
                if let Some(near) = near.find(|&group| self.is(group, values)) {
                    return Some(near);
                }
            }
            if self.words_rise {
                match self.rising(values) {
                    Some(known) => return known,
                    None => self.look_words_up(),
                }
            }
            let hash = table_hash(self.hash(values));
            let next = self.count as u32;
            let is_same = |&(of_group, group): &Entry| of_group == hash && self.is(group, values);
            match self.known.find(entry_hash(&(hash, 0)), is_same) {
                Some(&(_, known)) => Some(known),
                None => {
                    let entry = (hash, next);
                    self.known
                        .insert_unique(entry_hash(&entry), entry, entry_hash);
                    None
                }
            }
        }
    }

    /// The same, of words while they rise. None where they do not rise any more.
    fn rising(&self, values: &[(Datum, bool)]) -> Option<Option<u32>> {
        let &[(word, false)] = values else {
            return None;
        };
        let word_of = |value: &(Datum, bool)| value.0.value() as i64;
        let word = word.value() as i64;
        if self.values.last().is_none_or(|last| word_of(last) < word) {
            return Some(None);
        }
        let known = self.values.binary_search_by_key(&word, word_of);
        known.ok().map(|known| Some(known as u32))
    }

    /// Words do not rise any more: they are looked up from now on.
    ///
    /// # Safety
    /// Inside a guard.
    unsafe fn look_words_up(&mut self) {
        self.words_rise = false;
        self.known.reserve(2 * self.count, entry_hash);
        for group in 0..self.count {
            // SAFETY: values of groups are of the columns' types.
            let hash = unsafe { self.hash(&self.values[group..=group]) };
            let entry = (table_hash(hash), group as u32);
            self.known
                .insert_unique(entry_hash(&entry), entry, entry_hash);
        }
    }

    /// Where a group's states begin in `cells`.
    pub fn first_cell(&self, group: u32) -> usize {
        group as usize * self.cells_each
    }
}

/// Are groups told apart by one word?
fn is_word(types: &[KeyType]) -> bool {
    matches!(
        types,
        [KeyType {
            length: 8,
            by_value: true
        }]
    )
}
