//! Has an index with nbtree's pages no entry whose first column has a given value, or is null, and whose other columns are all null? Where
//! a leaf page has an entry that comes before such ones, and one that comes behind them, it would have them too. So one page shows that
//! there are none, and no scan is begun.
//!
//! The session remembers which page was asked, and where on it. That is a guess: the page is judged anew each time, under its lock, as a scan
//! judges it. So nothing has to be told to the session when pages are split, deleted, or used for something else.

use super::leaves::{check_age, Special, ALTERNATIVE_TID, IGNORED, LEAF, ROOT_AT};
use super::page::{Page, PageCursor};
use super::relation;
use super::tid;
use super::varlena;
use pgrx::pg_sys;
use rustc_hash::FxHasher;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A pivot has a part of the columns only: this many of them, by its line pointer number.
const KEPT_COLUMNS: u16 = 0x0fff;
const HAS_NULLS: u16 = 0x8000;
const TUPLE_HEADER_BYTES: usize = 8;
/// With a bit for each of 32 columns, and aligned.
const HEADER_BYTES_WITH_NULLS: usize = 16;
/// The line pointer of the high key, on all pages but the last of a level.
const HIGH_KEY: u16 = 1;
const ORDER_FUNCTION: u16 = 1;
/// No index is so high, nor are so many pages split at once.
const MOST_STEPS: usize = 64;

/// Where an answer was found last.
#[derive(Clone, Copy, Default)]
struct Guess {
    block: u32,
    /// The shared buffer that the page was in; 0 for none.
    buffer: pg_sys::Buffer,
    /// The first item that is not before the entries.
    place: u16,
}

/// Guesses, by a hash of what was asked for.
const GUESSES: usize = 4096;

thread_local! {
    static KNOWN: RefCell<Vec<Guess>> = const { RefCell::new(Vec::new()) };
}

/// Is it certain that there is no such entry? `first` is the value of the first column; without one, it is null. Serializable transactions
/// get no answer for what they read: a scan notes which pages that were.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; `first` of its first column's type. A snapshot is null, or valid: that of the reading which the answer is for.
pub unsafe fn has_none(
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    first: Option<pg_sys::Datum>,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let notes_reads = pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32;
        if notes_reads && !snapshot.is_null() {
            return false;
        }
        let Some(wanted) = Wanted::new(index, first) else {
            return false;
        };
        let slot = wanted.slot();
        let guess = KNOWN.with_borrow(|known| known.get(slot).copied().unwrap_or_default());
        let mut cursor = PageCursor::new(index);
        if guess.buffer > 0 && cursor.go_again(guess.block, guess.buffer) {
            let judged = cursor.locked(|page| wanted.judge(page, guess.place));
            if let Some(judged) = judged {
                if judged.place != guess.place {
                    remember(slot, guess.block, guess.buffer, judged.place);
                }
                check_age(index, snapshot, judged.changed);
                return judged.is_none;
            }
        }
        let Some((block, judged)) = wanted.descend(&mut cursor) else {
            return false;
        };
        remember(slot, block, cursor.buffer(), judged.place);
        check_age(index, snapshot, judged.changed);
        judged.is_none
    }
}

fn remember(slot: usize, block: u32, buffer: pg_sys::Buffer, place: u16) {
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(GUESSES, Guess::default());
        }
        known[slot] = Guess {
            block,
            buffer,
            place,
        };
    });
}

/// What a page says.
struct Judged {
    is_none: bool,
    /// The first item that is not before the entries.
    place: u16,
    /// The position in the log behind which the page was not changed.
    changed: u64,
}

/// A step on the way to the leaf.
enum Step {
    To(u32),
    Leaf(Option<Judged>),
    /// The pages do not hang together.
    Lost,
}

/// The entries that are asked about.
struct Wanted {
    index: pg_sys::Relation,
    first: Option<pg_sys::Datum>,
    columns: usize,
    /// Length and kind of the first column's values.
    length: i16,
    by_value: bool,
    /// Items that scans have found dead count.
    also_dead: bool,
}

