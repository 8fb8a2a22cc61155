//! Finds which entries an index with nbtree's pages has within a range, if any. Where a leaf page has an entry that comes before the range, or the page before it
//! ends before the range, and it has an entry that comes behind, it has those within it too. So one page shows them, or that there are none, and no scan is begun.
//!
//! The session remembers which page was asked, and where on it. That is a guess: the page is judged anew each time, under its lock, as a scan
//! judges it. So nothing has to be told to the session when pages are split, deleted, or used for something else.

use super::error;
use super::leaf_descent::HIGH_KEY;
use super::leaf_range::{Range, Wanted};
use super::leaves::{check_age, Item, Special, IGNORED, LEAF};
use super::page::{Page, PageCursor};
use super::relation::Index;
use super::snapshot::{self, Snapshot};
use super::tid::Tid;
use pgrx::pg_sys;
use smallvec::{smallvec, SmallVec};
use std::cell::RefCell;
use std::cmp::Ordering;

/// Entries without a time whose TIDs are told.
const MOST_TIDS: usize = 64;
/// Entries of a range, and pages that are read behind the first one: more of them take the time that a scan takes.
const MOST_OF_RANGE: usize = 512;
const PAGES_MORE: usize = 2;
/// The same of a range that has no first columns, whose entries a scan would compare one by one.
const MOST_OF_SPAN: usize = 8192;
const PAGES_OF_SPAN: usize = 64;

/// Where an answer was found last.
#[derive(Clone, Copy, Default)]
pub(super) struct Guess {
    /// Of what was asked; 0 where nothing was.
    hash: u64,
    block: u32,
    /// The shared buffer that the page was in; 0 for none.
    buffer: pg_sys::Buffer,
    /// The first item that is not before the entries.
    place: u16,
    /// How often in succession there was no answer.
    doubts: u8,
    /// So many questions are left unanswered before one is asked of the index again.
    rest: u8,
}

impl Guess {
    /// Of a question with this hash, which is not 0.
    pub fn of(hash: u64) -> Guess {
        KNOWN.with_borrow(|known| known.get(hash))
    }

    /// Goes to the page, if it is in the buffer where it was.
    pub fn go(&self, cursor: &mut PageCursor) -> bool {
        self.buffer > 0 && cursor.go_again(self.block, self.buffer)
    }

    /// The answer is on the page that the cursor is on.
    pub fn is_at(&mut self, block: u32, cursor: &PageCursor) {
        (self.block, self.buffer) = (block, cursor.buffer());
    }

    /// The page as it was, when its last change was at this position in the log.
    pub fn state(&self, changed: u64) -> PageState {
        PageState {
            block: self.block,
            buffer: self.buffer,
            changed,
        }
    }

    /// Has the session remember it.
    pub fn keep(self) {
        KNOWN.with_borrow_mut(|known| known.set(self));
    }

    /// Where there was no answer there is hardly use in asking: the next 1, 3, 7 and then 15 times nobody does.
    fn after(mut self, told: bool) -> Guess {
        self.doubts = match told {
            true => 0,
            false => (self.doubts + 1).min(4),
        };
        self.rest = (1 << self.doubts) - 1;
        self
    }
}

/// Guesses, each in the only place that its hash allows.
struct Guesses {
    all: Vec<Guess>,
    /// How many have lost their place to others since there were so many places.
    lost: usize,
}

const FIRST_PLACES: usize = 512;
const MOST_PLACES: usize = 64 << 10;

impl Guesses {
    fn get(&self, hash: u64) -> Guess {
        let place = self.all.get(hash as usize % self.all.len().max(1));
        let known = place.filter(|guess| guess.hash == hash).copied();
        known.unwrap_or(Guess {
            hash,
            ..Guess::default()
        })
    }

