//! Has an index with nbtree's pages no entry within a range? Where a leaf page has an entry that comes before the range, and one that comes
//! behind it, it would have those within it too. So one page shows that there are none, and no scan is begun.
//!
//! The session remembers which page was asked, and where on it. That is a guess: the page is judged anew each time, under its lock, as a scan
//! judges it. So nothing has to be told to the session when pages are split, deleted, or used for something else.

use super::leaf_order::{Range, Wanted};
use super::leaves::{check_age, Special, IGNORED, LEAF, ROOT_AT};
use super::page::{Page, PageCursor};
use super::relation;
use super::tid;
use pgrx::pg_sys;
use smallvec::{smallvec, SmallVec};
use std::cell::RefCell;
use std::cmp::Ordering;

/// The line pointer of the high key, on all pages but the last of a level.
const HIGH_KEY: u16 = 1;
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
    /// How often in succession it was not certain that there are none.
    doubts: u8,
    /// So many questions are left unanswered before one is asked of the index again.
    rest: u8,
}

impl Guess {
    /// Where entries are found there is no use in asking: the next 1, 3, 7 and then 15 times nobody does.
    fn after(mut self, is_none: bool) -> Guess {
        self.doubts = match is_none {
            true => 0,
            false => (self.doubts + 1).min(4),
        };
        self.rest = (1 << self.doubts) - 1;
        self
    }
}

/// Guesses, by a hash of what was asked for. Others may have the same place.
const GUESSES: usize = 4096;

thread_local! {
    static KNOWN: RefCell<Vec<Guess>> = const { RefCell::new(Vec::new()) };
}

/// Is it certain that there is no entry whose first column has a given value, or is null, and whose other columns are all null?
///
/// # Safety
/// As `has_none`; `first` of the type of the index's first column.
pub unsafe fn has_none_without_time(
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    first: Option<pg_sys::Datum>,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let columns = (*(*index).rd_index).indnkeyatts as usize;
        let mut all: SmallVec<[_; 4]> = smallvec![None; columns];
        all[0] = first;
        let range = Range {
            first: &all,
            span: None,
        };
        has_none(index, snapshot, range)
    }
}

/// Is it certain that there is no entry within a range? Serializable transactions get no answer for what they read: a scan notes which
/// pages that were.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; `range` of its columns. A snapshot is null, or valid: that of the reading which the answer is
/// for.
pub unsafe fn has_none(index: pg_sys::Relation, snapshot: pg_sys::Snapshot, range: Range) -> bool {
    // SAFETY: by contract.
    unsafe {
        let notes_reads = pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32;
        if notes_reads && !snapshot.is_null() {
            return false;
        }
        let Some(wanted) = Wanted::new(index, range) else {
            return false;
        };
        let slot = wanted.hash() as usize % GUESSES;
        let mut guess = KNOWN.with_borrow(|known| known.get(slot).copied().unwrap_or_default());
        if guess.rest > 0 {
            guess.rest -= 1;
            remember(slot, guess);
            return false;
        }
        let mut cursor = PageCursor::new(index);
        let judged = wanted.ask(&mut cursor, &mut guess);
        let is_none = judged.as_ref().is_some_and(|judged| judged.is_none);
        remember(slot, guess.after(is_none));
        if let Some(judged) = judged {
            check_age(index, snapshot, judged.changed);
        }
        is_none
    }
}

fn remember(slot: usize, guess: Guess) {
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(GUESSES, Guess::default());
        }
        known[slot] = guess;
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

impl Wanted<'_> {
    /// What the page says that was guessed, or else the one that is found from the root: that is the next guess.
    fn ask(&self, cursor: &mut PageCursor, guess: &mut Guess) -> Option<Judged> {
        let is_there = guess.buffer > 0 && cursor.go_again(guess.block, guess.buffer);
        let judged = is_there.then(|| cursor.locked(|page| self.judge(page, guess.place)));
        let judged = judged.flatten().or_else(|| {
            let (block, judged) = self.descend(cursor)?;
            (guess.block, guess.buffer) = (block, cursor.buffer());
            Some(judged)
        });
        if let Some(judged) = &judged {
            guess.place = judged.place;
        }
        judged
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
}