impl Wanted {
    /// None where the index is in another order than the one that is known here: ascending, nulls last.
    unsafe fn new(index: pg_sys::Relation, first: Option<pg_sys::Datum>) -> Option<Wanted> {
        // SAFETY: the caller's contract; the arrays have an entry for each key column.
        unsafe {
            let form = &*(*index).rd_index;
            let columns = form.indnkeyatts as usize;
            let is_known = (0..columns).all(|at| *(*index).rd_indoption.add(at) == 0);
            if !is_known || form.indnatts != form.indnkeyatts {
                return None;
            }
            let attribute = relation::attributes((*index).rd_att).first()?;
            Some(Wanted {
                index,
                first,
                columns,
                length: attribute.attlen,
                by_value: attribute.attbyval,
                also_dead: pg_sys::TransactionStartedDuringRecovery(),
            })
        }
    }

    /// Where a guess for it is kept. Others may have the same place: a guess may be wrong.
    fn slot(&self) -> usize {
        let mut hasher = FxHasher::default();
        // SAFETY: the index is open, the value of its first column.
        unsafe {
            relation::file_number(self.index).to_u32().hash(&mut hasher);
            match self.first {
                None => {}
                Some(value) if self.by_value => (1u8, value.value()).hash(&mut hasher),
                Some(value) if self.length > 0 => {
                    let length = self.length as usize;
                    let start: *const u8 = value.cast_mut_ptr();
                    core::slice::from_raw_parts(start, length).hash(&mut hasher);
                }
                Some(value) => {
                    varlena::with_body(value, self.length, |body| body.hash(&mut hasher));
                }
            }
        }
        hasher.finish() as usize % GUESSES
    }

    /// Finds the leaf that has the entries if there are any, from the root. None where none is sure to be it.
    fn descend(&self, cursor: &mut PageCursor) -> Option<(u32, Judged)> {
        // SAFETY: the index is open.
        unsafe {
            if !relation::has_block(self.index, 0) {
                return None;
            }
            cursor.go(0);
            // SAFETY: within the meta page.
            let mut block = cursor.locked(|page| {
                let at = page.as_ptr().cast::<u8>().add(ROOT_AT);
                at.cast::<u32>().read_unaligned()
            });
            for _ in 0..MOST_STEPS {
                // No root is page 0.
                if block == 0 || !relation::has_block(self.index, block) {
                    return None;
                }
                cursor.go(block);
                match cursor.locked(|page| self.step(page)) {
                    Step::To(next) => block = next,
                    Step::Leaf(judged) => return judged.map(|judged| (block, judged)),
                    Step::Lost => return None,
                }
            }
            None
        }
    }

    /// Where the way goes on from a page that is locked.
    fn step(&self, page: &Page) -> Step {
        let special = Special::of(page);
        if special.flags & IGNORED != 0 {
            return Step::To(special.next);
        }
        let is_behind = special.next != 0 && self.order(page, HIGH_KEY) == Some(Ordering::Less);
        if is_behind {
            return Step::To(special.next);
        }
        if special.flags & LEAF != 0 {
            return Step::Leaf(self.judge(page, 0));
        }
        // The first item of an inner page has no columns, and comes before everything.
        let child = self
            .first_not_before(page, special.first())
            .filter(|&behind| behind > special.first())
            .and_then(|behind| page.tuple(behind - 1));
        // SAFETY: an index tuple starts with its TID, which names the child page.
        child.map_or(Step::Lost, |item| unsafe {
            Step::To(tid::read(item.header.cast()).block)
        })
    }

    /// What a page that is locked says, if it is the leaf that decides. `guess` is where the first item is that is not before the entries, or 0.
    fn judge(&self, page: &Page, guess: u16) -> Option<Judged> {
        let special = Special::of(page);
        if special.flags & (LEAF | IGNORED) != LEAF {
            return None;
        }
        let (start, last) = (special.first(), page.line_pointers());
        let is_before = |at: u16| Some(self.order(page, at)? == Ordering::Less);
        let fits = (start..=last.saturating_add(1)).contains(&guess)
            && (guess == start || is_before(guess - 1)?)
            && (guess > last || !is_before(guess)?);
        let place = match fits {
            true => guess,
            false => self.first_not_before(page, start)?,
        };
        // What is before the first item may be on the page before, if there is one.
        if place == start && special.previous != 0 {
            return None;
        }
        let judged = |is_none| {
            Some(Judged {
                is_none,
                place,
                changed: page.changed(),
            })
        };
        let mut at = place;
        while at <= last {
            match self.order(page, at)? {
                Ordering::Equal if page.is_dead(at) && !self.also_dead => at += 1,
                Ordering::Equal => return judged(false),
                Ordering::Greater => return judged(true),
                Ordering::Less => return None,
            }
        }
        // All that is behind the last item is on the next page, if there is one, and not before this one's high key.
        let is_last = special.next == 0 || self.order(page, HIGH_KEY)? == Ordering::Greater;
        if is_last {
            judged(true)
        } else {
            None
        }
    }