    fn set(&mut self, guess: Guess) {
        if self.all.is_empty() {
            self.all.resize(FIRST_PLACES, Guess::default());
        }
        let place = guess.hash as usize % self.all.len();
        let before = core::mem::replace(&mut self.all[place], guess);
        self.lost += usize::from(before.hash != 0 && before.hash != guess.hash);
        if self.lost > self.all.len() && self.all.len() < MOST_PLACES {
            let places = 4 * self.all.len();
            let known = core::mem::replace(&mut self.all, vec![Guess::default(); places]);
            for guess in known.into_iter().filter(|guess| guess.hash != 0) {
                self.all[guess.hash as usize % places] = guess;
            }
            self.lost = 0;
        }
    }
}

thread_local! {
    static KNOWN: RefCell<Guesses> = const { RefCell::new(Guesses { all: Vec::new(), lost: 0 }) };
}

/// What is asked of the entries whose first column has a given value, or is null, and whose other columns are all null.
///
/// # Safety
/// `index` must be open; `first` of the type of its first column.
unsafe fn without_time<R>(
    index: Index<'_>,
    first: Option<pg_sys::Datum>,
    ask: impl FnOnce(Range) -> R,
) -> R {
    let columns = index.form().indnkeyatts as usize;
    let mut all: SmallVec<[_; 4]> = smallvec![None; columns];
    all[0] = first;
    ask(Range {
        first: &all,
        span: None,
        with_nulls: false,
    })
}

/// Entries that a page was found to have: all of those that were asked for.
pub struct Told {
    pub tids: SmallVec<[Tid; 8]>,
    /// None where changes of the page are not logged.
    pub page: Option<PageState>,
}

/// A page of an index as it was at a time. As long as it is the same, no entry on it has come or gone: each change that is logged gives the page another
/// position in the log. Only marks of entries that scans have found dead are not logged.
#[derive(Clone, Copy)]
pub struct PageState {
    block: u32,
    /// The shared buffer that it was in: a guess.
    buffer: pg_sys::Buffer,
    changed: u64,
}

impl PageState {
    /// Is the page certain to be the same still? It is not asked for where it has gone to another buffer. `snapshot` is that of the reading which the answer
    /// is for.
    pub fn is_same(self, index: Index<'_>, snapshot: Snapshot<'_>) -> bool {
        let mut cursor = PageCursor::new(index);
        let is_same = cursor.go_again(self.block, self.buffer)
            && cursor.locked(Page::changed) == self.changed;
        if is_same {
            check_age(index, snapshot, self.changed);
        }
        is_same
    }
}

/// Is it certain that there is no entry whose first column has a given value, or is null, and whose other columns are all null?
///
/// # Safety
/// As `has_none`; `first` of the type of the index's first column.
pub unsafe fn has_none_without_time(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    first: Option<pg_sys::Datum>,
) -> bool {
    // SAFETY: by contract.
    unsafe { without_time(index, first, |range| has_none(index, snapshot, range)) }
}

/// All entries whose first column has a given value, or is null, and whose other columns are all null. None where they are not few, or
/// one page does not tell: a scan does. It is no reading in the sense of serializable transactions.
///
/// # Safety
/// As `has_none`; `first` of the type of the index's first column.
pub unsafe fn all_without_time(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    first: Option<pg_sys::Datum>,
) -> Option<Told> {
    // SAFETY: by contract.
    unsafe {
        without_time(index, first, |range| {
            let wanted = Wanted::new(index, range)?;
            ask(&wanted, snapshot, MOST_TIDS, 0)
        })
    }
}

/// All entries in a range. Other things are as for `all_without_time`.
///
/// # Safety
/// As `has_none`.
pub unsafe fn all(index: Index<'_>, snapshot: Snapshot<'_>, range: Range) -> Option<Told> {
    // SAFETY: by contract.
    unsafe {
        ask(
            &Wanted::new(index, range)?,
            snapshot,
            MOST_OF_RANGE,
            PAGES_MORE,
        )
    }
}