    /// The first item from `start` on that does not come before the entries; one more than there are where all do.
    fn first_not_before(&self, page: &Page, start: u16) -> Option<u16> {
        let (mut low, mut high) = (start, page.line_pointers().checked_add(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.order(page, middle)? == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    /// How an item compares with the entries, by the order of the index: a column that a pivot has not comes before all values.
    fn order(&self, page: &Page, offset: u16) -> Option<Ordering> {
        let item = page.stored(offset)?;
        let length = item.len as usize;
        if length < TUPLE_HEADER_BYTES {
            return None;
        }
        // SAFETY: the page is pinned and locked; what is read lies within the item.
        unsafe {
            let tuple: pg_sys::IndexTuple = item.header.cast();
            let (info, named) = ((*tuple).t_info, tid::read(&raw mut (*tuple).t_tid).offset);
            // One that has the mark twice has a list of TIDs, and all columns.
            let is_pivot = info & ALTERNATIVE_TID != 0 && named & ALTERNATIVE_TID == 0;
            let kept = match is_pivot {
                true => usize::from(named & KEPT_COLUMNS),
                false => self.columns,
            };
            let has_nulls = info & HAS_NULLS != 0;
            let values = match has_nulls {
                true => HEADER_BYTES_WITH_NULLS,
                false => TUPLE_HEADER_BYTES,
            };
            if length < values {
                return None;
            }
            let bytes = item.header.cast::<u8>();
            let is_null = |at: usize| {
                has_nulls && *bytes.add(TUPLE_HEADER_BYTES + at / 8) & (1 << (at % 8)) == 0
            };
            for at in 0..self.columns {
                if at >= kept {
                    return Some(Ordering::Less);
                }
                let order = match self.first.filter(|_| at == 0) {
                    Some(_) if is_null(at) => Ordering::Greater,
                    Some(wanted) => {
                        let stored = self.first_of(bytes.add(values), length - values)?;
                        self.compare(stored, wanted)
                    }
                    None if is_null(at) => Ordering::Equal,
                    None => Ordering::Less,
                };
                if order != Ordering::Equal {
                    return Some(order);
                }
            }
            Some(Ordering::Equal)
        }
    }

    /// The value of the first column, which begins at `start` and has `room`.
    unsafe fn first_of(&self, start: *const u8, room: usize) -> Option<pg_sys::Datum> {
        if room < usize::try_from(self.length).unwrap_or(1) {
            return None;
        }
        let signed = |value: i64| pg_sys::Datum::from(value as usize);
        // SAFETY: by contract.
        unsafe {
            Some(match (self.by_value, self.length) {
                (true, 1) => signed(i64::from(start.cast::<i8>().read_unaligned())),
                (true, 2) => signed(i64::from(start.cast::<i16>().read_unaligned())),
                (true, 4) => signed(i64::from(start.cast::<i32>().read_unaligned())),
                (true, _) => signed(start.cast::<i64>().read_unaligned()),
                (false, _) => pg_sys::Datum::from(start.cast_mut()),
            })
        }
    }

    /// Order of two values of the first column.
    unsafe fn compare(&self, a: pg_sys::Datum, b: pg_sys::Datum) -> Ordering {
        // SAFETY: the index is open, the values of its first column. nbtree calls the function under the same lock.
        unsafe {
            let function = pg_sys::index_getprocinfo(self.index, 1, ORDER_FUNCTION);
            let collation = *(*self.index).rd_indcollation;
            let order = pg_sys::FunctionCall2Coll(function, collation, a, b);
            (order.value() as i32).cmp(&0)
        }
    }
}