/// All entries whose first column lies between two values. Other things are as for `all_without_time`, but that there may be many.
///
/// # Safety
/// As `has_none`; the values of the type of the index's first column.
pub unsafe fn all_between(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    least: pg_sys::Datum,
    greatest: pg_sys::Datum,
) -> Option<Told> {
    let range = Range {
        first: &[],
        span: Some((least, Some(greatest))),
        with_nulls: false,
    };
    // SAFETY: by contract.
    unsafe {
        let wanted = Wanted::new(index, range)?;
        // Each span is asked for once, as a rule: nothing is worth remembering.
        let mut nowhere = Guess::default();
        answer(&wanted, snapshot, &mut nowhere, MOST_OF_SPAN, PAGES_OF_SPAN)
    }
}

/// Is it certain that there is no entry within a range? Serializable transactions get no answer for what they read: a scan notes which
/// pages that were.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; `range` of its columns. A snapshot is null, or valid: that of the reading which the answer is
/// for.
pub unsafe fn has_none(index: Index<'_>, snapshot: Snapshot<'_>, range: Range) -> bool {
    // SAFETY: by contract.
    unsafe {
        let notes_reads = pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32;
        if notes_reads && !snapshot.is_none() {
            return false;
        }
        let Some(wanted) = Wanted::new(index, range) else {
            return false;
        };
        ask(&wanted, snapshot, 0, 0).is_some()
    }
}

/// All entries in a range, where they are `most` at most, and one page tells, or that and so many `others` behind it.
///
/// # Safety
/// See `has_none`.
unsafe fn ask(wanted: &Wanted, snapshot: Snapshot<'_>, most: usize, others: usize) -> Option<Told> {
    let hash = wanted.hash(most).max(1);
    let mut guess = Guess::of(hash);
    if guess.rest > 0 {
        guess.rest -= 1;
        guess.keep();
        return None;
    }
    // SAFETY: by contract.
    let told = unsafe { answer(wanted, snapshot, &mut guess, most, others) };
    guess.after(told.is_some()).keep();
    told
}

/// The same, from where it was guessed to be; `guess` is then where it was.
///
/// # Safety
/// See `has_none`.
unsafe fn answer(
    wanted: &Wanted,
    snapshot: Snapshot<'_>,
    guess: &mut Guess,
    most: usize,
    others: usize,
) -> Option<Told> {
    let mut cursor = PageCursor::new(wanted.index);
    let judged = wanted.ask(&mut cursor, guess, most)?;
    check_age(wanted.index, snapshot, judged.changed);
    let mut tids = judged.tids?;
    if let Some(next) = judged.next {
        wanted.follow(&mut cursor, snapshot, next, others, most, &mut tids)?;
    }
    let is_known = judged.next.is_none() && wanted.index.needs_wal();
    let page = is_known.then(|| guess.state(judged.changed));
    Some(Told { tids, page })
}

/// What a page says.
struct Judged {
    /// Those of all entries, where they are not more than were asked for.
    tids: Option<SmallVec<[Tid; 8]>>,
    /// The first item that is not before the entries.
    place: u16,
    /// The page before, where entries could be on it too: all that are on this one are not before them.
    before: Option<u32>,
    /// The page behind, where more of them may be.
    next: Option<u32>,
    /// The position in the log behind which the page was not changed.
    changed: u64,
}

/// What comes behind the entries that a page has.
enum Behind {
    /// Others, or nothing.
    Others,
    /// A page that may have more of them.
    Page(u32),
    /// More of them than were asked for.
    TooMany,
}

impl Wanted<'_> {
    /// What the page says that was guessed, or else the one that is found from the root: that is the next guess.
    fn ask(&self, cursor: &mut PageCursor, guess: &mut Guess, most: usize) -> Option<Judged> {
        let is_there = guess.go(cursor);
        let judged = is_there.then(|| cursor.locked(|page| self.judge(page, guess.place, most)));
        let judged = judged.flatten();
        let judged = judged.filter(|judged| self.has_all(cursor, guess.block, judged));
        let judged = judged.or_else(|| {
            let (block, judged) = self.descend(cursor, |page| self.judge(page, 0, most))?;
            let judged = judged?;
            guess.is_at(block, cursor);
            self.has_all(cursor, block, &judged).then_some(judged)
        });
        if let Some(judged) = &judged {
            guess.place = judged.place;
        }
        judged
    }

    /// Are all of the entries on a page that was judged, and none on the one before? What may be on a page never begins later than it did once, but for
    /// pages that are used again, and there are none of these as long as a snapshot is held.
    fn has_all(&self, cursor: &mut PageCursor, block: u32, judged: &Judged) -> bool {
        let Some(before) = judged.before else {
            return true;
        };
        if !snapshot::any_is_held() || !self.index.has_block(before) {
            return false;
        }
        cursor.go(before);
        cursor.locked(|page| {
            let special = Special::of(page);
            special.flags & (LEAF | IGNORED) == LEAF
                && special.next == block
                && self.order(page, HIGH_KEY) == Some(Ordering::Less)
        })
    }

    /// What a page that is locked says, if it is the leaf that decides, of `most` entries at most. `guess` is where the first item is that is not
    /// before the entries, or 0.
    fn judge(&self, page: &Page, guess: u16, most: usize) -> Option<Judged> {
        let special = Special::of(page);
        if special.flags & (LEAF | IGNORED) != LEAF {
            return None;
        }
        let start = special.first();
        let place = self.first_not_before_near(page, start, guess)?;
        // What is before the first item may be on the page before, if there is one.
        let before = (place == start && special.previous != 0).then_some(special.previous);
        let mut tids = SmallVec::new();
        let behind = self.collect(page, &special, place, most, &mut tids)?;
        let next = match behind {
            Behind::Page(next) => Some(next),
            _ => None,
        };
        Some(Judged {
            tids: (!matches!(behind, Behind::TooMany)).then_some(tids),
            place,
            before,
            next,
            changed: page.changed(),
        })
    }

    /// Adds those of the entries that a page which is locked has from an item on. None where these are none of its, or cannot be read.
    fn collect(
        &self,
        page: &Page,
        special: &Special,
        from: u16,
        most: usize,
        tids: &mut SmallVec<[Tid; 8]>,
    ) -> Option<Behind> {
        let last = page.line_pointers();
        let end = self.first_behind(page, from)?;
        if from < end && self.order(page, from)? != Ordering::Equal {
            return None;
        }
        for at in from..end {
            if page.is_dead(at) && !self.also_dead {
                continue;
            }
            tids.extend(Item::of(page.stored(at)?)?.tids());
            if tids.len() > most {
                return Some(Behind::TooMany);
            }
        }
        if end <= last {
            return Some(Behind::Others);
        }
        if special.next == 0 {
            return Some(Behind::Others);
        }
        // All that is behind the last item is on the next page, and not before this one's high key.
        match self.order(page, HIGH_KEY)? {
            Ordering::Greater => Some(Behind::Others),
            Ordering::Equal => Some(Behind::Page(special.next)),
            Ordering::Less => None,
        }
    }

    /// Adds those that are on a page behind one that was judged, and on others behind that: they were there, or on the one that was judged, when that was
    /// read, since entries move to the right only, onto new pages between both. None where so many pages have not all of them.
    fn follow(
        &self,
        cursor: &mut PageCursor,
        snapshot: Snapshot<'_>,
        mut next: u32,
        pages: usize,
        most: usize,
        tids: &mut SmallVec<[Tid; 8]>,
    ) -> Option<()> {
        for _ in 0..pages {
            error::check_interrupts();
            if !self.index.has_block(next) {
                return None;
            }
            cursor.go(next);
            let (changed, behind) = cursor.locked(|page| {
                let special = Special::of(page);
                let behind = match special.flags & (LEAF | IGNORED) {
                    LEAF => self.collect(page, &special, special.first(), most, tids),
                    _ => None,
                };
                (page.changed(), behind)
            });
            check_age(self.index, snapshot, changed);
            match behind? {
                Behind::Others => return Some(()),
                Behind::Page(page) => next = page,
                Behind::TooMany => return None,
            }
        }
        None
    }
}
